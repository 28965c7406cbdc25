"""The numbers of the figure of removing and returning, at four epochs of each of its runs."""

from marvel.report.cells import Record, Runs
from marvel.report.figures.course import SHOWN, counted
from marvel.report.sheet import markdown_table
from marvel.report.words import NOTHING

QUARTERS = (1, 2, 3, 4)


def course(runs: Runs) -> str:
    rows = []
    for cell in SHOWN:
        for record in runs.of(cell)[:1]:
            epochs = len(record["curves"]["returned"])
            rows += [[cell.setting, *at(record, round(epochs * quarter / 4))] for quarter in QUARTERS]
    headings = ["epoch", "kept, label right", "kept, label wrong", "removed", "returned", "guesses right, %", "test, %"]
    return markdown_table(["labels", *headings], rows) if rows else "Not run yet."


def at(record: Record, epoch: int) -> list[str]:
    """What it had come to by then."""
    counts = (
        counted(record, key)[0, epoch - 1] for key in ("clean_remaining", "noisy_remaining", "removed", "returned")
    )
    shares = (record["curves"][key][epoch - 1] for key in ("suggestion_accuracy", "test_accuracy"))
    said = (NOTHING if share is None else f"{100 * share:.1f}" for share in shares)
    return [str(epoch), *(f"{count:.0f}" for count in counts), *said]
