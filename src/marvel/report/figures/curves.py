"""Test accuracy and memorisation ratio by epoch, of any few runs: what `marvel demo` shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marvel.errors import InvalidInput
from marvel.report.cells import Record, name_of
from marvel.report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {
    "test_accuracy": ("Test accuracy", "on new instances with clean labels"),
    "memorisation_ratio": ("Memorisation ratio", "share of the wrong labels learned by heart"),
}


def curves(records: Sequence[Record], path: str | Path) -> None:
    """A line a record; a PNG file."""
    import matplotlib
    from matplotlib.figure import Figure

    shown = [key for key in PANELS if any(key in record["curves"] for record in records)]
    if not shown:
        raise InvalidInput("there is nothing to draw: no record has a curve of test accuracy or memorisation ratio")
    with matplotlib.rc_context(style.style()):
        figure = Figure(figsize=(3.6 * len(shown) + 0.2, 3.2))
        for place, key in enumerate(shown, 1):
            _panel(figure.add_subplot(1, len(shown), place), records, key)
        _legend(figure, records)
        style.save(figure, Path(path))


def _panel(axes: "Axes", records: Sequence[Record], key: str) -> None:
    epochs = max(len(record["curves"].get(key, ())) for record in records)
    # Where methods end the warm-up at different epochs, up to the first, the others being near.
    ends = [record["chosen"]["warmup"] for record in records if "warmup" in record.get("chosen", {})]
    if ends and min(ends) > 0:
        style.shade_warmup(axes, min(ends), 0.3, "center")
    for k, (record, name) in enumerate(zip(records, names(records), strict=True)):
        values = [float("nan") if value is None else 100 * value for value in record["curves"].get(key, ())]
        colour = style.PALETTE[k % len(style.PALETTE)]
        dash: Any = style.DASHES[k % len(style.DASHES)]
        axes.plot(range(1, len(values) + 1), values, color=colour, linestyle=dash, label=name, clip_on=False)
        fallen = [drop for drop in drops(record) if drop <= len(values)]
        heights = [values[drop - 1] for drop in fallen]
        if fallen:  # an empty line still takes part in the layout, in the corner of the page
            axes.plot(fallen, heights, "v", color=colour, markersize=5, clip_on=False)
    style.heading(axes, *PANELS[key])
    axes.set_xlim(0, epochs)
    style.percent_axis(axes)
    axes.set_xlabel("Epoch")


def _legend(figure: "Figure", records: Sequence[Record]) -> None:
    from matplotlib.lines import Line2D

    handles, labels = figure.axes[0].get_legend_handles_labels()
    if any(map(drops, records)):
        handles.append(Line2D([], [], color=style.GREY, marker="v", markersize=5, linestyle="none"))
        labels.append("learning rate falls")
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), handlelength=2.6)
    rows = -(-len(labels) // 4)
    figure.tight_layout(rect=(0, 0.08 * rows, 1, 1), w_pad=2.5)


def drops(record: Record) -> Sequence[int]:
    """The last epochs of each learning rate but the last."""
    config = record["config"]
    return config.get("drops") or () if config.get("schedule", "drops") == "drops" else ()


def names(records: Sequence[Record]) -> list[str]:
    """What to call each record: its method, and its seed where there are several."""
    seeds = {record["config"].get("seed") for record in records}
    called = [name_of(record["config"]["method"]) for record in records]
    if len(seeds) == 1:
        return called
    return [f"{name}, seed {record['config'].get('seed')}" for name, record in zip(called, records, strict=True)]
