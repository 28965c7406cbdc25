"""Hyper-parameters by trying them, or by what a recorded run already tells.

space.py     what is tried: lists, ranges, and the paper's own grids
folds.py     which instances are held out, with their given labels
trials.py    what came of it, kept in an Optuna study
search.py    `tune`: the paper's three protocols
replay.py    any warm-up and wait on a recorded ledger, without training
"""

from marvel.tune.replay import Replayed, replay, replay_folder
from marvel.tune.search import Tuned, tune
from marvel.tune.trials import Trial

__all__ = ["Replayed", "Trial", "Tuned", "replay", "replay_folder", "tune"]
