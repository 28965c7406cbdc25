"""marvel-semi in the form before: removal that does not wait until labels are memorised.

    marvel bench semi-early --seeds 0                about 1.3 hours of one H200
    marvel report semi-early

The budget, the noises and the columns of `semi.py`. Removal began five epochs after the warm-up, nothing was planted,
and the warm-up ended where accuracy on the given labels rose more slowly, for which there are numbers here. With it
were tried other warm-ups; control (a), nothing removed; "zero 0": every negative margin speaks against its label; and
"doubt 2": below z there are twice as many wrong labels as right ones.
"""

from typing import Any

from marvel.experiment import Cell, Experiment

from .semi import MEASURES, NOISES, RESNET18, RESNET32, config

WARMUPS: dict[str, dict[str, int]] = {
    "early": {
        "symmetric 80%": 24,
        "worst": 14,
        "symmetric 40%": 15,
        "circular 40%": 16,
        "aggregate": 14,
        "symmetric 20%": 14,
        "clean": 14,
    },
    "early with warm-up 45": {"symmetric 80%": 45},
    "early with warm-up 60": {"symmetric 80%": 60},
    "early (a)": {"symmetric 80%": 24, "worst": 15, "symmetric 20%": 14, "clean": 14},
    "early with zero 0": {"circular 40%": 16, "symmetric 20%": 14, "clean": 14},
    "early with doubt 2": {"worst": 14, "symmetric 20%": 14},
    "early at 200 epochs": {"symmetric 80%": 50, "worst": 21},
    "early at 300 epochs with zero 0": {"symmetric 80%": 75, "symmetric-inclusive 80%": 53, "worst": 27},
}
"""How long the warm-up was, by row and column."""
OPTIONS: dict[str, dict[str, Any]] = {
    "early (a)": {"removal": False},
    "early with zero 0": {"zero": 0.0},
    "early with doubt 2": {"doubt": 2.0},
    "early at 300 epochs with zero 0": {"zero": 0.0},
}
EPOCHS = {"early at 200 epochs": 200, "early at 300 epochs with zero 0": 300}


def cells() -> list[Cell]:
    found = []
    for row, warmups in WARMUPS.items():
        for at, warmup in warmups.items():
            options = {"late": False, "warmup": warmup} | OPTIONS.get(row, {})
            asked = config("marvel-semi", **NOISES[at], epochs=EPOCHS.get(row, 115), options=options)
            found.append(Cell(RESNET18, at, row, asked))
    small = {"network": "resnet32", "epochs": 120, "options": {"late": False, "warmup": 24, "zero": 0.0}}
    hard = config("marvel-semi", **NOISES["symmetric 80%"], **small)
    return [*found, Cell(RESNET32, "symmetric 80%", "early with zero 0", hard)]


EXPERIMENT = Experiment(
    "semi-early",
    "MARVEL-semi in the form before, whose removal did not wait",
    tuple(cells()),
    (0,),
    measures=MEASURES,
    headings=("problem", "labels", "method"),
)
