"""From a loop of one's own to the run folder that `marvel review`, `export` and `report` take.

    keep_ledger("runs/mine", criterion)                    # before the loop; optional: margins by epoch
    ...                                                    # the loop, whoever runs it
    save_run("runs/mine", criterion, dataset)              # issues.csv, report.html and all the rest

The way of it: `dataset` (given labels, names and instances of whatever was trained on) -> `looks` (what a person sees
of an instance) -> `save`, which writes with the functions of `marvel clean`.
"""

from marvel.loop.keep import keep_ledger
from marvel.loop.save import Saved, save_run

__all__ = ["Saved", "keep_ledger", "save_run"]
