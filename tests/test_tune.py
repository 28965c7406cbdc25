"""Tuning: what is tried, what is held out, that scores are those of plain trainings, and that a search may be cut."""

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marvel.cli.flags import own_values
from marvel.config import Config, config_from
from marvel.data import Data
from marvel.errors import FolderError, InvalidInput, MissingExtra, NonFinite, UnknownName
from marvel.methods import METHODS
from marvel.run import corrupt, train
from marvel.tune import search
from marvel.tune.folds import Folds, deal, hold
from marvel.tune.search import Tuned, finer, train_command, tune
from marvel.tune.space import Span, points, read_space, space_from, usual_space, with_values
from marvel.tune.trials import Study, Trial
from toy import problem

N = 60


def toy() -> Data:
    x, y, _ = problem(N, 3, noise=0.0, seed=0)
    return Data("toy", x, y, ("a", "b", "c"))


def settings(**changes: Any) -> Config:
    usual: dict[str, Any] = {
        "data": "toy",
        "method": "gce",
        "network": "mlp",
        "epochs": 2,
        "batch": 16,
        "device": "cpu",
    }
    return Config(**(usual | {"noise": "symmetric", "rate": 0.3} | changes))


Q = {"q": (0.2, 0.8)}

# ---------------------------------------------------------------- what is tried


def test_values_are_read_as_a_run_would_read_them() -> None:
    assert read_space(["q=0.1,0.5,0.5"], settings()) == {"q": (0.1, 0.5)}
    assert read_space(["A=-2,-5", "alpha=1"], settings(method="sce")) == {"A": (-2.0, -5.0), "alpha": (1.0,)}
    marvel = settings(method="marvel")
    assert read_space(["wait=3..7"], marvel) == {"wait": (3, 4, 5, 6, 7)}
    assert read_space(["wait=4..12/4", "cost=ce,gce"], marvel) == {"wait": (4, 8, 12), "cost": ("ce", "gce")}
    assert read_space(["lr=0.001:0.1", "weight-decay=0:1"], marvel) == {
        "lr": Span(0.001, 0.1),
        "weight_decay": Span(0.0, 1.0),
    }
    assert read_space(["wait=auto,8"], marvel) == {"wait": ("auto", 8)}
    assert Span(0.001, 0.1).by_powers and not Span(0.0, 1.0).by_powers


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("q", "NAME=VALUES"),
        ("qq=0.1", "did you mean"),
        ("q=x", "q should be a number"),
        ("q=0.9:0.1", "from the smaller"),
        ("q=7..3", "from the smaller"),
        ("network=cnn2:mlp", "no range of numbers"),
    ],
)
def test_what_cannot_be_tried_is_refused(word: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_space([word], settings())


def test_every_combination_the_first_changing_slowest() -> None:
    found = points({"a": (1, 2), "b": ("x", "y")})
    assert found == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    with pytest.raises(InvalidInput, match="add --trials"):
        points({"lr": Span(0.1, 1.0)})


def test_a_point_sets_settings_and_parameters() -> None:
    found = with_values(settings(options={"truncate": 0.5}), {"q": 0.3, "lr": 0.5})
    assert (found.lr, dict(found.options)) == (0.5, {"truncate": 0.5, "q": 0.3})


def resolved(data: str, noise: str, rate: float, method: str, network: str = "resnet32", epochs: int = 120) -> Config:
    return Config(data=data, noise=noise, rate=rate, method=method, network=network, epochs=epochs)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (resolved("cat-dog", "symmetric", 0.2, "gce"), {"q": (0.1, 0.3, 0.5, 0.7, 0.9)}),
        (resolved("cat-dog", "symmetric", 0.2, "sce"), {"A": (-2, -5, -8), "alpha": (0.01, 0.1, 1)}),
        (resolved("cat-dog", "symmetric", 0.2, "marvel", "resnet18", 100), {"wait": (3, 4, 5, 6, 7)}),
        (resolved("cifar10", "symmetric", 0.4, "marvel"), {"wait": (4, 6, 8, 10, 12)}),
        (resolved("cifar10", "symmetric", 0.8, "marvel"), {"wait": (10, 14, 18, 22, 26)}),
        (resolved("cifar10", "symmetric", 0.4, "marvel", "resnet34"), {"wait": (3, 4, 5, 6, 7)}),
        (resolved("cifar10", "symmetric", 0.8, "marvel", "resnet34"), {"wait": (5, 10, 15, 20, 25)}),
        (resolved("cifar100", "circular", 0.2, "marvel", epochs=150), {"wait": (4, 7, 10, 13, 16, 19)}),
        (resolved("cifar100", "symmetric", 0.8, "marvel", epochs=150), {"wait": (13, 16, 19, 22, 25)}),
        # "if the wait period of MARVEL is set to 8, then the wait period of MARVEL+ is tuned from {6, 7, 8, 9, 10}"
        (resolved("cifar10", "symmetric", 0.4, "marvel+"), {"wait": (6, 7, 8, 9, 10)}),
        # "An exception is CIFAR-10 with symmetric 80% noise [...] the same set as that of MARVEL"
        (resolved("cifar10", "symmetric", 0.8, "marvel+"), {"wait": (10, 14, 18, 22, 26)}),
        (resolved("cifar100", "symmetric", 0.8, "marvel+", epochs=150), {"wait": (17, 18, 19, 20, 21)}),
        (resolved("webvision50", "none", 0.0, "marvel", "resnet50", 160), {"wait": (18, 30, 42, 54, 66)}),
        (resolved("clothing100k", "none", 0.0, "marvel", "resnet50", 160), {"wait": (12, 24, 36, 48)}),
        # Of other data, around what "auto" takes: 60 / 15.
        (resolved("mine.npz", "none", 0.0, "marvel", epochs=60), {"wait": (2, 3, 4, 5, 6)}),
        (resolved("mine.npz", "none", 0.0, "marvel+", epochs=60), {"wait": (2, 3, 4, 5, 6)}),
    ],
)
def test_the_papers_grids(config: Config, expected: dict[str, tuple[float, ...]]) -> None:
    assert usual_space(config) == expected


def test_the_neighbourhood_of_a_wait() -> None:
    assert usual_space(resolved("cifar10", "symmetric", 0.4, "marvel+"), around=2) == {"wait": (1, 2, 3, 4)}
    with pytest.raises(InvalidInput, match="no grid for 'elr': add --try .*its own parameters: "):
        usual_space(resolved("cifar10", "symmetric", 0.4, "elr"))


# ---------------------------------------------------------------- what is held out


def test_every_class_is_dealt_evenly() -> None:
    labels = np.array([0] * 23 + [1] * 11 + [2] * 6)
    fold = deal(labels, 5, seed=3)
    sizes = np.bincount(fold, minlength=5)
    assert sizes.sum() == 40 and sizes.max() - sizes.min() <= 1
    for c in range(3):
        counts = np.bincount(fold[labels == c], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.array_equal(fold, deal(labels, 5, seed=3)) and not np.array_equal(fold, deal(labels, 5, seed=4))
    with pytest.raises(InvalidInput, match="2 to 40 folds, got 41"):
        deal(labels, 41, seed=0)


def test_held_out_labels_are_the_given_ones_and_no_instance_is_on_both_sides() -> None:
    config, data = settings(rate=0.4), toy()
    data = replace(data, x=torch.arange(N, dtype=torch.float32)[:, None].repeat(1, 4), mean=(0.0,) * 4, std=(1.0,) * 4)
    given = torch.from_numpy(corrupt(config, data).labels)
    folds = Folds(config, data, 5)
    seen = []
    for fold in range(5):
        part = folds.without(fold)
        inside, outside = part.x[:, 0].long(), part.test_x[:, 0].long()  # type: ignore[index]
        assert sorted([*inside.tolist(), *outside.tolist()]) == list(range(N))
        assert torch.equal(part.y, given[inside]) and torch.equal(part.test_y, given[outside])  # type: ignore[arg-type]
        assert part.clean is not None and torch.equal(part.clean, data.y[inside])
        seen += outside.tolist()
    assert sorted(seen) == list(range(N))
    assert (given != data.y).any()
    assert Folds(settings(noise="none", rate=0.0), toy(), 5).without(0).clean is None


# ---------------------------------------------------------------- scores


def by_hand(q: float, fold: int, folds: int) -> float:
    """A plain training on a dataset made by hand."""
    config, data = settings(), toy()
    given = torch.from_numpy(corrupt(config, data).labels)
    out = torch.from_numpy(deal(given.numpy(), folds, 0)) == fold
    part = Data(
        "toy",
        data.x[~out],
        given[~out],
        data.classes,
        data.x[out],
        given[out],
        mean=data.mean,
        std=data.std,  # type: ignore[index]
    )
    run = train(settings(noise="none", rate=0.0, options={"q": q}), data=part)
    assert run.record is not None
    return float(run.record["final"]["test_accuracy"])


def test_cross_validation_is_a_training_for_each_fold() -> None:
    found = tune(settings(), Q, folds=3, data=toy())
    for trial, q in zip(found.trials, Q["q"], strict=True):
        assert trial.point == {"q": q}
        assert list(trial.scores) == [by_hand(q, fold, 3) for fold in range(3)]
        assert trial.score == pytest.approx(sum(trial.scores) / 3)
    assert found.best.score == max(trial.score or 0 for trial in found.trials)


def test_data_in_a_file_is_dealt_into_folds_as_it_is(tmp_path: Path) -> None:
    """Rows of a file have names, of which a fold has its own; which array is the label is a setting."""
    data = toy()
    np.savez(tmp_path / "toy.npz", x=data.x.numpy(), kind=data.y.numpy())
    found = tune(settings(data=str(tmp_path / "toy.npz"), label="kind"), Q, folds=2)
    assert found.trials == tune(settings(), Q, folds=2, data=data).trials


@pytest.mark.parametrize("share", [0.1, 0.25, 0.3, 0.45, 0.5])
def test_the_share_that_is_held_out_is_the_one_asked_for(share: float) -> None:
    labels = np.repeat(np.arange(4), 50)
    held = hold(labels, share, seed=3) == 0
    assert abs(held.sum() - 200 * share) <= 1
    assert all(abs(held[labels == c].sum() - 50 * share) <= 1 for c in range(4))
    assert np.array_equal(hold(labels, 0.25, seed=3) == 0, deal(labels, 4, seed=3) == 0)


def test_one_fold_is_one_of_five_and_a_hold_out_one_of_four() -> None:
    assert [trial.scores for trial in tune(settings(), Q, folds=1, data=toy()).trials] == [
        (by_hand(q, 0, 5),) for q in Q["q"]
    ]
    quarter = tune(settings(), Q, by="hold-out", fine=False, data=toy())
    assert [trial.scores for trial in quarter.trials] == [(by_hand(q, 0, 4),) for q in Q["q"]]
    assert tune(settings(), Q, by="hold-out", share=0.5, fine=False, data=toy()).trials[0].scores == (
        by_hand(0.2, 0, 2),
    )


def test_clean_labels_judge_by_the_best_epoch() -> None:
    found = tune(settings(), Q, by="clean", share=0.2, data=toy())
    for trial, q in zip(found.trials, Q["q"], strict=True):
        run = train(settings(hold_out=0.2, protocol="validation", options={"q": q}), data=toy())
        assert run.record is not None
        assert trial.scores == (max(run.record["curves"]["validation_accuracy"]),)
    with pytest.raises(InvalidInput, match="is not known: use --by cv"):
        tune(settings(noise="none", rate=0.0), Q, by="clean", data=toy())


def test_side_by_side_is_the_same() -> None:
    alone, together = (tune(settings(), Q, folds=2, width=width, data=toy()) for width in (1, 4))
    assert alone.trials == together.trials


def trials(name: str, scores: dict[Any, float | None]) -> list[Trial]:
    return [
        Trial({name: value}, () if s is None else (s,), None if s is not None else "no") for value, s in scores.items()
    ]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # The paper's: WebVision50 and Clothing100K.
        ({18: 0.1, 30: 0.2, 42: 0.3, 54: 0.4, 66: 0.5}, (54, 58, 62, 66)),
        ({12: 0.1, 24: 0.2, 36: 0.4, 48: 0.3}, (36, 40, 44, 48)),
        ({2: 0.3, 3: 0.4, 4: 0.2}, (2, 3)),
        ({0.1: 0.5, 0.4: 0.4, 0.7: 0.1}, (0.1, 0.2, 0.3, 0.4)),
        ({3: 0.5}, (3,)),
        ({3: 0.5, 6: None, 9: 0.4}, (3, 5, 7, 9)),
    ],
)
def test_the_finer_grid_lies_beside_the_best(scores: dict[Any, float | None], expected: tuple[Any, ...]) -> None:
    assert finer({"wait": tuple(scores)}, trials("wait", scores)) == {"wait": pytest.approx(expected)}


def test_the_finer_grid_is_for_one_number() -> None:
    with pytest.raises(InvalidInput, match="for numbers"):
        finer({"cost": ("ce", "gce")}, trials("cost", {"ce": 0.1, "gce": 0.2}))
    with pytest.raises(InvalidInput, match="for one parameter, and 2 are tried"):
        tune(settings(), Q | {"lr": (0.1, 0.2)}, fine=True, data=toy())


def test_coarse_then_fine_are_one_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Scored by a parabola with its top at 61, in place of trainings."""
    tried: list[int] = []

    def steps(self: Any, point: dict[str, int], fold: int) -> Iterator[float]:
        tried.append(point["wait"])
        yield 1 - (point["wait"] - 61) ** 2 / 10_000

    monkeypatch.setattr(search._Search, "steps", steps)
    config = settings(method="marvel", epochs=160)
    coarse = {"wait": (18, 30, 42, 54, 66)}
    found = tune(config, coarse, by="hold-out", out=tmp_path, data=toy())
    assert tried == [18, 30, 42, 54, 66, 58, 62]
    assert found.best.point == {"wait": 62}
    assert [trial.point["wait"] for trial in found.trials] == tried
    tune(config, coarse, by="hold-out", out=tmp_path, resume=True, data=toy())
    assert len(tried) == 7


def test_a_training_that_diverges_is_a_failed_trial() -> None:
    found = tune(settings(method="ce"), {"lr": (0.01, 1e30)}, folds=2, data=toy())
    assert found.best.point == {"lr": 0.01}
    assert found.trials[1].score is None and "lower the learning rate" in (found.trials[1].failed or "")
    with pytest.raises(NonFinite, match="no trial came to an end"):
        tune(settings(method="ce"), {"lr": (1e30,)}, folds=2, data=toy())


@pytest.mark.parametrize("width", [1, 2])
def test_a_point_that_fails_in_one_fold_is_given_up(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def steps(self: search._Search, point: dict[str, float], fold: int) -> Iterator[float | None]:
        begun.append((point["q"], fold))
        if (point["q"], fold) == (0.2, 0):
            raise NonFinite("it came to NaN")
        yield None
        yield point["q"]

    monkeypatch.setattr(search._Search, "steps", steps)
    found = tune(settings(), Q, folds=3, width=width, data=toy())
    assert found.best.point == {"q": 0.8} and found.trials[0].failed == "it came to NaN"
    assert (0.2, 2) not in begun  # what had not begun is left out


def test_what_cannot_be_is_said_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search._Search, "steps", lambda *_: pytest.fail("trained"))
    with pytest.raises(InvalidInput, match="GCE wants q in"):
        tune(settings(), {"q": (0.5, 2.0)}, out=tmp_path / "a", data=toy())
    with pytest.raises(UnknownName, match="did you mean 'hold-out'"):
        tune(settings(), Q, by="holdout", data=toy())
    with pytest.raises(InvalidInput, match="folds must be at least 1"):
        tune(settings(), Q, folds=0, data=toy())
    with pytest.raises(InvalidInput, match="--share is of"):
        tune(settings(), Q, share=0.1, data=toy())
    with pytest.raises(InvalidInput, match="at most 0.5, got 0.9"):
        tune(settings(), Q, by="hold-out", share=0.9, data=toy())
    assert not (tmp_path / "a").exists()


def test_npcl_is_told_the_rate_of_the_rest() -> None:
    found = tune(settings(method="npcl", oracle_rate=True), {"burn_in": (1, 2)}, folds=2, data=toy())
    assert len(found.trials) == 2


# ---------------------------------------------------------------- interruptions


class Cut(KeyboardInterrupt):
    """Ctrl-C."""


@pytest.mark.parametrize("after", [1, 3, 4])
def test_an_interrupted_search_goes_on(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tune(settings(), Q, folds=3, data=toy())
    trained: list[tuple[float, int]] = []
    steps = search._Search.steps

    def counted(self: Any, point: dict[str, float], fold: int) -> Iterator[Any]:
        if len(trained) == after:
            raise Cut
        yield from steps(self, point, fold)
        trained.append((point["q"], fold))

    monkeypatch.setattr(search._Search, "steps", counted)
    with pytest.raises(Cut):
        tune(settings(), Q, folds=3, out=tmp_path, data=toy())
    assert len(trained) == after
    after = -1
    assert tune(settings(), Q, folds=3, out=tmp_path, resume=True, data=toy()).trials == whole.trials
    assert sorted(trained) == [(q, fold) for q in Q["q"] for fold in range(3)]  # each once
    note = json.loads((tmp_path / "tune.json").read_text())
    assert note["best"]["point"] == whole.best.point and note["space"] == {"q": [0.2, 0.8]}


def test_a_folder_holds_one_search(tmp_path: Path) -> None:
    tune(settings(), {"q": (0.5,)}, folds=2, out=tmp_path / "a", data=toy())
    with pytest.raises(FolderError, match="add --resume to go on"):
        tune(settings(), Q, folds=2, out=tmp_path / "a", data=toy())
    with pytest.raises(FolderError, match="epochs = 2, not 3"):
        tune(settings(epochs=3), Q, folds=2, out=tmp_path / "a", resume=True, data=toy())
    with pytest.raises(FolderError, match="folds = 2, not 3"):
        tune(settings(), Q, folds=3, out=tmp_path / "a", resume=True, data=toy())
    more = tune(settings(), Q, folds=2, out=tmp_path / "a", resume=True, data=toy())
    assert [trial.point["q"] for trial in more.trials] == [0.5, 0.2, 0.8]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "tune.json").write_text("{")
    with pytest.raises(FolderError, match="damaged"):
        tune(settings(), Q, out=tmp_path / "b", data=toy())
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "tune.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(FolderError, match="cannot be read"):
        tune(settings(), Q, out=tmp_path / "c", data=toy())


def test_the_study_is_optunas(tmp_path: Path) -> None:
    """Any of Optuna's tools can read it."""
    import optuna

    found = tune(settings(), Q, folds=2, out=tmp_path, data=toy())
    study = optuna.load_study(study_name="marvel", storage=f"sqlite:///{tmp_path / 'tune.sqlite'}")
    assert study.best_params == found.best.point
    assert study.best_value == pytest.approx(found.best.score)


def test_points_are_drawn_from_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of a smooth function is found better than by the first draws; and an interrupted search goes on."""
    tried: list[float] = []

    def steps(self: Any, point: dict[str, Any], fold: int) -> Iterator[float]:
        if len(tried) == 5:
            tried.append(0)
            raise Cut
        tried.append(point["q"])
        yield 1 - (point["q"] - 0.3) ** 2 - 0.1 * (point["schedule"] == "constant")

    monkeypatch.setattr(search._Search, "steps", steps)
    space: Any = {"q": Span(0.0, 1.0), "schedule": ("drops", "constant")}
    with pytest.raises(Cut):
        tune(settings(), space, folds=1, trials=16, out=tmp_path, data=toy())
    found = tune(settings(), space, folds=1, trials=16, out=tmp_path, resume=True, data=toy())
    assert len(found.trials) == 16 and all(0 <= trial.point["q"] <= 1 for trial in found.trials)
    assert abs(found.best.point["q"] - 0.3) < 0.15
    with pytest.raises(UnknownName, match="no parameter of gce 'qq'"):
        tune(settings(), {"qq": Span(0.0, 1.0)}, trials=2, data=toy())


def test_a_small_space_is_drawn_from_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search._Search, "steps", lambda self, point, fold: iter([float(point["q"])]))
    found = tune(settings(), {"q": (0.1, 0.9)}, folds=1, trials=6, data=toy())
    assert {trial.point["q"] for trial in found.trials} <= {0.1, 0.9}


def test_several_numbers_are_one_value_and_a_search_of_them_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna keeps no lists."""
    tried: list[Any] = []

    def steps(self: Any, point: dict[str, Any], fold: int) -> Iterator[float]:
        tried.append(point["drops"])
        if len(tried) == 2:
            raise Cut
        yield len(point["drops"]) / 10

    monkeypatch.setattr(search._Search, "steps", steps)
    space: Any = {"drops": ((1,), (1, 2))}
    with pytest.raises(Cut):
        tune(settings(), space, folds=1, out=tmp_path, data=toy())
    kept = space_from(json.loads((tmp_path / "tune.json").read_text())["space"])
    assert kept == space
    found = tune(settings(), kept, folds=1, out=tmp_path, resume=True, data=toy())
    assert tried == [(1,), (1, 2), (1, 2)] and found.best.point == {"drops": (1, 2)}
    assert "--drops 1,2" in found.command


@pytest.mark.parametrize(
    ("first", "then", "trials"),
    [
        ({"lr": (0.01, 0.1)}, {"lr": Span(0.001, 0.1)}, 2),
        ({"q": (0, 1)}, {"q": ("auto", 1)}, None),
        ({"schedule": ("drops", "cosine")}, {"schedule": ("drops", "constant")}, None),
    ],
)
def test_values_that_cannot_join_those_of_the_folder_are_refused(
    first: Any, then: Any, trials: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search._Search, "steps", lambda self, point, fold: iter([0.5]))
    monkeypatch.setattr(search._Judge, "refuse_what_cannot_be", lambda self, wanted: None)
    tune(settings(), first, folds=1, out=tmp_path, data=toy())
    with pytest.raises(FolderError, match="holds a search over other values of .* name another folder"):
        tune(settings(), then, folds=1, trials=trials, out=tmp_path, resume=True, data=toy())


@pytest.mark.parametrize("name", ["data", "label", "size", "noise", "rate", "hold_out", "protocol", "seed", "device"])
def test_what_all_trials_share_cannot_be_tried(name: str) -> None:
    """The data is read once and its noise made once: a trial with another name for it would be of the same."""
    with pytest.raises(InvalidInput, match=f"{name} cannot be tried"):
        tune(settings(), {name: (1, 2)}, data=toy())


def test_a_finer_grid_follows_numbers_only_and_others_are_said_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []

    def steps(self: Any, point: dict[str, Any], fold: int) -> Iterator[float]:
        tried.append(point)
        yield 0.5

    monkeypatch.setattr(search._Search, "steps", steps)
    names: Any = {"schedule": ("drops", "cosine")}
    assert len(tune(settings(), names, by="hold-out", data=toy()).trials) == 2
    tried.clear()
    with pytest.raises(InvalidInput, match="a finer grid is for numbers"):
        tune(settings(), names, by="hold-out", fine=True, data=toy())
    assert tried == []


def test_without_optuna_there_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"pip install 'marvel-learn\[tune\]'"):
        Study(None, 0)


# ---------------------------------------------------------------- what it prints


@pytest.mark.parametrize(
    "config",
    [
        settings(options={"q": 0.3}),
        settings(method="sce", options={"A": -5.0, "alpha": 0.01}),
        settings(method="marvel", noise="pair", rate=0.0, rates=(0.4, 0.0), nesterov=True, fast=False, drops=(1, 2)),
        settings(method="marvel+", options={"wait": 7, "count_warmup": True}),
        settings(method="marvel-semi", options={"back": None}),
        settings(method="l_dmi", options={"pretrain_drops": (3, 5)}),
    ],
)
def test_the_command_means_these_settings(config: Config) -> None:
    words = shlex.split(train_command(config))
    assert words[:2] == ["marvel", "train"]
    kind = METHODS[config.method]
    known = {"--nesterov": True, "--no-fast": False}
    rest = [word for word in words[2:] if word not in known]
    told = {("--fast" if word == "--no-fast" else word): known[word] for word in words if word in known}
    assert config_from(own_values(rest, kind), told) == config


def test_what_was_found_is_told_as_the_experiments_read_it() -> None:
    config = settings(noise="pair", rate=0.0, rates=(0.4, 0.0))
    found = Tuned(config, "cv", 1, [], Trial({"q": 0.7}, (0.8,)))
    entry = found.entry()
    assert entry | {"data": "toy", "rates": [0.4, 0.0], "method": "gce", "options": {"q": 0.7}} == entry
