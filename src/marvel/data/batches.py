"""Where the raw instances of a batch come from: tensors on the device, or a dataset read by workers.

Both give the same tensors for the same instances; the views are made from them on the device.
"""

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import finalize

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from marvel.data.arrays import channels_first
from marvel.errors import DataError


class Source(Protocol):
    """Raw instances by their index, in the order asked for, on one device."""

    device: torch.device

    def __len__(self) -> int: ...

    def fetch(self, index: Tensor) -> Tensor:
        """The raw instances of one index list."""
        ...

    def stream(self, draws: Sequence[Tensor], first: int = 0, *, seed: int | None = None) -> Iterator[Tensor]:
        """The raw instances of each index list in turn; `first` is which step of its epoch they begin with, `seed` of
        what is random in them, None of a test."""
        ...


class Resident:
    """A dataset that lives on the device whole: a batch is one gather, and nothing waits."""

    def __init__(self, x: Tensor, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.x = x.to(self.device).contiguous()

    def __len__(self) -> int:
        return len(self.x)

    def fetch(self, index: Tensor) -> Tensor:
        return self.x.index_select(0, index)

    def stream(self, draws: Sequence[Tensor], first: int = 0, *, seed: int | None = None) -> Iterator[Tensor]:
        for index in draws:
            yield self.fetch(index.to(self.device, non_blocking=True))


class Streamed:
    """Any map-style dataset, read by `workers` processes while the device computes; 0 reads in this one.

    An item is x or (x, ...), where x is a tensor, an array or a PIL image; `pick` takes x out of any other item.
    Images become uint8 (C, H, W), and must all have one size.
    """

    def __init__(
        self, dataset: Any, device: torch.device | str, workers: int = 0, pick: Callable[[Any], Any] | None = None
    ) -> None:
        self.device = torch.device(device)
        self.items = _Instances(dataset, pick or _first)
        self.workers = workers
        self.idle: list[DataLoader[Tensor]] = []
        """Loaders whose workers wait for the next epoch: starting them anew each time takes as long as they read."""
        # Workers end at once when told. Where a loader is garbage of a cycle (a run and its trainer are one), Python
        # closes the queue before they are told, and DataLoader waits five seconds for each: so the list outlives us.
        finalize(self, self.idle.clear)

    def __len__(self) -> int:
        return len(self.items)

    def fetch(self, index: Tensor) -> Tensor:
        return self.items.together([self.items[i] for i in index.tolist()]).to(self.device)

    def stream(self, draws: Sequence[Tensor], first: int = 0, *, seed: int | None = None) -> Iterator[Tensor]:
        loader = self.idle.pop() if self.idle else self.loader()
        drawn = loader.batch_sampler
        assert isinstance(drawn, _Draws)
        drawn.lists, drawn.first = [index.cpu() for index in draws], first
        drawn.crops = seed if self.items.crops and seed is not None else -1
        try:
            for x in loader:
                yield x.to(self.device, non_blocking=True)
        except DataError as error:
            # A worker's comes with its traceback, of which the last line says what is wrong.
            raise DataError(str(error).strip().rpartition("DataError: ")[2]) from None
        self.idle.append(loader)

    def loader(self) -> "DataLoader[Tensor]":
        return DataLoader(
            self.items,
            batch_sampler=_Draws(),
            num_workers=self.workers,
            collate_fn=_as_made,
            pin_memory=self.device.type == "cuda",
            persistent_workers=self.workers > 0,
            generator=torch.Generator(),  # or torch's global one would be drawn from
        )


class _Draws(Sampler[list[int]]):
    """The index lists of an epoch, each behind a seed that follows from it."""

    def __init__(self) -> None:
        self.lists: list[Tensor] = []  # as Python's numbers, millions of them would be 40 bytes each
        self.first = 0
        self.crops = -1  # the seed of random parts of images; -1: their middle

    def __len__(self) -> int:
        return len(self.lists)

    def __iter__(self) -> Iterator[list[int]]:
        for step, draw in enumerate(self.lists, self.first):
            index = draw.tolist()
            yield [zlib.crc32(np.array([step, *index], dtype=np.int64).tobytes()), self.crops, *index]


class _Instances(Dataset[Tensor]):
    """The raw x of each item of a dataset."""

    def __init__(self, dataset: Any, pick: Callable[[Any], Any]) -> None:
        self.dataset = dataset
        self.pick = pick
        self.crops: bool = getattr(dataset, "crops", False) is True

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Tensor:
        return _raw(self.pick(self.dataset[index]))

    def together(self, instances: list[Tensor]) -> Tensor:
        """Stacked; none of them in the shape of one."""
        return _stack(instances) if instances else _stack([self[0]])[:0]

    def __getitems__(self, draw: list[int]) -> Tensor:
        """A batch, from `_Draws`.

        Random transforms inside a user's dataset then differ from epoch to epoch and repeat with the run's seed,
        whichever worker makes them, while the generators of this process are left alone.
        """
        seed, crops, *index = draw
        if crops >= 0:
            return self.together([self.dataset.part(i, crops) for i in index])
        with _seeded(seed):
            return self.together([self[i] for i in index])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Python's, numpy's and torch's global generators from `seed`, as they were afterwards."""
    ours, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002  a user's transforms draw from it
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(ours)
            np.random.set_state(numpys)  # noqa: NPY002


def _first(item: Any) -> Any:
    return item[0] if isinstance(item, tuple | list) else item


def _raw(x: Any) -> Tensor:
    """A tensor as it is; an array or PIL image as a tensor with its channels first; doubles as float32."""
    if isinstance(x, Tensor):
        tensor = x
    else:
        array = x if isinstance(x, np.ndarray) else _pixels(x)
        if array.ndim == 3 and not channels_first(array.shape):
            array = array.transpose(2, 0, 1)
        tensor = torch.from_numpy(np.array(array, order="C"))
    if tensor.dtype == torch.uint8:
        return tensor.unsqueeze(0) if tensor.ndim == 2 else tensor
    return tensor.float()


def _pixels(image: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    from PIL import Image

    if not isinstance(image, Image.Image):
        raise DataError(
            f"an instance must be a tensor, an array or a PIL image, given {type(image).__name__}; "
            "pick=lambda item: ... takes it out of an item"
        )
    return np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))


def _as_made(batch: Any) -> Any:
    """What `__getitems__` gives is a batch already."""
    return batch


def _stack(instances: list[Tensor]) -> Tensor:
    shapes = {tuple(x.shape) for x in instances}
    if len(shapes) > 1:
        raise DataError(
            f"instances must have one shape, given {sorted(shapes)}; resize them in the dataset's transform"
        )
    return torch.stack(instances)
