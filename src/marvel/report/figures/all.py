"""The figures of the paper, in its order, and the page that shows them."""

from pathlib import Path

from marvel.report.cells import Runs
from marvel.report.figures import (
    kept_labels,
    margin_distribution,
    margin_quantiles,
    memorisation,
    phases,
    positive_margins,
    remaining,
    warmup,
    weight_function,
)
from marvel.report.figures.sheet import PaperFigure

FIGURES: tuple[PaperFigure, ...] = (
    phases.FIGURE,
    positive_margins.FIGURE,
    remaining.FIGURE,
    weight_function.FIGURE,
    margin_quantiles.FIGURE,
    margin_distribution.FIGURE,
    warmup.FIGURE,
    memorisation.BINARY_FIGURE,
    memorisation.MULTI_FIGURE,
    kept_labels.FIGURE,
)


def page(runs: Runs, folder: str = "figures") -> str:
    """A section a figure, in Markdown: the picture, the caption, how many runs, and which are lacking."""
    return "\n\n".join(section(figure, runs, folder) for figure in FIGURES)


def section(figure: PaperFigure, runs: Runs, folder: str) -> str:
    lines = [f"## {figure.number}: {figure.name.replace('-', ' ')}", figure.caption]
    if figure.can_be_drawn(runs):
        at = f"{folder}/{figure.name}"
        lines.append(f"[![{figure.number}]({at}.png)]({at}.svg)")
    there = {cell: len(runs.of(cell)) for cell in figure.cells}
    drawn = [f"{cell} ({count})" for cell, count in there.items() if count]
    lacking = [str(cell) for cell, count in there.items() if not count]
    if drawn:
        lines.append(f"Runs, with how many seeds: {'; '.join(drawn)}.")
    if lacking:
        lines.append(f"Lacking: {'; '.join(lacking)}.")
    if not there:
        lines.append("No runs: it is a formula.")
    return "\n\n".join(lines)


def out_of_date(runs: Runs, folder: Path) -> list[PaperFigure]:
    """The figures whose picture was drawn from other runs, or is not there."""
    from marvel.report.figures.sheet import is_of

    return [figure for figure in FIGURES if figure.can_be_drawn(runs) and not is_of(figure, runs, folder)]
