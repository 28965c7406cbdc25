"""Figures, one file each; `python -m marvel.report.figures` draws all of the paper's from records."""

from marvel.report.cells import NAMES, Record
from marvel.report.figures.curves import curves

__all__ = ["NAMES", "Record", "curves"]
