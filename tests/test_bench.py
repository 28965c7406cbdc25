"""Many runs: each once, side by side, and one that fails stops no other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marvel import data as datasets
from marvel.bench import bench, records
from marvel.config import Config
from marvel.errors import InvalidInput, UnknownName
from marvel.results import short
from marvel.run import Run, as_plain, train
from marvel.trainer import Epoch
from toy import problem


@pytest.fixture
def data(tmp_path: Path) -> str:
    x, y, _ = problem(60, 3, noise=0.0, seed=0)
    np.savez(tmp_path / "toy.npz", x=x[:40].numpy(), y=y[:40].numpy(), x_test=x[40:].numpy(), y_test=y[40:].numpy())
    return str(tmp_path / "toy.npz")


def settings(data: str, **changes: Any) -> Config:
    usual: dict[str, Any] = {"data": data, "method": "ce", "noise": "symmetric", "rate": 0.3, "epochs": 2, "batch": 16}
    return Config(**(usual | {"device": "cpu"} | changes))


class Watch:
    """What the bench showed: (seed, epoch)."""

    def __init__(self) -> None:
        self.shown: list[tuple[int, int]] = []

    def __call__(self, config: Config, epoch: Epoch) -> None:
        self.shown.append((config.seed, epoch.epoch))


def test_each_line_is_a_record_with_the_settings_as_asked(data: str, tmp_path: Path) -> None:
    results = tmp_path / "deep" / "results.jsonl"
    configs = [settings(data), settings(data, method="marvel", seed=3, drops=(1,), options={"wait": 2})]
    assert bench(configs, results) == []
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(lines) == 2 and lines == records(results)
    by_method = {line["asked"]["method"]: line for line in lines}
    for config in configs:
        line = by_method[config.method]
        assert line.pop("asked") == as_plain(config.facts())
        alone = train(config).record
        assert alone is not None and list(line) == list(alone)
        for record in (line, alone):
            del record["seconds"], record["environment"]
        assert line == json.loads(json.dumps(short(alone)))
    assert configs[0].network is None and by_method["ce"]["config"]["network"] == "mlp"
    assert json.loads(results.read_text().splitlines()[0])["asked"]["network"] is None


def test_what_is_done_is_left_out(data: str, tmp_path: Path) -> None:
    results, watch = tmp_path / "results.jsonl", Watch()
    bench([settings(data, seed=1)], results)
    bench([settings(data, seed=seed) for seed in (0, 1, 2)], results, watch=watch)
    assert {seed for seed, _ in watch.shown} == {0, 2}
    before = results.read_bytes()
    again = Watch()
    # How it is computed does not make it another run, nor do settings in another order.
    bench([settings(data, seed=2, threads=1, ledger=True, source="streamed", checkpoint_every=7)], results, watch=again)
    bench(reversed([settings(data, seed=seed) for seed in (0, 1, 2)]), results, watch=again)
    assert again.shown == [] and results.read_bytes() == before
    bench([settings(data, seed=2, lr=0.02), settings(data, seed=2, method="gce")], results)
    assert [record["asked"]["seed"] for record in records(results)].count(2) == 3


def test_a_run_asked_for_twice_is_done_once(data: str, tmp_path: Path) -> None:
    bench([settings(data), settings(data, threads=1), settings(data, batch=20)], tmp_path / "results.jsonl")
    assert sorted(record["asked"]["batch"] for record in records(tmp_path / "results.jsonl")) == [16, 20]


def test_failures_are_returned_and_the_others_are_done(data: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    configs = [
        settings(data, seed=0),
        settings(data, network="resnet32"),  # vectors
        settings("nonesuch"),
        settings(data, method="npcl"),  # not told the noise rate
        settings(data, seed=1),
    ]
    failed = bench(configs, results, width=2)
    assert [config for config, _ in failed] == configs[1:4]
    assert [type(error) for _, error in failed][1:] == [UnknownName, InvalidInput]
    assert "must be told the noise rate" in str(failed[2][1])
    assert [record["asked"]["seed"] for record in records(results)] == [0, 1]
    # They are tried again, and what was done is not.
    watch = Watch()
    assert len(bench(configs, results, watch=watch)) == 3
    assert watch.shown == [] and len(records(results)) == 2


@pytest.mark.parametrize(
    ("width", "order"),
    [
        (1, [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]),
        (2, [(0, 1), (1, 1), (0, 2), (1, 2), (2, 1), (2, 2)]),
        (3, [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]),
        (8, [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]),
    ],
)
def test_so_many_runs_take_turns(width: int, order: list[tuple[int, int]], data: str, tmp_path: Path) -> None:
    watch = Watch()
    bench([settings(data, seed=seed) for seed in range(3)], tmp_path / "results.jsonl", width=width, watch=watch)
    assert watch.shown == order
    assert [record["asked"]["seed"] for record in records(tmp_path / "results.jsonl")] == [0, 1, 2]


def test_a_width_of_none_is_refused(data: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="width must be at least 1, got 0"):
        bench([settings(data)], tmp_path / "results.jsonl", width=0)


def test_a_line_cut_short_by_a_crash_is_done_again(data: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    bench([settings(data, seed=seed) for seed in (0, 1)], results)
    whole = results.read_bytes()
    results.write_bytes(whole[:-50])
    assert [record["asked"]["seed"] for record in records(results)] == [0]
    bench([settings(data, seed=seed) for seed in (0, 1)], results)
    found = records(results)
    assert [record["asked"]["seed"] for record in found] == [0, 1]
    assert found[1]["final"] == json.loads(whole.splitlines()[1])["final"]


def test_the_data_is_read_once(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    load = datasets.load

    def watched(name: str, *where: Any, **how: Any) -> Any:
        read.append(name)
        return load(name, *where, **how)

    monkeypatch.setattr(datasets, "load", watched)
    bench([settings(data, seed=seed) for seed in range(3)], tmp_path / "results.jsonl")
    assert read == [data]


def test_the_data_is_read_as_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its labels are those of the column named, with corrections where there are any, as in a run by itself."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{k % 7},{k % 3},{'ab'[k % 2]},{'xyz'[k % 3]}" for k in range(60)]
    Path("rows.csv").write_text("\n".join(["height,width,first,second", *lines]))
    Path("own.csv").write_text("row,corrected\n0,z\n")
    usual: dict[str, Any] = {"data": "rows.csv", "epochs": 2, "batch": 16, "device": "cpu", "method": "ce"}
    configs = [
        Config(**usual, label="first"),
        Config(**usual, label="second"),
        Config(**usual, label="second", corrections="own.csv"),
    ]
    bench(configs, tmp_path / "results.jsonl")
    found = records(tmp_path / "results.jsonl")
    assert [len(record["data"]["classes"]) for record in found] == [2, 3, 3]
    prints = [record["data"]["fingerprint"] for record in found]
    assert prints == [Run(config).data.fingerprint() for config in configs] and len(set(prints)) == 3


def test_nothing_to_do_leaves_no_file(tmp_path: Path) -> None:
    assert bench([], tmp_path / "results.jsonl") == [] and records(tmp_path / "results.jsonl") == []
    assert not (tmp_path / "results.jsonl").exists()
