"""All labels after the decisions, for data that has no files: of a loop of one's own."""

from pathlib import Path

from marvel.data.csv_text import guarded, line_of
from marvel.data.images import Watch
from marvel.export.decided import Decided
from marvel.export.place import Written
from marvel.runs import write_atomically

FILE = "labels.csv"
HEADING = ("index", "id", "label")


def write_labels(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """labels.csv: a line an instance, in their order. What was set aside is left out, or has no label."""
    lines = [line_of(HEADING)]
    for row in sorted(what.given):
        label = what.corrected.get(row)
        if label is not None or keep_aside:
            # Labels are the user's own, and are read again: as they are.
            lines.append(line_of((str(row), guarded(what.ids[row]), label or "")))
    write_atomically(place / FILE, "".join(lines).encode())
    return Written(len(lines) - 1, "label")
