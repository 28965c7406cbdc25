"""Marvel: train on labels that cannot be trusted, and find the wrong ones."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "AUM",
    "CE",
    "D2L",
    "ELR",
    "GCE",
    "INCV",
    "LDMI",
    "MAE",
    "METHODS",
    "NPCL",
    "SAT",
    "SCE",
    "Batch",
    "Bootstrap",
    "CoTeaching",
    "ConfidentLearning",
    "DYBootstrap",
    "DataError",
    "DataParameters",
    "FolderError",
    "Indexed",
    "InvalidInput",
    "Issue",
    "LabelSmoothing",
    "Marvel",
    "MarvelError",
    "MarvelPlus",
    "MarvelSemi",
    "MentorNet",
    "Method",
    "MissingExtra",
    "Mixup",
    "NonFinite",
    "Oracle",
    "PartnerLost",
    "Seen",
    "UnknownName",
    "drawn",
    "keep_ledger",
    "margins",
    "save_run",
]

_ROOMS = [
    "bench",
    "clean",
    "config",
    "data",
    "export",
    "integrations",
    "metrics",
    "networks",
    "noise",
    "report",
    "review",
    "run",
    "runs",
    "trainer",
    "tune",
]
"""The modules that `marvel.data.load(...)` and its like lead to, after `import marvel` alone."""

if TYPE_CHECKING:
    from marvel.draws import drawn
    from marvel.errors import (
        DataError,
        FolderError,
        InvalidInput,
        MarvelError,
        MissingExtra,
        NonFinite,
        PartnerLost,
        UnknownName,
    )
    from marvel.issues import Issue
    from marvel.loop import keep_ledger, save_run
    from marvel.method import Batch, Indexed, Method, Seen, margins
    from marvel.methods import METHODS
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
else:
    # Torch takes seconds to import, and `marvel --help` needs none of it: a name is found when it is first used.
    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _ROOMS:
            return import_module(f"marvel.{name}")
        if name in __all__:
            for home in ("errors", "draws", "issues", "method", "methods", "loop"):
                module = import_module(f"marvel.{home}")
                if hasattr(module, name):
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module 'marvel' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
