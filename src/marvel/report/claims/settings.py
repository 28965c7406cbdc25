"""The settings of the paper's tables: problems and noises, to be run by any method."""

from marvel.report.cells import Cell

PROBLEMS = ("boot-sneaker", "truck-car", "cat-dog", "aquatic-fish")
PAIRS = ((0.2, 0.0), (0.3, 0.1), (0.4, 0.0), (0.4, 0.1))

BINARY_SYMMETRIC = tuple(Cell(data, "symmetric", (rate,), "") for data in PROBLEMS for rate in (0.1, 0.2, 0.3, 0.4))
BINARY_ASYMMETRIC = tuple(Cell(data, "pair", rates, "") for data in PROBLEMS for rates in PAIRS)
BINARY = BINARY_SYMMETRIC + BINARY_ASYMMETRIC

CIFAR_SYMMETRIC = tuple(
    Cell(data, "symmetric", (rate,), "") for data in ("cifar10", "cifar100") for rate in (0.2, 0.4, 0.6, 0.8)
)
CIFAR_ASYMMETRIC = tuple(Cell(data, "circular", (rate,), "") for data in ("cifar10", "cifar100") for rate in (0.2, 0.4))
CIFAR = CIFAR_SYMMETRIC + CIFAR_ASYMMETRIC

RESNET34_SYMMETRIC = tuple(Cell("cifar10", "symmetric", (rate,), "", "resnet34") for rate in (0.2, 0.4, 0.6, 0.8))
RESNET34_DEPENDENT = tuple(Cell("cifar10", "class-dependent", (rate,), "", "resnet34") for rate in (0.1, 0.2, 0.3, 0.4))
