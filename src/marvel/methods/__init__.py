"""One paper, one file. `METHODS` is the whole list; its keys are those of `--method` and of the paper's tables."""

from marvel.method import Method
from marvel.methods.aum import AUM
from marvel.methods.bootstrap import Bootstrap
from marvel.methods.ce import CE
from marvel.methods.co_teaching import CoTeaching
from marvel.methods.confident_learning import ConfidentLearning
from marvel.methods.d2l import D2L
from marvel.methods.data_parameters import DataParameters
from marvel.methods.dy_bootstrap import DYBootstrap
from marvel.methods.elr import ELR
from marvel.methods.gce import GCE
from marvel.methods.incv import INCV
from marvel.methods.l_dmi import LDMI
from marvel.methods.label_smoothing import LabelSmoothing
from marvel.methods.mae import MAE
from marvel.methods.marvel import Marvel, MarvelPlus
from marvel.methods.marvel_semi import MarvelSemi
from marvel.methods.mentornet import MentorNet
from marvel.methods.mixup import Mixup
from marvel.methods.npcl import NPCL
from marvel.methods.oracle import Oracle
from marvel.methods.sat import SAT
from marvel.methods.sce import SCE

METHODS: dict[str, type[Method]] = {
    "aum": AUM,
    "bootstrap": Bootstrap,
    "ce": CE,
    "co-teaching": CoTeaching,
    "confident-learning": ConfidentLearning,
    "d2l": D2L,
    "data-parameters": DataParameters,
    "dy-bootstrap": DYBootstrap,
    "elr": ELR,
    "gce": GCE,
    "incv": INCV,
    "l_dmi": LDMI,
    "label-smoothing": LabelSmoothing,
    "mae": MAE,
    "marvel": Marvel,
    "marvel+": MarvelPlus,
    "marvel-semi": MarvelSemi,
    "mentornet": MentorNet,
    "mixup": Mixup,
    "npcl": NPCL,
    "oracle": Oracle,
    "sat": SAT,
    "sce": SCE,
}
