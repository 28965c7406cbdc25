"""The numbers of the paper's tables, and the rule by which ours are held against them.

Lin & Bradic, "Learning to Combat Noisy Labels via Classification Margins", arXiv 2102.00751. Some rows of its tables
were measured by its authors (`source` "authors"), others are taken from Pleiss et al., NeurIPS 2020 ("pleiss").

    verdict:  |ours - theirs| <= max(1.0, 2 sqrt(sd_theirs^2 / n_theirs + sd_ours^2 / n_ours))     points of accuracy

with the paper's sd for ours below three runs, so that more seeds tighten it. There is a verdict only beside rows the
authors measured in more than one run.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean, stdev
from typing import Any

from marvel.errors import InvalidInput
from marvel.presets import PRESETS

LEAST = 1.0
"""A difference of so many points is never called one."""
FEW = 3
"""Below so many runs our own standard deviation says nothing."""

BINARY = {"boot-sneaker": "Boot", "truck-car": "Truck", "cat-dog": "Cat", "aquatic-fish": "Aquatic"}
CIFAR = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
"""What the paper calls our problems."""

METHODS = {
    "ce": "CE",
    "gce": "GCE",
    "sce": "SCE",
    "npcl": "NPCL",
    "bootstrap": "Bootstrap",
    "mentornet": "MentorNet",
    "co-teaching": "Co-Teaching",
    "d2l": "D2L",
    "l_dmi": "L_DMI",
    "data-parameters": "Data Params",
    "dy-bootstrap": "DY-Bootstrap",
    "incv": "INCV",
    "aum": "AUM",
    "marvel": "MARVEL",
    "marvel+": "MARVEL+",
    "oracle": "Oracle",
}
"""What it calls our methods, in the order of its tables."""


@dataclass(frozen=True)
class PaperNumber:
    """One cell: test accuracy in percent, or epochs in the tables of waits and warm-ups."""

    table: str
    dataset: str
    column: str
    method: str
    mean: float | None  # None: not given, or diverged; the note says which
    sd: float | None
    source: str
    runs: int | None
    note: str | None


@dataclass(frozen=True)
class Verdict:
    """Our runs beside a cell."""

    difference: float  # ours - theirs, in points
    bound: float
    agrees: bool


def paper_number(table: str, dataset: str, column: str, method: str) -> PaperNumber | None:
    """The cell of that place; None where the paper has none."""
    return _numbers().get((table, dataset, column, method))


def paper_cell(config: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """(table, dataset, column) of a run's resolved settings; None where the paper ran no such problem."""
    data, noise = config["data"], config["noise"]
    rate, rates = _percent(config["rate"]), ",".join(map(_percent, config["rates"]))
    if data in BINARY and noise in ("symmetric", "pair"):
        pair = noise == "pair"
        return f"binary-{'asymmetric' if pair else 'symmetric'}", BINARY[data], f"({rates})" if pair else rate
    if data == "cifar10" and config["network"] == "resnet34":
        kinds = {"symmetric": "Symmetric", "class-dependent": "Class-Dependent"}
        return ("resnet34", kinds[noise], rate) if noise in kinds else None
    if data in CIFAR and noise in ("symmetric", "circular"):
        return f"cifar-{'symmetric' if noise == 'symmetric' else 'asymmetric'}", CIFAR[data], rate
    return None


def beside(config: Mapping[str, Any]) -> PaperNumber | None:
    """The paper's number for a run with these resolved settings; None where the paper ran no such thing.

    A run belongs beside the paper's only with its network, optimizer, batch, epochs, learning rate, warm-up and wait.
    """
    cell = paper_cell(config)
    if cell is None or not _as_in_the_paper(config, *cell):
        return None
    return paper_number(*cell, config["method"])


def verdict(ours: Sequence[float], theirs: PaperNumber) -> Verdict | None:
    """Whether our runs, in percent, agree with the cell; None beside cells that allow no verdict."""
    if not ours:
        raise InvalidInput("a verdict needs at least one run of ours")
    if theirs.source != "authors" or theirs.mean is None or theirs.sd is None or (theirs.runs or 0) < 2:
        return None
    assert theirs.runs is not None
    sd = theirs.sd if len(ours) < FEW else stdev(ours)
    bound = max(LEAST, 2 * math.sqrt(theirs.sd**2 / theirs.runs + sd**2 / len(ours)))
    difference = fmean(ours) - theirs.mean
    # A difference of accuracies is one of decimal fractions: 88.4 - 87.4 must not exceed 1.0 by its last bit.
    return Verdict(difference, bound, round(abs(difference), 9) <= round(bound, 9))


USUAL = {
    "schedule": "drops",
    "optimizer": "sgd",
    "momentum": 0.9,
    "nesterov": False,
    "weight_decay": 2e-4,
    "weights": None,
}
"""How all of the paper's networks are trained."""


def _as_in_the_paper(config: Mapping[str, Any], table: str, dataset: str, column: str) -> bool:
    if any(config.get(name, value) != value for name, value in USUAL.items()):
        return False
    preset, method = PRESETS[config["data"]], config["method"]
    network, epochs, drops, warmup = preset.network, preset.epochs, preset.drops_for(method), preset.warmup
    held, protocol = 0.0, "final"
    if table == "resnet34":
        # A tenth is held out with clean labels, and the epoch they choose counts; of cross entropy, the last.
        network, warmup, held, protocol = "resnet34", 40, 0.1, "final" if method == "ce" else "validation"
    if method == "npcl" and table.startswith("binary") and dataset != "Boot":
        epochs, drops = 200, tuple(config["drops"])  # when its learning rate falls is not said
    options = config["options"]
    trained = {name: config[name] for name in ("batch", "epochs", "drops")}
    if method == "l_dmi" and options.get("pretrain"):
        # The protocol is that of the cross entropy that comes first; what follows is the method's own.
        own = {"batch": "pretrain_batch", "epochs": "pretrain", "drops": "pretrain_drops"}
        trained |= {name: options[key] for name, key in own.items() if options.get(key) is not None}
    asked = (config["network"], trained["batch"], trained["epochs"], config["lr"], tuple(trained["drops"]))
    if (*asked, config["hold_out"], config["protocol"]) != (network, 128, epochs, preset.lr, drops, held, protocol):
        return False
    wait = paper_number(f"{table}-waits", dataset, column, method)
    return wait is None or (options.get("wait"), options.get("warmup")) == (wait.mean, warmup)


def _percent(rate: float) -> str:
    return f"{100 * rate:g}%"


@cache
def _numbers() -> dict[tuple[str, str, str, str], PaperNumber]:
    content = json.loads(files("marvel").joinpath("paper.json").read_text(encoding="utf-8"))
    found = [PaperNumber(**dict(zip(content["fields"], row, strict=True))) for row in content["rows"]]
    return {(one.table, one.dataset, one.column, one.method): one for one in found}
