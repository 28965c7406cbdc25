"""The epochs of a loop of one's own, written down as they end: metrics.jsonl, and the ledger of margins and weights."""

from pathlib import Path

import torch

from marvel.distributed import writes_files
from marvel.errors import FolderError
from marvel.ledger import Ledger
from marvel.method import Method, Seen
from marvel.runs import RunFolder


class Keeper:
    """A watcher of a criterion that writes every epoch into a run folder."""

    def __init__(self, folder: RunFolder, n: int) -> None:
        self.folder, self.ledger = folder, Ledger(torch.zeros(n), None)
        self.begun = False

    def __call__(self, criterion: Method, seen: Seen) -> None:
        epoch = criterion.epoch - 1
        line = {"epoch": epoch, **self.ledger.line(criterion, seen), **criterion.chosen}
        if not writes_files():
            return
        if not self.begun:
            # What an interrupted loop wrote after the checkpoint it goes on from is taken back.
            self.folder.cut_metrics(epoch - 1)
            self.begun = True
        self.folder.append(line)
        self.folder.write_ledger(epoch, seen.margin, criterion.weight, seen.mask)


def keep_ledger(folder: str | Path, criterion: Method, *, replace: bool = False) -> None:
    """Write every epoch of `criterion` into the run folder: call it before the loop, whoever steps the criterion.

    The report then has its curves, and the review each instance's margins by epoch. On disk that is four bytes an
    instance and epoch. Of several processes the first one writes. `replace` forgets the run that the folder holds.
    """
    keeper = Keeper(RunFolder(folder), criterion.n)
    if writes_files():
        make_room(keeper.folder, replace)
    criterion.watchers.append(keeper)


def is_kept(folder: RunFolder, criterion: Method) -> bool:
    """Whether the epochs in the folder are this criterion's."""
    places = [one.folder.path.resolve() for one in criterion.watchers if isinstance(one, Keeper)]
    return folder.path.resolve() in places


def make_room(folder: RunFolder, replace: bool) -> None:
    """See that the folder holds no finished run, or forget it; decisions that were made about it stay."""
    if folder.path.exists() and not folder.path.is_dir():
        raise FolderError(f"{folder.path} is a file: name a folder for the run")
    config = folder.config
    if config is None:
        return
    if not (isinstance(config.get("config"), dict) and isinstance(config.get("data"), dict)):
        raise FolderError(f"{folder.path} holds a config.json that is not of a run: name another folder")
    if not replace:
        raise FolderError(f"{folder.path} holds a run already: name another folder, or say replace=True")
    folder.clear()
