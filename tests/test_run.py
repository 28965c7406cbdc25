"""One run: what is filled in, what a method is told, which labels it trains on, and what the record says of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import marvel
from marvel import METHODS, networks, noise
from marvel.config import Config
from marvel.data import Data
from marvel.distributed import device_for
from marvel.errors import InvalidInput, MarvelError, UnknownName
from marvel.methods import CE, NPCL
from marvel.metrics import QUANTILES
from marvel.plan import seed_of
from marvel.presets import PRESETS, preset_for
from marvel.run import Run, as_plain, command, corrupt, judged, resolve, train
from marvel.runs import RunFolder
from toy import problem

N = 90


def toy(classes: int = 3, **changes: Any) -> Data:
    x, y, _ = problem(N + 30, classes, noise=0.0, seed=0)
    names = tuple("abcdefghij"[:classes])
    return Data(
        **({"name": "toy", "x": x[:N], "y": y[:N], "classes": names, "test_x": x[N:], "test_y": y[N:]} | changes)
    )


def settings(**changes: Any) -> Config:
    usual: dict[str, Any] = {"data": "toy", "method": "ce", "network": "mlp", "epochs": 2, "batch": 32, "device": "cpu"}
    return Config(**(usual | changes))


# ------------------------------------------------------------ what is filled in


def test_a_problem_of_the_paper_brings_its_protocol() -> None:
    """The appendix: ResNet-32, 120 epochs, 0.1 divided by ten after 40 and 80; MARVEL after 80 and 100, warm-up 30."""
    ce = resolve(Config(data="cifar10", method="ce"), toy())
    assert (ce.network, ce.epochs, ce.lr, ce.drops, dict(ce.options)) == ("resnet32", 120, 0.1, (40, 80), {})
    for method in ("marvel", "marvel+"):
        ours = resolve(Config(data="cifar10", method=method), toy())
        assert (ours.epochs, ours.lr, ours.drops, dict(ours.options)) == (120, 0.1, (80, 100), {"warmup": 30})


@pytest.mark.parametrize(
    ("method", "epochs", "drops", "options"),
    [
        ("ce", 60, (20, 40), {}),
        ("marvel", 60, (40, 50), {"warmup": 15}),
        ("marvel+", 12, (8, 10), {"warmup": 3}),
        ("ce", 240, (80, 160), {}),
        ("ce", 1, (1, 1), {}),  # not 0: the one epoch is trained at the full rate
    ],
)
def test_a_change_of_epochs_stretches_the_schedule(
    method: str, epochs: int, drops: tuple[int, ...], options: dict[str, int]
) -> None:
    found = resolve(Config(data="cifar10", method=method, epochs=epochs), toy())
    assert (found.epochs, found.drops, dict(found.options)) == (epochs, drops, options)


def test_what_is_given_is_left_as_it_is() -> None:
    given = Config(
        data="cifar10", method="marvel", network="mlp", epochs=60, lr=0.3, drops=(7,), options={"warmup": 9, "wait": 2},
        device="cpu", precision="bf16", source="streamed", workers=1,
    )  # fmt: skip
    assert resolve(given, toy()) == given
    assert resolve(given.but(drops=()), toy()).drops == ()


def test_what_is_not_of_the_paper_gets_what_suits_its_shape() -> None:
    assert preset_for("mine", (8,)).network == "mlp"
    assert preset_for("mine", (1, 8, 8)).network == "cnn2"
    assert preset_for("mine", (3, 64, 64)).network == "resnet18"
    found = resolve(Config(data="mine", method="marvel"), toy())
    assert found.network == "mlp" and found.options["warmup"] == "auto" and found.drops == ()


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_asked_for(name: str) -> None:
    preset = PRESETS[name]
    assert preset.network in marvel.networks.NETWORKS and name in marvel.data.DATASETS
    assert all(0 < drop < preset.epochs for drop in (*preset.drops, *preset.marvel_drops))
    assert preset.warmup == "auto" or 0 < int(preset.warmup) < preset.epochs


def test_nothing_is_left_open_and_precision_follows_the_device() -> None:
    found = resolve(Config(data="mine", device="cpu"), toy())
    assert (found.device, found.precision) == ("cpu", "float32")
    assert (found.source, found.workers) == ("resident", 0)
    open_ended = {"root", "noise_file", "weights", "size"}
    open_ended |= {"label", "paths", "id", "labels", "columns", "corrections"}
    assert None not in [value for key, value in found.facts().items() if key not in open_ended]


def test_a_gpu_that_is_named_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[int | None] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: current.append(device.index))
    assert [device_for(name) for name in ("cuda:1", "cuda", "cpu", "cpu:0")] == ["cuda:1", "cuda", "cpu", "cpu:0"]
    assert current == [1]


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "cpuu"])
def test_a_device_that_is_not_here_is_said(name: str) -> None:
    with pytest.raises(InvalidInput, match="device"):
        device_for(name)
    with pytest.raises(InvalidInput):
        Run(settings(device=name), data=toy())


@pytest.mark.parametrize("data", [(np.zeros((9, 2)), np.zeros(9)), torch.utils.data.TensorDataset(torch.zeros(9, 2))])
def test_data_of_another_kind_is_said(data: Any) -> None:
    with pytest.raises(InvalidInput, match=r"got (tuple|TensorDataset): marvel.data.from_arrays\(x, y\)"):
        train(settings(), data=data)


# ------------------------------------------------------------ what a method is told


def test_oracle_is_told_which_labels_are_right() -> None:
    run = Run(settings(method="oracle", noise="symmetric", rate=0.3), data=toy())
    assert torch.equal(run.method.removed, run.trainer.y != toy().y)
    with pytest.raises(InvalidInput, match="oracle must be told which labels are right, and this run does not know"):
        Run(settings(method="oracle"), data=toy())


def test_the_noise_rate_is_told_by_whom_it_must_be() -> None:
    noisy = settings(method="npcl", noise="symmetric", rate=0.3)
    with pytest.raises(InvalidInput, match="npcl must be told the noise rate: add --noise-rate 0.2, or --oracle-rate"):
        Run(noisy, data=toy())
    with pytest.raises(InvalidInput, match="npcl must be told the noise rate"):
        Run(settings(method="npcl", oracle_rate=True), data=toy())
    told = Run(noisy.but(options={"noise_rate": 0.2}), data=toy()).method
    assert isinstance(told, NPCL) and told.noise_rate == 0.2
    assert Run(noisy.but(options={"noise_rate": 0.2}, oracle_rate=True), data=toy()).method.noise_rate == 0.2
    run = Run(noisy.but(oracle_rate=True), data=toy())
    assert run.method.noise_rate == pytest.approx(float((run.trainer.y != toy().y).double().mean()))
    assert 0 < run.method.noise_rate < 1


def test_no_method_is_told_the_truth_that_does_not_say_it_needs_it() -> None:
    for name, kind in METHODS.items():
        if "clean" in kind.needs:
            continue
        options = {"noise_rate": 0.3} if "noise_rate" in kind.needs else {}
        runs = [
            Run(settings(method=name, noise="none", options=options), data=toy(clean=clean))
            for clean in (toy().y, (toy().y + 1) % 3)
        ]
        for run in runs:
            for _ in run.steps():
                pass
        for key, tensor in runs[0].method.state_dict().items():
            torch.testing.assert_close(
                runs[1].method.state_dict()[key], tensor, rtol=0, atol=0, equal_nan=True, msg=f"{name}: {key}"
            )


def test_options_reach_the_method() -> None:
    method: Any = Run(settings(method="marvel", options={"warmup": 3, "wait": 4, "cost": "gce"}), data=toy()).method
    assert (method.wait, method.warmup, method.epochs, method.n, method.classes) == (4, 3, 2, N, 3)


def test_a_mistake_leaves_no_folder_behind(tmp_path: Path) -> None:
    labels = tmp_path / "short.npy"
    np.save(labels, np.zeros(N - 1, dtype=np.int64))
    beyond = tmp_path / "beyond.npy"
    np.save(beyond, np.full(N, 3))
    mistakes: list[tuple[Config, str]] = [
        (settings(method="oracle"), "which labels are right"),
        (settings(network="resnet32"), "resnet32"),
        (settings(network="nonesuch"), "no network 'nonesuch'"),
        (settings(noise="file", noise_file=str(labels)), "has 89 labels for 90 instances"),
        (settings(noise="file", noise_file=str(beyond)), "must be from 0 to 2 for 3 classes, given 3"),
        (settings(noise="pair", rates=(0.1, 0.2)), "for 2 classes"),
        (settings(weights=str(tmp_path / "none.safetensors")), "none.safetensors"),
    ]
    for config, said in mistakes:
        with pytest.raises(MarvelError, match=said):
            Run(config, tmp_path / "run", data=toy())
        assert not (tmp_path / "run").exists()
    with pytest.raises(UnknownName, match="no dataset 'nonesuch'"):
        Run(settings(data="nonesuch"), tmp_path / "run")


# ------------------------------------------------------------ noise


NOISES: list[tuple[str, int, dict[str, Any], dict[str, Any]]] = [
    ("none", 3, {}, {}),
    ("symmetric", 3, {"rate": 0.4}, {"rate": 0.4}),
    ("symmetric-inclusive", 3, {"rate": 0.4}, {"rate": 0.4}),
    ("circular", 3, {"rate": 0.4}, {"rate": 0.4}),
    ("class-dependent", 10, {"rate": 0.4}, {"rate": 0.4}),
    ("pair", 2, {"rates": (0.4, 0.1)}, {"rates": (0.4, 0.1)}),
]


@pytest.mark.parametrize(("name", "classes", "changes", "options"), NOISES, ids=[case[0] for case in NOISES])
def test_labels_are_corrupted_as_the_settings_say(
    name: str, classes: int, changes: dict[str, Any], options: dict[str, Any]
) -> None:
    data = toy(classes)
    for seed in (0, 5):
        run = Run(settings(noise=name, seed=seed, **changes), data=data)
        rng = np.random.default_rng(seed_of(seed, "noise"))
        expected = noise.NOISE[name](data.y.numpy(), rng, classes=classes, **options)
        assert run.trainer.y.tolist() == expected.tolist()
        assert run.facts()["noise"]["wrong"] == int((expected != data.y.numpy()).sum())
        if name == "none":
            assert run.clean is None
        else:
            assert run.clean is not None and run.clean.tolist() == (expected == data.y.numpy()).tolist()
            assert 0.1 * N < int((~run.clean).sum()) < 0.6 * N


def test_noise_of_the_instances_of_a_matrix_and_of_a_file(tmp_path: Path) -> None:
    data, rng = toy(), np.random.default_rng(seed_of(0, "noise"))
    found = corrupt(settings(noise="instance", rate=0.3), data).labels
    assert found.tolist() == noise.instance(data.y.numpy(), rng, classes=3, rate=0.3, features=data.x.numpy()).tolist()

    matrix = np.array([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]])
    np.save(tmp_path / "matrix.npy", matrix)
    found = corrupt(settings(noise="transition", noise_file=str(tmp_path / "matrix.npy")), data).labels
    moved = found != data.y.numpy()
    assert set(data.y.numpy()[moved]) == {0} and set(found[moved]) == {1}
    assert 5 < moved.sum() < 25  # of the 30 instances of class 0

    labels = (data.y.numpy() + 1) % 3
    np.save(tmp_path / "labels.npy", labels)
    assert (
        corrupt(settings(noise="file", noise_file=str(tmp_path / "labels.npy")), data).labels.tolist()
        == labels.tolist()
    )


def test_the_seed_of_the_noise_is_apart_from_the_method() -> None:
    """Methods are compared on the same wrong labels."""
    runs = [
        Run(settings(method=m, noise="symmetric", rate=0.3, epochs=e), data=toy()) for m, e in (("ce", 2), ("gce", 9))
    ]
    assert torch.equal(runs[0].trainer.y, runs[1].trainer.y)
    other = Run(settings(noise="symmetric", rate=0.3, seed=1), data=toy())
    assert not torch.equal(runs[0].trainer.y, other.trainer.y)


def test_a_dataset_that_knows_its_own_clean_labels() -> None:
    clean = toy().y
    given = torch.where(torch.arange(N) < 20, (clean + 1) % 3, clean)
    run = train(settings(), data=toy(y=given, clean=clean))
    assert run.clean is not None and int((~run.clean).sum()) == 20
    assert run.record is not None and run.record["final"]["noisy_remaining"] == 20
    assert run.instances()["clean"].tolist() == clean.tolist()


# ------------------------------------------------------------ the record


def lines(test: list[Any], validation: list[Any] | None = None) -> list[dict[str, Any]]:
    held: list[Any] = validation or [None] * len(test)
    return [{"test_accuracy": t, "validation_accuracy": v} for t, v in zip(test, held, strict=True)]


def test_judged_by_hand() -> None:
    test = [0.1, 0.9, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.2, 0.5, 0.6, 0.4]
    held = [0.5, 0.1, 0.8, 0.2, 0.8, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    for protocol, expected in (("final", 0.4), ("validation", 0.3), ("last10", 0.5)):
        found = judged(lines(test, held), protocol)
        assert found["test_accuracy"] == pytest.approx(expected)
        assert (found["protocol"], found["validation_epoch"], found["test_accuracy_best"]) == (protocol, 3, 0.9)
    assert found["test_accuracy_last10_sd"] == pytest.approx(np.sqrt(np.mean((np.array(test[2:]) - 0.5) ** 2)))


def test_judged_where_there_is_less_to_judge_by() -> None:
    short = judged(lines([0.2, 0.4]), "last10")
    assert short["test_accuracy"] == pytest.approx(0.3)
    assert "test_accuracy_validation" not in short
    assert judged(lines([None, None]), "final") == {"test_accuracy": None, "protocol": "final"}


def test_what_the_record_holds(tmp_path: Path) -> None:
    config = settings(method="marvel", noise="symmetric", rate=0.3, epochs=12, options={"warmup": 2, "wait": 2})
    run = train(config, tmp_path, data=toy())
    record = run.record
    assert record is not None and record == RunFolder(tmp_path).record
    assert list(record) == [
        *("config", "data", "noise", "environment", "final", "chosen", "seconds", "curves", "histograms", "apex"),
        "used_by_class",
    ]
    assert {key: record[key] for key in ("config", "data", "noise", "environment")} == RunFolder(tmp_path).config
    assert record["config"] == as_plain(resolve(config, toy()).facts())
    assert record["data"] == {
        "name": "toy",
        "n": N,
        "classes": ["a", "b", "c"],
        "fingerprint": toy().fingerprint(),
    }
    assert record["environment"].keys() >= {
        "marvel",
        "commit",
        "python",
        "torch",
        "numpy",
        "platform",
        "device",
        "command",
    }
    assert record["environment"]["torch"] == torch.__version__
    assert record["chosen"] == {"wait": 2, "warmup": 2}
    assert record["seconds"] > 0

    wrong = (run.trainer.y != toy().y).numpy()
    removed, quality = run.method.removed.numpy(), run.method.quality.numpy()
    assert (removed & wrong).sum() > 0 and record["noise"]["wrong"] == wrong.sum()
    final = record["final"]
    assert final["removed"] == removed.sum()
    assert (
        final["clean_remaining"] == (~wrong & ~removed).sum() and final["noisy_remaining"] == (wrong & ~removed).sum()
    )
    assert final["label_precision"] == pytest.approx((~wrong)[~removed].mean())
    assert final["label_recall"] == pytest.approx((~removed)[~wrong].mean())
    assert final["detection_precision"] == pytest.approx(wrong[removed].mean())
    assert final["detection_recall"] == pytest.approx(removed[wrong].mean())
    assert final["detection_auroc"] == pytest.approx(roc_auc_score(wrong, -quality))
    assert final["idle_batches"] == 0
    suggested = run.method.rival.numpy() == toy().y.numpy()
    assert final["suggestion_accuracy"] == pytest.approx(suggested[removed & wrong].mean())
    assert set(final) == {
        *("train_accuracy", "memorisation_ratio", "label_precision", "label_recall", "removed", "clean_remaining"),
        *("noisy_remaining", "idle_batches", "protocol", "test_accuracy", "test_accuracy_final", "test_accuracy_best"),
        *("test_accuracy_last10", "test_accuracy_last10_sd", "detection_precision", "detection_recall", "detection_f1"),
        *("detection_auroc", "detection_ap", "detection_best_f1", "suggestion_accuracy"),
    }

    curves = record["curves"]
    assert set(curves) == {
        *("test_accuracy", "train_accuracy", "memorisation_ratio", "clean_remaining", "noisy_remaining"),
        *("margin_quantiles", "margin_survivors"),
    }
    assert all(len(curve) == 12 for curve in curves.values())
    for key in ("test_accuracy", "train_accuracy", "memorisation_ratio", "noisy_remaining"):
        assert curves[key][-1] == final[key]
    assert all(len(q) == len(QUANTILES) and q == sorted(q) for q in curves["margin_quantiles"])
    assert curves["margin_quantiles"][:3] == curves["margin_survivors"][:3] and (
        curves["margin_quantiles"][-1] != curves["margin_survivors"][-1]
    )
    assert list(record["histograms"]) == ["10"]
    found = record["histograms"]["10"]
    assert sum(found["all"]) == N and sum(found["survivors"]) < N
    assert [a + b for a, b in zip(found["clean"], found["noisy"])] == found["all"]
    assert sum(found["noisy"]) == wrong.sum()
    assert set(found["moments"]) == {"all", "survivors"} and len(found["range"]) == 2
    low, high = found["range"]
    assert low < curves["margin_quantiles"][9][0] < curves["margin_quantiles"][9][-1] < high
    for of, labels in (("given", run.trainer.y.numpy()), ("clean", toy().y.numpy())):
        kept = [(~removed)[labels == c].mean() for c in range(3)]
        assert record["used_by_class"][of] == pytest.approx(kept, abs=1e-4)


def test_the_apex_counts_positive_margins_of_the_five_epochs_after_the_warmup(tmp_path: Path) -> None:
    config = settings(
        method="marvel", noise="symmetric", rate=0.3, epochs=9, ledger=True, options={"warmup": 2, "wait": 9}
    )
    run = train(config, tmp_path, data=toy())
    kept = dict(RunFolder(tmp_path).ledger())
    positive = np.stack([(kept[epoch]["margin"] > 0).numpy() for epoch in range(3, 8)]).sum(axis=0)
    clean = (run.trainer.y == toy().y).numpy()
    assert run.record is not None
    assert run.record["apex"] == {
        name: [int((positive[which] == k).sum()) for k in range(6)]
        for name, which in (("all", clean | True), ("clean", clean), ("noisy", ~clean))
    }
    assert len(set(positive)) > 2
    assert train(settings(), data=toy()).record["apex"] is None  # type: ignore[index]


def test_the_lines_say_what_the_ledger_shows(tmp_path: Path) -> None:
    """Train accuracy, memorisation and quantiles, from the margins that were written down beside them."""
    config = settings(
        method="marvel+", noise="symmetric", rate=0.3, epochs=4, ledger=True, options={"warmup": 1, "wait": 1}
    )
    run = train(config, tmp_path, data=toy())
    wrong = (run.trainer.y != toy().y).numpy()
    for line, (epoch, half) in zip(RunFolder(tmp_path).metrics(), RunFolder(tmp_path).ledger(), strict=True):
        margin = half["margin"].float().numpy()
        assert line["epoch"] == epoch
        assert line["train_accuracy"] == pytest.approx((margin > 0).mean())
        assert line["memorisation_ratio"] == pytest.approx((margin[wrong] > 0).mean())
        assert line["margin"]["quantiles"] == pytest.approx(np.quantile(margin, QUANTILES).tolist(), rel=2e-3, abs=2e-3)
        assert line["removed"] == N - line["clean_remaining"] - line["noisy_remaining"]


def test_a_record_of_labels_of_which_nothing_is_known() -> None:
    run = train(settings(), data=toy())
    assert run.record is not None
    final = run.record["final"]
    assert final["memorisation_ratio"] is None and final["label_precision"] is None
    assert not [key for key in final if key.startswith("detection")]
    assert "clean" not in run.instances()


def test_a_record_without_a_test_set() -> None:
    run = train(settings(), data=toy(test_x=None, test_y=None))
    assert run.record is not None
    assert run.record["final"]["test_accuracy"] is None and "test_accuracy" not in run.record["curves"]


def test_a_cost_of_ones_own_is_recorded_by_its_name(tmp_path: Path) -> None:
    from torch.nn.functional import cross_entropy

    def mine(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 2 * cross_entropy(logits, y, reduction="none")

    config = settings(method="marvel", options={"cost": mine, "warmup": 1})
    train(config, tmp_path, data=toy())
    record = RunFolder(tmp_path).record
    assert record is not None and record["config"]["options"]["cost"].endswith("mine")
    train(config, tmp_path, resume=True, data=toy())


def test_train_shows_every_epoch_and_may_be_stopped(tmp_path: Path) -> None:
    shown: list[int] = []
    train(settings(epochs=3), tmp_path / "a", watch=lambda epoch: shown.append(epoch.epoch), data=toy())
    assert shown == [1, 2, 3]

    def stop(epoch: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(settings(epochs=3), tmp_path / "b", watch=stop, data=toy())
    assert RunFolder(tmp_path / "b").record is None
    train(settings(epochs=3), tmp_path / "b", resume=True, data=toy())
    metrics = [(tmp_path / folder / "metrics.jsonl").read_bytes() for folder in "ab"]
    assert metrics[0] == metrics[1]


def test_a_run_reads_its_data_by_name(tmp_path: Path) -> None:
    data = toy()
    np.savez(tmp_path / "mine.npz", x=data.x.numpy(), y=data.y.numpy())
    run = train(settings(data=str(tmp_path / "mine.npz"), epochs=1), data=None)
    assert len(run.data) == N and run.record is not None and run.record["data"]["name"] == "mine"
    assert isinstance(run.method, CE)


def test_threads_are_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    setter: Callable[[int], None] = asked.append
    monkeypatch.setattr(torch, "set_num_threads", setter)
    Run(settings(threads=3), data=toy())
    Run(settings(), data=toy())
    assert asked == [3, 1]


# ------------------------------------------------------------ the network it leaves


@pytest.mark.parametrize("method", ["marvel", "marvel-semi"])
def test_the_network_of_the_folder_gives_the_accuracy_of_the_record(method: str, tmp_path: Path) -> None:
    """Of `marvel-semi` that is the teacher."""
    data = toy()
    train(settings(method=method, epochs=3), tmp_path / "run", data=data)
    network = networks.build("mlp", 3, data.shape)
    networks.load_weights(network, tmp_path / "run" / "network.safetensors")
    network.eval()
    run = Run(settings(method=method, epochs=3), data=data)
    with torch.no_grad():
        right = (network(run.trainer.views.plain(data.test_x)).argmax(1) == data.test_y).float().mean()
    record = RunFolder(tmp_path / "run").record
    assert record is not None and float(right) == pytest.approx(record["final"]["test_accuracy"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["/usr/bin/marvel", "train", "--out", "/home/me/run"], "marvel train --out run"),
        (["/site/marvel/__main__.py", "demo"], "marvel demo"),
        (["experiments/core.py", "--compile"], "python experiments/core.py --compile"),
    ],
)
def test_the_command_is_what_was_typed(typed: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", typed)
    assert command() == said
