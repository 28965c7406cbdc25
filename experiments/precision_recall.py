"""Label precision and recall of MARVEL on CIFAR-10 and CIFAR-100 by noise level: the paper's Figure 9.

    marvel bench precision-recall --seeds 0          no runs of its own: MARVEL's of Tables 3 and 4
    marvel report precision-recall

Both are of the instances kept at the end of training. The paper prints no numbers but these, in words: on CIFAR-10 with
60 % symmetric noise about 90 % of the clean labels are kept, and 7 % of those kept are noisy.
"""

from dataclasses import replace

from marvel.experiment import Experiment

from .cifar import SEEDS
from .readings import CIFAR, of

EXPERIMENT = Experiment(
    "precision-recall",
    "CIFAR-10 and CIFAR-100: label precision and recall of the kept set",
    tuple(replace(cell, paper=None) for cell in of(CIFAR, "marvel", "marvel+")),
    SEEDS,
    measures=("label_precision", "label_recall"),
)
