"""Which run a record is of, and the files of records and failures."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch

from marvel.config import HOW, Config, as_plain
from marvel.data.core import Data
from marvel.errors import DataError, InvalidInput
from marvel.results import (
    DIGITS,
    add,
    beside,
    by_run,
    failures,
    forget_failure,
    identity,
    identity_of,
    note_failure,
    records,
    what,
    whatever_seed,
    with_seed,
)
from marvel.run import train

ROOT = Path(__file__).resolve().parent.parent


# ------------------------------------------------------------ which run


@pytest.mark.parametrize("seeds", [(0, 3), (3, 0), (1, 2)])
def test_the_same_run_with_another_seed(seeds: tuple[int, int]) -> None:
    one, other = (Config(data="cat-dog", noise="pair", rates=(0.4, 0.0), method="marvel", seed=seed) for seed in seeds)
    assert with_seed(identity(one), seeds[1]) == identity(other) != identity(one)


@pytest.mark.parametrize(
    "spelled",
    [
        {"epochs": 120, "lr": 0.1, "network": "resnet32", "drops": (80, 100)},
        {"options": {"wait": 8, "warmup": 30}},
        {"device": "cpu", "precision": "float32", "root": "/data", "threads": 4, "checkpoint_every": 0},
        {"options": {"wait": 8, "count_warmup": False}},
        {"momentum": 0.9, "batch": 128, "protocol": "final"},
    ],
)
def test_however_it_is_spelled_it_is_the_same_run(spelled: dict[str, Any]) -> None:
    plain = Config(data="cifar10", noise="symmetric", rate=0.4, options={"wait": 8})
    assert identity(plain.but(**spelled)) == identity(plain)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"rate": 0.2},
        {"epochs": 60},
        {"lr": 0.05},
        {"drops": (40, 80)},
        {"options": {"wait": 9}},
        {"options": {}},
        {"options": {"wait": 8, "warmup": "auto"}},
        {"batch": 64},
        {"data": "cifar100"},
        {"hold_out": 0.1},
        {"method": "marvel+"},
    ],
)
def test_what_makes_another_run(changed: dict[str, Any]) -> None:
    plain = Config(data="cifar10", noise="symmetric", rate=0.4, options={"wait": 8})
    assert identity(plain.but(**changed)) != identity(plain)
    assert (whatever_seed(identity(plain.but(**changed))) == whatever_seed(identity(plain))) == ("seed" in changed)


def test_every_setting_makes_another_run_or_is_of_how() -> None:
    other = {
        "data": "cifar100",
        "noise": "circular",
        "method": "ce",
        "options": {"wait": 3},
        "schedule": "cosine",
        "optimizer": "adamw",
        "protocol": "last10",
        "network": "resnet18",
        "weights": "some.safetensors",
        "size": 64,
        "rates": (0.2, 0.1),
        "noise_file": "labels.npy",
        "drops": (1,),
    }
    plain = Config(data="cifar10", noise="symmetric", rate=0.4).facts()
    for key in plain.keys() - HOW:
        usual = plain[key]
        new = other[key] if key in other else not usual if isinstance(usual, bool) else (usual or 0) + 1
        assert what(plain | {key: new}) != what(plain), key


def test_a_record_of_before_a_setting_was_added_is_still_of_its_run() -> None:
    old = {"config": as_plain(Config(data="mine.npz", method="ce").facts()), "asked": {}}
    asked = as_plain(Config(data="mine.npz", method="ce").facts())
    del asked["size"], asked["compile"]
    assert identity_of(old | {"asked": asked}) == identity(Config(data="mine.npz", method="ce"))


def test_the_first_records_are_found_by_the_tables() -> None:
    """They were asked for without `size`, and one of MARVEL+ with its default given outright."""
    done = by_run(ROOT / "results")
    assert len([r for r in done.values() if "core.py" in r["environment"]["command"]]) == 12
    cifar = Config(data="cifar10", noise="symmetric", rate=0.4)
    assert identity(cifar.but(method="ce")) in done
    plus = cifar.but(method="marvel+", options={"wait": 7})
    assert done[identity(plus)]["config"]["options"]["among"] == "survivors"


def test_a_preset_that_changes_does_not_change_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from marvel.presets import PRESETS
    from marvel.results import filled

    config = Config(data="cifar10", method="ce")
    record = {"asked": as_plain(config.facts()), "config": as_plain(filled(config, PRESETS["cifar10"]).facts())}
    assert identity_of(record) == identity(config)
    monkeypatch.setitem(PRESETS, "cifar10", replace(PRESETS["cifar10"], epochs=60))
    assert identity_of(record) != identity(config)


# ------------------------------------------------------------ files


def record(seed: int = 0, **changes: Any) -> dict[str, Any]:
    facts = as_plain(Config(data="mine.npz", method="ce", seed=seed).facts())
    noise = {"name": "symmetric", "realised_rate": 1 / 3, "realised_rate_by_class": [1 / 3, 2 / 3]}
    curves = {"test_accuracy": [1 / 3, None, 0.5], "removed": [0, 1, 2], "margin_quantiles": [[1 / 3, 2.0], None]}
    histograms = {"10": {"range": [-1.0, 1.0], "all": [3, 3], "survivors": [2, 3], "clean": [1, 2], "noisy": [2, 1]}}
    histograms["20"] = {"all": [3, 3], "survivors": [2, 3]}  # nothing is known of the labels
    final = {"test_accuracy": 1 / 3}
    parts = {"noise": noise, "curves": curves, "histograms": histograms, "final": final}
    return {"asked": facts, "config": facts, **parts} | changes


def test_curves_are_rounded_and_final_numbers_are_not(tmp_path: Path) -> None:
    add(tmp_path / "a.jsonl", record())
    (found,) = records(tmp_path / "a.jsonl")
    third = round(1 / 3, DIGITS)
    assert found["curves"] == {
        "test_accuracy": [third, None, 0.5],
        "removed": [0, 1, 2],
        "margin_quantiles": [[0.333, 2.0], None],
    }
    assert set(found["histograms"]["10"]) == {"range", "survivors", "clean", "noisy"}
    assert found["histograms"]["20"] == record()["histograms"]["20"]
    assert found["final"] == {"test_accuracy": 1 / 3}
    assert found["noise"]["realised_rate"] == 1 / 3 and found["noise"]["realised_rate_by_class"][0] == third
    assert b": " not in (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "classes", "epochs", "most"), [("cifar10", 10, 120, 27_000), ("cifar100", 100, 150, 32_000)]
)
def test_a_record_of_the_paper_is_small(data: str, classes: int, epochs: int, most: int, tmp_path: Path) -> None:
    """One of so many epochs and classes, on vectors; the counts are multiplied to be those of 50,000 instances."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(2000) % classes
    x = (2 * torch.randn(classes, 8, generator=g))[y] + torch.randn(2000, 8, generator=g)
    known = Data(data, x, y, tuple(f"some_class_{k}" for k in range(classes)), x[:97], y[:97])
    config = Config(
        data=data, noise="symmetric", rate=0.4, network="mlp", batch=1000, device="cpu", options={"wait": 8}
    )
    found = train(config, data=known).record
    assert found is not None and len(found["curves"]["test_accuracy"]) == epochs
    for sets in found["histograms"].values():
        sets |= {of: [25 * count for count in sets[of]] for of in ("all", "survivors", "clean", "noisy")}
    add(tmp_path / "a.jsonl", {"asked": as_plain(config.facts()), **found})
    assert 15_000 < (tmp_path / "a.jsonl").stat().st_size < most


def test_all_files_of_a_folder_but_those_of_failures(tmp_path: Path) -> None:
    add(tmp_path / "a.jsonl", record(0))
    add(tmp_path / "b.jsonl", record(1))
    note_failure(tmp_path / "b.jsonl", Config(data="mine.npz", seed=2), InvalidInput("no"))
    assert sorted(r["config"]["seed"] for r in by_run(tmp_path).values()) == [0, 1]
    assert by_run(tmp_path / "nowhere") == {}


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    add(tmp_path / "a.jsonl", record())
    with open(tmp_path / "a.jsonl", "ab") as file:
        file.write(b"{nonsense}\n")
    with pytest.raises(DataError, match="a.jsonl is damaged in line 2"):
        records(tmp_path / "a.jsonl")


def test_a_record_that_keeps_less_of_a_run_is_kept_as_it_is(tmp_path: Path) -> None:
    add(tmp_path / "a.jsonl", {"asked": {"seed": 1}, "estimate": 1 / 3})
    assert records(tmp_path / "a.jsonl") == [{"asked": {"seed": 1}, "estimate": 1 / 3}]


def test_what_is_no_record_of_a_run_is_passed_over(tmp_path: Path) -> None:
    """Files of other programs may lie in the same folder."""
    add(tmp_path / "a.jsonl", record(0))
    other = '{"hello": 1}\n[3]\n{"config": {"lr": 1}, "final": {}}\n{"asked": {"seed": 1}, "estimate": 0.5}\n'
    (tmp_path / "other.jsonl").write_text(other)
    assert [r["config"]["seed"] for r in by_run(tmp_path).values()] == [0]


def _add_many(path: Path, seeds: range) -> None:
    for seed in seeds:
        add(path, record(seed))


@pytest.mark.slow
def test_several_processes_may_add_to_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "a.jsonl"
    workers = [context.Process(target=_add_many, args=(path, range(k * 50, k * 50 + 50))) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(r["config"]["seed"] for r in records(path)) == list(range(150))


def test_a_failure_is_noted_once_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "wait.jsonl"
    first, second = Config(data="mine.npz", seed=0), Config(data="mine.npz", seed=1)
    assert failures(path) == []
    forget_failure(path, first)
    note_failure(path, first, InvalidInput("once"))
    note_failure(path, second, ValueError("other"))
    note_failure(path, first, InvalidInput("again"))
    assert beside(path) == tmp_path / "wait.failed.jsonl"
    assert [(line["kind"], line["error"]) for line in failures(path)] == [
        ("ValueError", "other"),
        ("InvalidInput", "again"),
    ]
    assert failures(path)[1]["run"] == identity(first) and failures(path)[1]["asked"]["data"] == "mine.npz"
    forget_failure(path, second)
    forget_failure(path, first)
    assert not beside(path).exists()


def test_a_damaged_note_of_a_failure_stops_nothing(tmp_path: Path) -> None:
    path, first, second = tmp_path / "a.jsonl", Config(data="mine.npz"), Config(data="mine.npz", seed=1)
    note_failure(path, first, InvalidInput("once"))
    with open(beside(path), "ab") as file:
        file.write(b'{"run": \nnull\n\xff\n')
    assert [line["error"] for line in failures(path)] == ["once"]
    note_failure(path, second, InvalidInput("other"))
    forget_failure(path, first)
    assert [line["error"] for line in failures(path)] == ["other"]
    forget_failure(path, second)
    assert not beside(path).exists()
