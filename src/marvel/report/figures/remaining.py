"""Figure 3: MARVEL+ removes most wrong labels soon after the warm-up, and few right ones."""

from typing import TYPE_CHECKING

from marvel.report.cells import ASYMMETRIC_40, Cell, Runs
from marvel.report.figures import lines, style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    records = runs.of(panel.cells[0])
    warmup = lines.warmup_of(records)
    if warmup is not None:
        style.shade_warmup(axes, warmup, 0.5, "center", inside=True)
    for kind, name, colour, dash in (
        ("noisy", "wrong labels", style.NOISY, "-"),
        ("clean", "right labels", style.CLEAN, (0, (5, 1.5))),
    ):
        counts = lines.stacked(records, f"{kind}_remaining")
        shares = 100 * counts / counts[:, :1]  # nothing is removed in the first epoch
        lines.band(axes, range(1, shares.shape[1] + 1), shares, name, color=colour, linestyle=dash, linewidth=2.1)
        last = shares[:, -1].mean()
        style.note(axes, f"{last:.0f} %", (shares.shape[1], last), (0, 4), ha="right")
    axes.set_xlim(0, shares.shape[1])
    axes.set_xlabel("Epoch")
    axes.set_ylabel("Instances remaining")
    style.percent_axis(axes)


FIGURE = PaperFigure(
    name="remaining",
    number="Figure 3",
    caption="Share of the instances with wrong and with right labels that MARVEL+ has not removed.",
    panels=(
        Panel("truck-car", "20 % symmetric", (Cell("truck-car", "symmetric", (0.2,), "marvel+"),)),
        Panel("cat-dog", "40 % asymmetric, read as (40 %, 0 %)", (Cell("cat-dog", "pair", ASYMMETRIC_40, "marvel+"),)),
    ),
    draw=draw,
)
