"""One paper, one file. `METHODS` is the whole list; its keys are those of `--method` and of the paper's tables."""

from marvel.method import Method
from marvel.methods.aum import AUM
from marvel.methods.bootstrap import Bootstrap
from marvel.methods.ce import CE
from marvel.methods.confident_learning import ConfidentLearning
from marvel.methods.gce import GCE
from marvel.methods.marvel import Marvel, MarvelPlus
from marvel.methods.npcl import NPCL
from marvel.methods.oracle import Oracle
from marvel.methods.sce import SCE

METHODS: dict[str, type[Method]] = {
    "aum": AUM,
    "bootstrap": Bootstrap,
    "ce": CE,
    "confident-learning": ConfidentLearning,
    "gce": GCE,
    "marvel": Marvel,
    "marvel+": MarvelPlus,
    "npcl": NPCL,
    "oracle": Oracle,
    "sce": SCE,
}
