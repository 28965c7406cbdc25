"""A dataset in memory: instances, given labels, and what is known about them.

`Data` holds raw instances, so that the views are made where training happens, and labels *as they come*. Noise never
changes it: the trainer holds the labels it trains on, and `clean` is filled only where a dataset's own labels are
known to be wrong (CIFAR-10N).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marvel.data.origin import Origin, SetAside
from marvel.errors import InvalidInput, amount

if TYPE_CHECKING:
    from marvel.data.images import ImageFiles

    Instances: TypeAlias = Tensor | ImageFiles

AUGMENTS = ("none", "crop-flip", "resized-crop-flip")


@dataclass(frozen=True, eq=False)
class Data:
    """Training instances with their labels, and the test set where there is one.

    x          (n, C, H, W) uint8 or float32 images, or (n, D) float32 vectors; or images on disk that stand for them
    y          (n,) int64, the labels as they come
    classes    one name per label, in label order
    clean      (n,) int64, the clean labels where they are known to differ from `y`
    augment    what the training views do: "none", "crop-flip" (pad 4, random crop, horizontal flip), or
               "resized-crop-flip" (a random part of a larger image on disk, scaled; horizontal flip)
    mean       per channel (images, on the 0..1 scale where they are uint8) or per feature (vectors);
    std        by default those of `x`
    ids        one for each training instance: its path, the number of its row, or what a column says
    origin     the file or folder that instances were read from
    set_aside  what is in that file or folder and not among the instances, and why
    decided    rows of that file or folder whose labels a person has decided on
    notes      what its reader would tell a person, a sentence each
    digest     a sha256 of what `x` was made from, where that is exact and `x` is not (texts of a table)
    """

    name: str
    x: "Instances"
    y: Tensor
    classes: tuple[str, ...]
    test_x: "Instances | None" = None
    test_y: Tensor | None = None
    clean: Tensor | None = None
    augment: str = "none"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    ids: tuple[str, ...] | None = None
    origin: Origin | None = None
    set_aside: tuple[SetAside, ...] = ()
    decided: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    digest: str | None = None

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise InvalidInput(f"{self.name}: a classification needs at least 2 classes, given {len(self.classes)}")
        if len(set(self.classes)) != len(self.classes):
            raise InvalidInput(f"{self.name}: class names must differ from one another, given {list(self.classes)}")
        _check_instances(f"{self.name}: x", self.x)
        _check_labels(f"{self.name}: y", self.y, len(self.x), len(self.classes))
        if self.clean is not None:
            _check_labels(f"{self.name}: clean", self.clean, len(self.x), len(self.classes))
        if (self.test_x is None) != (self.test_y is None):
            raise InvalidInput(f"{self.name}: test_x and test_y come together, given only one of them")
        if self.test_x is not None and self.test_y is not None:
            _check_instances(f"{self.name}: test_x", self.test_x)
            if self.test_x.shape[1:] != self.x.shape[1:] or self.test_x.dtype != self.x.dtype:
                raise InvalidInput(
                    f"{self.name}: test instances must be like the training ones, {_kind(self.x)}; "
                    f"given {_kind(self.test_x)}"
                )
            _check_labels(f"{self.name}: test_y", self.test_y, len(self.test_x), len(self.classes))
        if self.augment not in AUGMENTS:
            raise InvalidInput(f"{self.name}: augment is one of {', '.join(AUGMENTS)}, given '{self.augment}'")
        if self.augment == "crop-flip" and self.x.ndim != 4:
            raise InvalidInput(f"{self.name}: 'crop-flip' is for images, these are vectors; say augment='none'")
        if (self.augment == "resized-crop-flip") != getattr(self.x, "crops", False):
            raise InvalidInput(f"{self.name}: 'resized-crop-flip' is for images on disk that are read with crops=True")
        if not self.mean and not self.std:
            mean, std = _moments(self.x if isinstance(self.x, Tensor) else self.x.sample())
            object.__setattr__(self, "mean", mean)
            object.__setattr__(self, "std", std)
        if not len(self.mean) == len(self.std) == self.x.shape[1]:
            raise InvalidInput(
                f"{self.name}: mean and std have one number per channel or feature, {self.x.shape[1]}; "
                f"given {len(self.mean)} and {len(self.std)}"
            )
        if min(self.std) <= 0:
            raise InvalidInput(f"{self.name}: std must be positive, given {self.std}")
        if self.ids is not None and len(self.ids) != len(self.x):
            raise InvalidInput(f"{self.name}: {len(self.ids)} ids for {len(self.x)} instances")
        if self.origin is not None and len(self.origin.rows) != len(self.x):
            raise InvalidInput(f"{self.name}: the rows of {len(self.origin.rows)} instances for {len(self.x)} of them")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        """A line for whoever looks at it: the fields themselves are pages of numbers."""
        test = "no test set" if self.test_y is None else f"{len(self.test_y)} to test with"
        kind = f"{str(self.x.dtype).removeprefix('torch.')} {self.shape}"
        return f"Data({self.name!r}, {len(self)} instances of {kind}, {len(self.classes)} classes, {test})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one instance: (C, H, W), or (D,)."""
        return tuple(self.x.shape[1:])

    def fingerprint(self) -> str:
        """A sha256 of the instances, the labels and the class names: equal exactly where the content is."""
        digest = hashlib.sha256(repr(self.classes).encode())
        for part in (self.x, self.y, self.test_x, self.test_y, self.clean):
            if part is None:
                digest.update(b"none")
            elif self.digest is not None and (part is self.x or part is self.test_x):
                rows = b"" if self.origin is None else self.origin.rows.tobytes()
                digest.update(_kind(part).encode() + self.digest.encode() + rows)
            elif not isinstance(part, Tensor):
                digest.update(part.facts())
            else:
                digest.update(_kind(part).encode())
                digest.update(part.detach().cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def only(self, classes: Sequence[int], names: Sequence[str] | None = None) -> "Data":
        """The problem of telling just these classes apart: labels become 0..k-1 in the order given.

        The order of the instances is kept, and so are mean and std. Where clean labels are known an instance stays
        only if both its given and its clean label are among the classes, since it would have no clean label otherwise.
        """
        wrong = [c for c in classes if not 0 <= c < len(self.classes)]
        if wrong or len(set(classes)) != len(classes):
            raise InvalidInput(
                f"{self.name}: classes must be different numbers of 0..{len(self.classes) - 1}, given {list(classes)}"
            )
        if names is not None and len(names) != len(classes):
            raise InvalidInput(f"{self.name}: {len(classes)} classes were chosen and {len(names)} names given")
        new = torch.full((len(self.classes),), -1, dtype=torch.int64)
        new[list(classes)] = torch.arange(len(classes))

        y = new[self.y]
        clean = None if self.clean is None else new[self.clean]
        keep = y >= 0 if clean is None else (y >= 0) & (clean >= 0)
        test_x, test_y = self.test_x, self.test_y
        if test_x is not None and test_y is not None:
            test_y = new[test_y]
            test_x, test_y = test_x[test_y >= 0], test_y[test_y >= 0]
        return replace(
            self,
            x=self.x[keep],
            y=y[keep],
            clean=None if clean is None else clean[keep],
            test_x=test_x,
            test_y=test_y,
            classes=tuple(names or (self.classes[c] for c in classes)),
            **self._names_of(keep.nonzero().squeeze(1)),
        )

    def take(self, index: Tensor | npt.NDArray[np.integer[Any]] | Sequence[int]) -> "Data":
        """These training instances, in this order. Test set, mean and std stay what they are."""
        index = torch.as_tensor(index)
        if index.ndim != 1 or index.dtype.is_floating_point or index.dtype == torch.bool:
            raise InvalidInput(f"{self.name}: take() wants a list of instance numbers, given {_kind(index)}")
        if len(index) == 0:
            raise InvalidInput(f"{self.name}: take() wants at least one instance")
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= len(self):
            raise InvalidInput(f"{self.name}: instances are numbered 0..{len(self) - 1}, given {low}..{high}")
        index = index.to(torch.int64)
        clean = None if self.clean is None else self.clean[index]
        return replace(self, x=self.x[index], y=self.y[index], clean=clean, **self._names_of(index))

    def _names_of(self, index: Tensor) -> dict[str, Any]:
        """What the chosen instances are called, and where they are."""
        return {
            "ids": None if self.ids is None else tuple(self.ids[i] for i in index.tolist()),
            "origin": None if self.origin is None else self.origin.at(self.origin.rows[index.numpy()]),
        }

    def hold_out(self, share: float, rng: np.random.Generator) -> tuple["Data", "Instances", Tensor]:
        """Sets a random share of the training instances aside: (the rest, held-out x, held-out labels).

        The labels are the clean ones where they are known.

        Every class gives the same share, up to rounding, so that the held-out accuracy is not one of other class
        frequencies. Both parts keep the order of the instances.
        """
        if not 0 < share < 1:
            raise InvalidInput(f"{self.name}: the share to hold out is between 0 and 1, given {share}")
        held = np.zeros(len(self), dtype=bool)
        labels = self.y.numpy()
        for c in range(len(self.classes)):
            members = np.flatnonzero(labels == c)
            held[rng.permutation(members)[: round(share * len(members))]] = True
        if not held.any() or held.all():
            raise InvalidInput(f"{self.name}: holding out {share} of {len(self)} instances leaves one part empty")
        inside, outside = torch.from_numpy(np.flatnonzero(~held)), torch.from_numpy(np.flatnonzero(held))
        truth = self.y if self.clean is None else self.clean
        return self.take(inside), self.x[outside], truth[outside]


def _kind(x: "Instances") -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"


def _check_instances(what: str, x: "Instances") -> None:
    image = x.ndim == 4 and x.dtype in (torch.uint8, torch.float32)
    vector = x.ndim == 2 and x.dtype == torch.float32
    if not image and not vector:
        raise InvalidInput(
            f"{what} must be uint8 or float32 images (n, C, H, W) or float32 vectors (n, D), given {_kind(x)}"
        )
    if x.numel() == 0:
        raise InvalidInput(f"{what} is empty: {_kind(x)}")
    if isinstance(x, Tensor) and x.dtype == torch.float32 and not bool(torch.isfinite(x).all()):
        rows = int((~torch.isfinite(x.flatten(1)).all(dim=1)).sum())
        raise InvalidInput(f"{what} holds NaN or infinity in {rows} of {len(x)} instances; fill or drop them first")


def _check_labels(what: str, y: Tensor, n: int, classes: int) -> None:
    if y.dtype != torch.int64 or y.ndim != 1:
        raise InvalidInput(f"{what} must be int64 labels (n,), given {_kind(y)}")
    if len(y) != n:
        raise InvalidInput(f"{what} has {amount(len(y), 'label')} for {amount(n, 'instance')}")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= classes:
        raise InvalidInput(f"{what} must lie in 0..{classes - 1} ({classes} classes), given {low}..{high}")


def _moments(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel or feature; a deviation of 0 becomes 1, so that dividing is safe."""
    if x.dtype == torch.uint8:
        # The histogram is exact and needs no floating-point copy of the images.
        level = torch.arange(256, dtype=torch.float64) / 255
        pairs = []
        for channel in x.unbind(1):
            weight = torch.bincount(channel.flatten(), minlength=256) / channel.numel()
            mean = (weight * level).sum()
            pairs.append((float(mean), float((weight * (level - mean) ** 2).sum().sqrt())))
    else:
        # numpy's sums, unlike torch's, do not change with the number of threads.
        columns = [column.numpy() for column in x.unbind(1)]
        pairs = [(float(c.mean(dtype=np.float64)), float(c.std(dtype=np.float64))) for c in columns]
    return tuple(mean for mean, _ in pairs), tuple(std or 1.0 for _, std in pairs)
