"""What a person sees of an instance, whatever a dataset makes of it: a picture, or names and values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from marvel.data.arrays import CHANNELS
from marvel.data.images import as_rgb
from marvel.data.shown import MOST_FIELDS, Span, as_text, encoded, image_of, span_of

LARGEST = 512
"""The longest side of a picture that is kept, in pixels."""
SAMPLE = 64
"""How many instances say which numbers are black and white."""


@dataclass(frozen=True)
class Look:
    """`picture` is a PNG or JPEG."""

    picture: bytes | None = None
    fields: dict[str, str] = field(default_factory=dict)


def looks_of(instances: Callable[[int], Any], chosen: Sequence[int], names: Sequence[str] | None) -> Iterable[Look]:
    """What the chosen instances look like, one after the other; `names` are those of the numbers of a vector."""
    spans = [span_of(image) for i in islice(chosen, SAMPLE) for image in _images(instances(i))]
    span = (min(low for low, _ in spans), max(high for _, high in spans)) if spans else (0.0, 1.0)
    return (look_of(instances(i), span, names) for i in chosen)


def look_of(x: Any, span: Span, names: Sequence[str] | None = None) -> Look:
    """Of an instance: an image, numbers, a text, or several of these under names. The first image is the picture."""
    picture: bytes | None = None
    fields: dict[str, str] = {}
    for name, value in _parts(x).items():
        image = value if _is_pillow(value) else _numbers(value)
        if picture is None and _is_pillow(image):
            picture = encoded(as_rgb(image), LARGEST)
        elif picture is None and isinstance(image, np.ndarray) and _is_image(image):
            picture = encoded(image_of(image, span), LARGEST)
        elif isinstance(image, np.ndarray) and image.ndim == 1 and image.dtype.kind in "biuf" and not name:
            known = names if names is not None and len(names) == len(image) else [str(k) for k in range(len(image))]
            fields |= {key: as_text(one.item()) for key, one in zip(known, image[: MOST_FIELDS + 1])}
        elif isinstance(image, np.ndarray) and image.ndim > 1:
            fields[name] = f"numbers of shape {image.shape}"
        else:
            fields[name] = as_text(image.tolist() if isinstance(image, np.ndarray) else value)
    return Look(picture, fields)


def _parts(x: Any) -> dict[str, Any]:
    """The inputs by their names; the name of an only one is empty."""
    if isinstance(x, Mapping):
        return {str(key): value for key, value in x.items()}
    if isinstance(x, tuple):
        return {"" if len(x) == 1 else str(k): value for k, value in enumerate(x)}
    return {"": x}


def _images(x: Any) -> list[npt.NDArray[Any]]:
    found = [_numbers(value) for value in _parts(x).values() if not _is_pillow(value)]
    return [value for value in found if isinstance(value, np.ndarray) and _is_image(value)][:1]


def _numbers(value: Any) -> Any:
    """Tensors and lists of numbers as arrays; all else as it is."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float().numpy() if value.is_floating_point() else value.numpy()
    if isinstance(value, list) and value and all(isinstance(one, int | float) for one in value):
        return np.asarray(value)
    return value


def _is_image(x: npt.NDArray[Any]) -> bool:
    if x.dtype.kind not in "biuf" or x.size == 0 or x.ndim not in (2, 3):
        return False
    return x.ndim == 2 or x.shape[0] in CHANNELS or x.shape[-1] in CHANNELS


def _is_pillow(value: Any) -> bool:
    from PIL.Image import Image

    return isinstance(value, Image)
