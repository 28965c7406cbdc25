"""Test accuracy on WebVision50 and Clothing100K, ResNet-50: the paper's Table 6, 4 cells of its authors.

    marvel bench real-world --root datasets          about 8 hours of one H200, if sixteen cores can decode as fast
    marvel report real-world

160 epochs, batch 256, learning rate 0.1, SGD, momentum 0.9, weight decay 2e-4. The paper says crops of 224 and flips;
as in the code it follows, a crop is a random part of the image, scaled. One run; the mean of the last ten epochs
counts. The labels are wrong as they come. The rows of Pleiss et al. (in `marvel.paper`) are of another protocol, and
not repeated here. The files of both datasets, and how to prepare them: docs/large-data.md.
"""

from marvel.config import Config
from marvel.experiment import Cell, Experiment
from marvel.paper import METHODS

DROPS, MARVEL_DROPS = (80, 120), (120, 140)
DATASETS = {  # the warm-up, and the wait the paper found
    "webvision50": ("WebVision50", 50, 62),
    "clothing100k": ("Clothing100K", 70, 44),
}


def cell(data: str, method: str) -> Cell:
    dataset, warmup, wait = DATASETS[data]
    marvel = method == "marvel"
    config = Config(
        data=data,
        method=method,
        network="resnet50",
        epochs=160,
        batch=256,
        lr=0.1,
        drops=MARVEL_DROPS if marvel else DROPS,
        protocol="last10",
        options={"warmup": warmup, "wait": wait} if marvel else {},
    )
    return Cell(dataset, "as it comes", METHODS[method], config, ("real-world", dataset, "final-10", method))


EXPERIMENT = Experiment(
    "real-world",
    "WebVision50 and Clothing100K, ResNet-50: test accuracy",
    tuple(cell(data, method) for data in DATASETS for method in ("ce", "marvel")),
    headings=("dataset", "noise", "method"),
)
