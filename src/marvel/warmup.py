"""The warm-up, read off the curves of a run of cross entropy.

"We pick the point where the rate of increase of the training accuracy starts to plateau", or with a clean validation
set "the point where the validation accuracy roughly attains its peak": the paper's words. Three ways to take them:

    automatic   what `warmup="auto"` would have chosen on the way, seeing the past only
    knee        of the finished run: where the training accuracy is farthest above its chord
    peak        of the finished run: where the validation accuracy first comes near its highest

The last two look at the epochs before the learning rate first falls: later, the accuracy jumps for another reason.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from marvel.errors import InvalidInput

Curve = Sequence[float]
SMOOTH = 5
"""Epochs that are averaged before a curve is read."""
NEAR = 0.01
"""So close to the highest accuracy is near it."""


def automatic(accuracy: Curve, epochs: int, n: int) -> int | None:
    """The epoch that `warmup="auto"` ends the warm-up with, given the training accuracy on n given labels by epoch."""
    import torch

    from marvel.methods.marvel import levels_off, longest_of, window_of

    curve, window = torch.tensor(accuracy), window_of(epochs)
    for e in range(window, len(curve)):
        flat = levels_off(curve[e], curve[e - window], curve[0], torch.tensor(n))
        if flat or e + 1 >= longest_of(epochs):
            return e + 1
    return None


def knee(accuracy: Curve, until: int | None = None) -> int:
    """The epoch where the training accuracy, up to epoch `until`, is farthest above the line from start to end."""
    smooth = smoothed(accuracy[:until])
    above = smooth - np.linspace(smooth[0], smooth[-1], len(smooth))
    return int(above.argmax()) + SMOOTH // 2 + 1


def peak(accuracy: Curve, until: int | None = None) -> int:
    """The first epoch where the validation accuracy, up to epoch `until`, is near its highest."""
    smooth = smoothed(accuracy[:until])
    return int((smooth >= smooth.max() - NEAR).argmax()) + SMOOTH // 2 + 1


def smoothed(curve: Curve) -> npt.NDArray[np.float64]:
    """Means of five neighbours; the first is that of epochs 1 to 5, around epoch 3."""
    if len(curve) < SMOOTH:
        raise InvalidInput(f"a curve is read from at least {SMOOTH} epochs, got {len(curve)}")
    return np.convolve(np.array(curve, dtype=np.float64), np.ones(SMOOTH) / SMOOTH, "valid")
