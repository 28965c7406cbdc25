"""CIFAR-10N, labels that people got wrong: beyond the paper.

    marvel bench human-noise --seeds 0               about 12 minutes of one H200
    marvel report human-noise

"aggregate" is the majority of three annotators (9 % wrong); "worst" takes a wrong label where one of them gave one
(40 % wrong). The protocol is that of CIFAR-10 in Table 3. MARVEL's warm-up is 30; its wait is the automatic one, 8,
since nobody tuned it for these labels. The clean labels are known: finding the wrong ones can be judged, and Oracle be
run.
"""

from marvel.config import Config
from marvel.experiment import Cell, Experiment

from .cifar import BEYOND, METHODS, on_budget

EXPERIMENT = Experiment(
    "human-noise",
    "CIFAR-10N, human label noise, ResNet-32",
    tuple(
        Cell(
            "CIFAR-10N",
            data.removeprefix("cifar10n-"),
            (METHODS | BEYOND)[method],
            Config(data=data, method=method, **on_budget(method, "cifar10", "human", 0.0)),
        )
        for data in ("cifar10n-aggregate", "cifar10n-worst")
        for method in ("ce", "gce", "sce", "elr", "marvel", "marvel+", "oracle")
    ),
    tuple(range(5)),
    measures=("test_accuracy", "label_precision", "label_recall", "detection_auroc", "detection_f1"),
    headings=("data", "labels", "method"),
)
