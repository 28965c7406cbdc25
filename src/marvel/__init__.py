"""Marvel: train on labels that cannot be trusted, and find the wrong ones."""

from marvel.errors import DataError, FolderError, InvalidInput, MarvelError, MissingExtra, NonFinite, UnknownName
from marvel.method import Batch, Indexed, Issue, Method, Seen, margins
from marvel.methods import METHODS
from marvel.methods.bootstrap import Bootstrap
from marvel.methods.ce import CE
from marvel.methods.gce import GCE
from marvel.methods.marvel import Marvel, MarvelPlus
from marvel.methods.npcl import NPCL
from marvel.methods.oracle import Oracle
from marvel.methods.sce import SCE

__version__ = "0.1.0"

__all__ = [
    "CE",
    "GCE",
    "METHODS",
    "NPCL",
    "SCE",
    "Batch",
    "Bootstrap",
    "DataError",
    "FolderError",
    "Indexed",
    "InvalidInput",
    "Issue",
    "Marvel",
    "MarvelError",
    "MarvelPlus",
    "Method",
    "MissingExtra",
    "NonFinite",
    "Oracle",
    "Seen",
    "UnknownName",
    "margins",
]
