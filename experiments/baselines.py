"""Every method, in every form, on CIFAR-10 with ResNet-32 and 40% of the labels wrong, on one budget. Beyond the paper.

    marvel bench baselines                           about 65 minutes of one H200; --only noise=symmetric is half of it
    marvel report baselines

The budget is the paper's (`cifar.py`): 50,000 images, 120 epochs, batch 128, the last epoch counts. On top of it each
method has what its own paper asks for. The first form of a method is that of the CIFAR tables; the others are below.
The paper has a number for the method, not for the form: which form its row is of is not known where it took the row
from Pleiss et al. (docs/methods.md says what is).

MARVEL-semi, our own, has a learning rate of its own (`semi.py` has it on the network and the data it was made on).
Co-teaching and NPCL are told the noise rate, INCV its type, Oracle and the data-driven mentor which labels are right.
"""

from typing import Any

from marvel.config import Config
from marvel.experiment import Cell, Experiment
from marvel.paper import METHODS, paper_number
from marvel.presets import CIFAR10

from .cifar import BEYOND, on_budget

NAMES = (
    METHODS
    | BEYOND
    | {"sat": "SAT", "mae": "MAE", "label-smoothing": "Label smoothing", "mixup": "mixup"}
    | {"confident-learning": "Confident learning", "marvel-semi": "MARVEL-semi (ours)"}
)
RATE = 0.4
WAITS = {"symmetric": {"marvel": 8, "marvel+": 7}, "circular": {"marvel": 6, "marvel+": 6}}
TABLES = {"symmetric": "cifar-symmetric", "circular": "cifar-asymmetric"}

FORMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sce", "A -9.21 as in its code", {"A": -9.21}),
    ("bootstrap", "soft", {"kind": "soft", "b": 0.95}),
    ("mentornet", "p 0.6", {"percentile": 0.6}),
    ("mentornet", "data-driven", {"form": "dd", "percentile": 0.6}),
    ("d2l", "on SCE", {"window": 5, "base": "sce"}),
    ("data-parameters", "best epoch by a tenth held back", {"validation": 0.1}),
    ("dy-bootstrap", "without mixup", {"mixup": False}),
    ("dy-bootstrap", "MD-DYR-SH", {"kind": "soft-to-hard", "mixing_epochs": 5, "cooling_epochs": 36}),
)
"""What other forms of a method change: (method, what the row says, options)."""


def cells(noise: str) -> list[Cell]:
    """A column: the first form of every method, each followed by its others."""
    found = []
    for method, name in NAMES.items():
        given = on_budget(method, "cifar10", noise, RATE)
        if method in WAITS[noise]:
            given["options"] = {"wait": WAITS[noise][method]}
        config = Config(data="cifar10", noise=noise, rate=RATE, method=method, **given)
        place = (TABLES[noise], "CIFAR-10", f"{RATE:.0%}", method)
        beside = None if paper_number(*place) is None else place
        found.append(Cell("CIFAR-10", noise, name, config, beside))
        if method == "ce":
            late = config.but(drops=CIFAR10.marvel_drops)
            found.append(Cell("CIFAR-10", noise, f"{name} (falling as MARVEL)", late))
        for of, said, changes in FORMS:
            if of == method:
                other = config.but(options={**given["options"], **changes})
                found.append(Cell("CIFAR-10", noise, f"{name} ({said})", other, beside))
    return found


EXPERIMENT = Experiment(
    "baselines",
    "CIFAR-10, 40% of the labels wrong, ResNet-32, one budget: test accuracy",
    tuple(cell for noise in WAITS for cell in cells(noise)),
)
