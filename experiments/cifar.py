"""What the CIFAR tables with ResNet-32 share: the rows, and how each method is set.

    problem     epochs   learning rate, drops   MARVEL's drops   warm-up
    CIFAR-10    120      0.1; 40, 80            80, 100          30
    CIFAR-100   150      0.1; 80, 120           100, 130         40

Batch 128, SGD, momentum 0.9, weight decay 2e-4, crop and flip, all 50,000 images, the final epoch, five runs. The
presets hold this. The authors ran CE, SCE, MARVEL, MARVEL+ and Oracle. The other rows of the paper are Pleiss et al.'s;
ours are of the same budget with what each method's own paper asks for, and stand beside them without a verdict. GCE and
ELR are not in the paper's tables. `baselines.py` has all methods at 40 %, and the other forms of some.
"""

from typing import Any

from marvel.config import Config
from marvel.experiment import Cell
from marvel.paper import CIFAR, METHODS, paper_number
from marvel.presets import PRESETS

SEEDS = tuple(range(5))
BEYOND = {"gce": "GCE", "elr": "ELR"}


def rows(table: str, data: str, noise: str, rate: float, wait: int, wait_plus: int) -> list[Cell]:
    """A column of a table: every method the paper has there, and those beyond it."""
    dataset, column = CIFAR[data], f"{rate:.0%}"
    cells = []
    for method, name in (METHODS | BEYOND).items():
        place = (table, dataset, column, method)
        if method in BEYOND or paper_number(*place) is not None:
            waits = {"marvel": wait, "marvel+": wait_plus}
            given = {"options": {"wait": waits[method]}} if method in waits else on_budget(method, data, noise, rate)
            config = Config(data=data, noise=noise, rate=rate, method=method, **given)
            cells.append(Cell(dataset, column, name, config, None if method in BEYOND else place))
    return cells


def on_budget(method: str, data: str, noise: str, rate: float) -> dict[str, Any]:
    """Settings of a baseline on the common budget: what its own paper asks for, at this noise."""
    preset, many = PRESETS[data], data == "cifar100"
    first_drop, kind = preset.drops[0], "symmetric" if noise == "symmetric" else "asymmetric"
    options: dict[str, dict[str, Any]] = {
        "gce": {"q": 0.7},
        "sce": {"alpha": 6.0, "beta": 0.1} if many else {"alpha": 0.1, "beta": 1.0},
        "bootstrap": {"kind": "hard", "b": 0.8},
        "mentornet": {"form": "pd", "percentile": 0.5 if rate == 0.8 else 0.75},
        "co-teaching": {"noise_rate": rate, "ramp": 10, "judge": "mean"},
        "d2l": {"first": 20 if many else 10, "window": 12, "after_drop": 2},
        "l_dmi": {"pretrain": preset.epochs, "pretrain_drops": preset.drops, "pretrain_batch": 128, "dmi_lr": 1e-6},
        "data-parameters": {"learn": "instance", "instance_lr": 0.2},
        "dy-bootstrap": {"kind": "hard", "mixup": True, "burn_in": first_drop + 5},
        "incv": {"noise_type": kind, "rounds": 4, "stage_epochs": 50, "ramp": 10, "judge": "mean"},
        "aum": {"pass_epochs": first_drop, "pass_batch": 64, "pass_lr": 0.1},
        "npcl": {"noise_rate": rate, "burn_in": 10, "threshold": "rate"},
        "confident-learning": {"folds": 5, "fold_epochs": first_drop},
        "elr": {"b": 0.9, "lam": 7.0 if many else 1.0} if many or noise == "circular" else {"b": 0.7, "lam": 3.0},
    }
    settings: dict[str, Any] = {"options": options.get(method, {})}
    if method == "l_dmi":
        # After the cross entropy; a determinant of 100 classes needs batches that have them all.
        settings |= {"epochs": 40, "drops": (), "batch": 1024 if many else 256}
    return settings
