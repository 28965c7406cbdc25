"""What the two binary tables share: their problems, and the six methods as the paper's appendix sets them.

    problem                            network        epochs   learning rate, drops   warm-up
    boot-sneaker (FASHION-MNIST)       4-layer CNN    70       0.01; 50, 60           10
    truck-car (CIFAR-10)               ResNet-18      100      0.01; 75, 90           15
    cat-dog (CIFAR-10)                 ResNet-18      100      0.01; 75, 90           20
    aquatic-fish (CIFAR-100)           ResNet-18      100      0.01; 75, 90           15

SGD, momentum 0.9, weight decay 2e-4; the final epoch counts; ten runs. The presets hold this. NPCL is told the noise
rate, and trains for 200 epochs but on boot-sneaker. The paper gives neither the batch (128 here) nor the learning rate
of the other methods (0.01, MARVEL's), and no drops for 200 epochs (150 and 180, in proportion).

GCE's q and SCE's A and alpha were tuned by the paper with cross-validation, and what it found is not printed. What
`marvel tune` found is read from results/tuned.json; where there is nothing, the default is run, and the table says so.
"""

from typing import Any

from marvel.config import Config
from marvel.experiment import Cell
from marvel.paper import BINARY, METHODS

from .tuned import note, tuned

SEEDS = tuple(range(10))


def six(table: str, column: str, problem: Config, wait: int, wait_plus: int) -> list[Cell]:
    """A column of a table: CE, GCE, SCE, NPCL, MARVEL and MARVEL+ on one problem with one noise."""
    dataset = BINARY[problem.data]
    cells = []
    for method in ("ce", "gce", "sce", "npcl", "marvel", "marvel+"):
        settings: dict[str, Any] = {"method": method}
        said = None
        if method in ("gce", "sce"):
            found = tuned(problem, method)
            said = note(found)
            settings["options"] = found["options"] if found else {}
        elif method == "npcl":
            settings["oracle_rate"] = True
            settings["epochs"] = None if problem.data == "boot-sneaker" else 200
        elif method.startswith("marvel"):
            settings["options"] = {"wait": wait if method == "marvel" else wait_plus}
        place = (table, dataset, column, method)
        cells.append(Cell(dataset, column, METHODS[method], problem.but(**settings), place, said))
    return cells
