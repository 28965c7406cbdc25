"""A figure: what it shows, of which runs, and the sheet its panels are drawn on."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marvel.report.cells import Cell, Runs, name_of
from marvel.report.figures import style
from marvel.runs import as_json

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
WIDTH, ALONE, HEIGHT = 3.6, 5.2, 2.75
"""Of a panel, in inches: two side by side fill a page's width."""
MANY, LONG = 6, 50
"""So many missing runs are named on a panel, and in so many letters on the line below it; of more, the number."""
ROW = 0.21
"""Of the legend, in inches."""


@dataclass(frozen=True)
class Panel:
    """One part of a figure: (a), (b), ..."""

    title: str
    subtitle: str
    cells: tuple[Cell, ...]
    shows: str = ""
    """What of the runs, where the panels of a figure differ in that."""


Draw: TypeAlias = "Callable[[Axes, Panel, Runs], None]"


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper, or one of ours in its style, by the name of its file."""

    name: str
    number: str
    caption: str
    panels: tuple[Panel, ...]
    draw: Draw
    same_scale: bool = False
    """Whether all panels get the upright scale of the highest."""
    only_run: bool = False
    """Whether panels without a run are left out, instead of said to be lacking."""

    @property
    def cells(self) -> list[Cell]:
        """All it needs, each once."""
        return list(dict.fromkeys(cell for panel in self.panels for cell in panel.cells))

    def lacks(self, runs: Runs) -> list[Cell]:
        return runs.lacking(self.cells)

    def can_be_drawn(self, runs: Runs) -> bool:
        """With some of its runs it can: the others are named on it as not run."""
        return not self.cells or len(self.lacks(runs)) < len(self.cells)

    def digest(self, runs: Runs) -> str:
        """Of the records it is drawn from: kept in the picture, so that one of older records is known for that."""
        used = [list(runs.of(cell)) for cell in self.cells]
        return hashlib.sha256(as_json(used)).hexdigest()

    def picture(self, runs: Runs) -> "Figure":
        """Its panels, the first of them top left; to be called within the style."""
        from matplotlib.figure import Figure

        panels = [one for one in self.panels if not self.only_run or not runs.lacking(one.cells)]
        rows = -(-len(panels) // COLUMNS)
        columns = min(COLUMNS, len(panels))
        height = HEIGHT + (ROW if runs.lacking(cell for one in panels for cell in one.cells) else 0)
        figure = Figure(figsize=(WIDTH * columns + 0.2 if columns > 1 else ALONE, height * rows))
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            letter = f"({'abcdefgh'[place]}) " if len(panels) > 1 else ""
            style.heading(axes, letter + panel.title, panel.subtitle)
            lacking = runs.lacking(panel.cells)
            if panel.cells and len(lacking) == len(panel.cells):
                axes.set_axis_off()
                told = "\n".join(["Not run yet:", *_apart(lacking, panel)])
                axes.text(0.02, 0.9, told, transform=axes.transAxes, va="top", linespacing=1.6, **_faint())
                continue
            self.draw(axes, panel, runs)
            if lacking:
                told = ", ".join(_apart(lacking, panel))
                told = "not run: " + (told if len(told) <= LONG else _counted(lacking, panel))
                axes.text(1, -0.3, told, transform=axes.transAxes, ha="right", va="top", **_faint(7.5))
        drawn = [axes for axes in figure.axes if axes.axison]
        if self.same_scale and drawn:
            highest = max(drawn, key=lambda axes: axes.get_ylim()[1])
            for axes in drawn:
                axes.set_ylim(highest.get_ylim())
                axes.set_yticks(highest.get_yticks(), [text.get_text() for text in highest.get_yticklabels()])
        _legend(figure)
        return figure


def write(figure: PaperFigure, runs: Runs, folder: Path) -> list[Path]:
    """The figure as SVG and PNG."""
    import matplotlib

    paths = [folder / f"{figure.name}.{kind}" for kind in ("svg", "png")]
    with matplotlib.rc_context(style.style()):
        drawn = figure.picture(runs)
        for path in paths:
            style.save(drawn, path, {"Title": f"{figure.number}: {figure.name}", "Description": figure.digest(runs)})
    return paths


def is_of(figure: PaperFigure, runs: Runs, folder: Path) -> bool:
    """Whether the picture in the folder was drawn from these runs."""
    path = folder / f"{figure.name}.svg"
    return path.exists() and path.with_suffix(".png").exists() and figure.digest(runs) in path.read_text("utf-8")


def _apart(cells: Sequence[Cell], panel: Panel) -> list[str]:
    """The cells by what tells them from the others of the panel."""
    if len(cells) > MANY:
        return [_counted(cells, panel)]
    if len({cell.setting for cell in panel.cells}) == 1:
        return [name_of(cell.method) for cell in cells]
    return [cell.setting if len({cell.method for cell in panel.cells}) == 1 else str(cell) for cell in cells]


def _counted(cells: Sequence[Cell], panel: Panel) -> str:
    return f"{len(cells)} of {len(panel.cells)}"


def _faint(size: float = 8.5) -> dict[str, Any]:
    return {"fontsize": size, "color": style.GREY}


def _legend(figure: "Figure") -> None:
    """One for all panels, at the foot; in as few rows as the width allows, equally long."""
    found: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    width, height = figure.get_size_inches()
    rows = 0
    if found:
        widest = 0.65 + 0.068 * max(map(len, found))
        together = sum(0.65 + 0.068 * len(label) for label in found)
        rows = 1 if together < width else -(-len(found) // max(1, int(width / widest)))
        columns = -(-len(found) // rows)
        figure.legend(list(found.values()), list(found), loc="lower center", ncols=columns, handlelength=2.6)
    figure.set_size_inches(width, height + ROW * rows)
    figure.tight_layout(rect=(0, (ROW * rows + 0.05) / (height + ROW * rows), 1, 1), w_pad=2.5, h_pad=2.0)
