"""Curves over the epochs: the mean over the seeds as a line, their standard deviation as a band."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from marvel.report.cells import Record
from marvel.report.figures import style
from marvel.report.figures.curves import drops

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = npt.NDArray[np.float64]


def stacked(records: Sequence[Record], key: str) -> Values:
    """(runs, epochs) of a curve; NaN where it has no value."""
    rows = [[np.nan if value is None else value for value in record["curves"][key]] for record in records]
    return np.array(rows, dtype=np.float64)


def band(axes: "Axes", epochs: Sequence[int], values: Values, label: str, **look: Any) -> None:
    """Mean and standard deviation of `values` (runs, epochs); of one run there is no band."""
    mean = values.mean(axis=0)
    axes.plot(epochs, mean, label=label, **look)
    if len(values) > 1:
        sd = values.std(axis=0, ddof=1)
        axes.fill_between(epochs, mean - sd, mean + sd, color=look["color"], alpha=0.18, linewidth=0)


def by_method(axes: "Axes", found: dict[str, tuple[str, list[Record]]], key: str) -> None:
    """A line for each method of {method: (name, its runs)}, in percent; a run of 200 epochs by every second one."""
    for method, (name, records) in found.items():
        values, every = 100 * stacked(records, key), every_of(method)
        epochs = range(1, values.shape[1] // every + 1)
        band(axes, epochs, values[:, every - 1 :: every], name, **style.LOOKS[method])
    mark_drops(axes, found, key)
    axes.set_xlabel("Epoch")
    style.percent_axis(axes)
    axes.set_xlim(0, max(stacked(records, key).shape[1] // every_of(method) for method, (_, records) in found.items()))


def every_of(method: str) -> int:
    """NPCL trains for twice as many epochs; every second one is shown, as in the paper."""
    return 2 if method == "npcl" else 1


def mark_drops(axes: "Axes", found: dict[str, tuple[str, list[Record]]], key: str) -> None:
    """Where the learning rate falls: dashed where all fall together, else a mark on each line."""
    falls = {
        method: tuple(drop / every_of(method) for drop in drops(records[0])) for method, (_, records) in found.items()
    }
    if len(set(falls.values())) == 1:
        for drop in next(iter(falls.values())):
            style.mark_epoch(axes, drop)
        return
    for method, (_, records) in found.items():
        mean = 100 * stacked(records, key).mean(axis=0)
        at = [int(drop * every_of(method)) for drop in falls[method] if drop * every_of(method) <= len(mean)]
        if at:
            heights = [mean[drop - 1] for drop in at]
            axes.plot(
                [drop / every_of(method) for drop in at], heights, "v", color=style.LOOKS[method]["color"], markersize=5
            )
    axes.plot([], [], "v", color=style.GREY, markersize=5, label="learning rate falls")


def warmup_of(records: Sequence[Record]) -> int | None:
    """The last epoch of the warm-up."""
    found: int | None = records[0]["chosen"].get("warmup") if records else None
    return found
