"""Settings: the dataclass, files and flags say the same, and what cannot be meant is refused in a line."""

import dataclasses
import inspect
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marvel.config import GROUPS, Config, as_plain, config_from, options_of, read_config
from marvel.errors import InvalidInput, UnknownName
from marvel.methods import METHODS
from marvel.run import train


def test_every_setting_is_in_one_group_and_has_help() -> None:
    fields = [field for field in dataclasses.fields(Config) if field.name != "options"]
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(field.name for field in fields)
    assert all(field.metadata["help"] for field in fields)


def test_nothing_given_is_the_default() -> None:
    assert config_from({}) == Config() == config_from()


def test_flags_file_and_dataclass_say_the_same(tmp_path: Path) -> None:
    said = Config(
        data="digits",
        noise="pair",
        rates=(0.4, 0.1),
        method="marvel+",
        epochs=7,
        lr=0.02,
        drops=(3, 5),
        nesterov=True,
        seed=3,
        options={"wait": 2, "immediate": True, "cost": "gce"},
    )
    flags: dict[str, Any] = {"--data": "digits", "--noise": "pair", "--rates": "0.4,0.1", "--method": "marvel+"}
    flags |= {"--epochs": "7", "--lr": "0.02", "--drops": "3,5", "--nesterov": True, "--seed": "3"}
    flags |= {"--wait": "2", "--immediate": "yes", "--cost": "gce"}
    file = tmp_path / "run.toml"
    file.write_text(
        """
        data = "digits"
        noise = "pair"
        rates = [0.4, 0.1]
        method = "marvel+"
        epochs = 7
        lr = 0.02
        drops = [3, 5]
        nesterov = true
        seed = 3
        wait = 2

        [options]
        immediate = true
        cost = "gce"
        """
    )
    assert config_from(flags) == said
    assert config_from(read_config(file)) == said
    assert config_from(json.loads(json.dumps(said.facts()))) == said


def test_later_layers_override_however_they_are_spelled() -> None:
    file = {"weight_decay": 0.1, "options": {"wait": 8}, "epochs": 5}
    config = config_from(file, {"--weight-decay": "0.2", "--wait": "3"})
    assert (config.weight_decay, config.options["wait"], config.epochs) == (0.2, 3, 5)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"epochs": "many"}, "epochs should be a whole number or none, got 'many'"),
        ({"epochs": 2.5}, "epochs should be a whole number or none, got 2.5"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch": 1}, "batch must be at least 2, got 1"),
        ({"size": 100000}, "size is the side of images in pixels, at most 4096; got 100000"),
        ({"lr": "-1"}, "lr must be positive and finite, got -1.0"),
        ({"lr": "inf"}, "lr must be positive and finite, got inf"),
        ({"momentum": 1}, "momentum must lie in [0, 1), got 1.0"),
        ({"weight_decay": -1}, "weight_decay must be finite and not negative, got -1.0"),
        ({"momentum": 0, "nesterov": True}, "nesterov needs a momentum above 0"),
        ({"hold_out": 1}, "hold_out must lie in [0, 1), got 1.0"),
        ({"nesterov": "perhaps"}, "nesterov should be true or false, got 'perhaps'"),
        ({"data": 3}, "data should be text, got 3"),
        ({"drops": "a,b"}, "drops should be numbers or none, got 'a,b'"),
        ({"method": "marvl"}, "no method 'marvl'; did you mean 'marvel'?"),
        ({"schedule": "cosin"}, "no schedule 'cosin'; did you mean 'cosine'?"),
        ({"protocol": "validation"}, "protocol 'validation' needs a validation set: add --hold-out 0.1"),
        ({"noise": "symetric"}, "no noise 'symetric'; did you mean 'symmetric'?"),
        ({"rate": 0.4}, "noise 'none' takes no rate, got 0.4: add --noise symmetric"),
        ({"noise": "pair", "rate": 0.4}, "noise 'pair' takes no rate, got 0.4: it takes rates"),
        ({"noise": "symmetric", "noise_file": "x.npy"}, "noise 'symmetric' takes no noise_file, got x.npy"),
        ({"noise": "symmetric"}, "how much noise 'symmetric' there is must be said: add --rate 0.4"),
        ({"noise": "pair"}, "how much noise 'pair' there is must be said: add --rates 0.4,0.1"),
        ({"noise": "file"}, "noise 'file' is read from a file: add --noise-file FILE"),
        ({"options": 3}, "options should be a table of the method's own parameters, got 3"),
        ({"wait": [1]}, "wait should be a whole number or text, got [1]"),
        ({"method": "marvel-semi", "--span": "inf"}, "span should be a number, got inf"),
        ({"wiat": 3}, "no setting 'wiat'; did you mean 'wait'?"),
        ({"--epoch": 3}, "no flag '--epoch'; did you mean '--epochs'?"),
        ({"--wieght-decay": 3}, "did you mean '--weight-decay'?"),
        ({"method": "ce", "wait": 3}, "method 'ce' has none of its own"),
    ],
)
def test_bad_values_give_a_clear_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        config_from(values)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epochs": "3"}, "epochs must be a whole number, got '3'"),
        ({"batch": 64.5}, "batch must be a whole number, got 64.5"),
        ({"lr": "0.1"}, "lr must be a number, got '0.1'"),
        ({"seed": True}, "seed must be a whole number, got True"),
    ],
)
def test_the_dataclass_refuses_what_is_no_number(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Config(**settings)
    assert str(caught.value) == said


def test_numbers_of_numpy_and_paths_are_written_as_any_other(tmp_path: Path) -> None:
    """As the loops `for seed in np.arange(3)` and `for file in folder.iterdir()` give them."""
    told = {"seed": np.int64(1), "epochs": np.int32(2), "batch": np.uint8(32), "lr": np.float32(0.5)}
    told |= {"rates": np.array([0.25, 0.0]), "noise": "pair", "ledger": np.True_, "options": {"wait": np.int64(2)}}
    told["drops"] = [np.int64(1), 2]
    plain = {"seed": 1, "epochs": 2, "batch": 32, "lr": 0.5, "drops": (1, 2)}
    plain |= {"rates": (0.25, 0.0), "noise": "pair", "ledger": True, "options": {"wait": 2}}
    config = Config(data=tmp_path / "mine.npz", root=tmp_path, **told)  # type: ignore[arg-type]
    assert config == Config(data=str(tmp_path / "mine.npz"), root=str(tmp_path), **plain)  # type: ignore[arg-type]
    assert json.loads(json.dumps(config.facts())) == as_plain(config.facts())


def test_a_run_of_numpys_numbers_is_written_and_resumed(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.random.default_rng(0).standard_normal((40, 4)), y=np.arange(40) % 2)
    for resume in (False, True):
        config = Config(data=tmp_path / "mine.npz", seed=np.int64(3), epochs=np.int64(2))  # type: ignore[arg-type]
        train(config, tmp_path / "run", resume=resume)
    written = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (written["data"], written["seed"], written["epochs"]) == (str(tmp_path / "mine.npz"), 3, 2)


def test_the_dataclass_refuses_parameters_the_method_does_not_have() -> None:
    with pytest.raises(UnknownName, match="no parameter of ce 'wait'"):
        Config(method="ce", options={"wait": 3})


def test_options_are_typed_from_the_signature() -> None:
    config = config_from({"method": "npcl", "noise-rate": "0.2", "burn_in": "3", "threshold": "batch"})
    assert config.options == {"noise_rate": 0.2, "burn_in": 3, "threshold": "batch"}
    assert config_from({"warmup": "auto", "wait": "4"}).options == {"warmup": "auto", "wait": 4}
    assert config_from({"method": "bootstrap", "b": "none"}).options == {"b": None}


@pytest.mark.parametrize("method", METHODS)
def test_options_of_are_keyword_only_and_never_the_truth(method: str) -> None:
    options = options_of(METHODS[method])
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options.values())
    assert "clean" not in options


def test_options_of_include_those_of_the_method_extended() -> None:
    assert set(options_of(METHODS["marvel"])) < set(options_of(METHODS["marvel+"]))


def test_read_config_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        read_config(tmp_path / "no.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("epochs = = 3")
    with pytest.raises(InvalidInput, match="is not a TOML file"):
        read_config(bad)


def test_but_changes_a_setting_and_checks_it() -> None:
    assert Config().but(epochs=3).epochs == 3
    with pytest.raises(InvalidInput):
        Config().but(epochs=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": "3"}, "epochs must be a whole number, got '3'"),
        ({"drops": 5}, "drops should be numbers or none, got 5"),
        ({"drops": ("a",)}, "drops should be numbers or none"),
        ({"noise": "pair", "rates": 0.4}, "rates should be numbers, got 0.4"),
        ({"data": 3}, "data should be text, got 3"),
        ({"label": 3}, "label should be text or none, got 3"),
        ({"ledger": "yes"}, "ledger should be true or false, got 'yes'"),
        ({"options": None}, "options should be a table"),
        ({"options": {"wait": 2.5}}, "wait should be a whole number or text, got 2.5"),
        ({"options": {"immediate": "no"}}, "immediate should be true or false, got 'no'"),
        ({"options": {"cost": 3}}, "cost should be text or a function, got 3"),
        ({"method": "gce", "options": {"q": "0.5"}}, "q should be a number, got '0.5'"),
        ({"method": "gce", "options": {"q": True}}, "q should be a number, got True"),
        ({"method": "elr", "options": {"lam": math.inf}}, "lam should be a number, got inf"),
        ({"method": "marvel-semi", "options": {"gentle": math.nan}}, "gentle should be a number, got nan"),
        ({"method": "mentornet", "options": {"dropout": (0.5, None)}}, "dropout should be numbers, got (0.5, None)"),
    ],
)
def test_a_value_of_another_kind_is_said_at_once(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        Config(**changes)
