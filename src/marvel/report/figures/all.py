"""The figures of the paper, in its order, those of our own, and how a page shows them."""

from pathlib import Path

from marvel.report.cells import Runs
from marvel.report.figures import (
    course,
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
"""Of the paper."""
OURS: tuple[PaperFigure, ...] = (course.FIGURE,)
EVERY = (*FIGURES, *OURS)


def page(runs: Runs, folder: str = "figures") -> str:
    """A section for each of the paper's figures, in Markdown."""
    titles = [f"## {figure.number}: {figure.name.replace('-', ' ')}" for figure in FIGURES]
    return "\n\n".join(f"{title}\n\n{shown(figure, runs, folder)}" for title, figure in zip(titles, FIGURES))


def shown(figure: PaperFigure, runs: Runs, folder: str = "figures") -> str:
    """A figure in Markdown: the caption, the picture, how many runs, and which are lacking."""
    lines = [figure.caption]
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

    return [figure for figure in EVERY if figure.can_be_drawn(runs) and not is_of(figure, runs, folder)]
