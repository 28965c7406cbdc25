"""Corrected labels, written back in the format the data came in.

Decisions say what a label becomes; where nobody has decided, suggestions may be accepted unreviewed. The input is never
written to, and neither is anything that is there already: the new folder is built under another name, and renamed when
it is whole.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marvel.data.corrections import CORRECTIONS, HEADING, UNREVIEWED
from marvel.data.csv_text import guarded, line_of
from marvel.data.images import Watch
from marvel.export.arrays import write_arrays
from marvel.export.decided import Decided, decided
from marvel.export.folders import write_folder
from marvel.export.huggingface import write_huggingface
from marvel.export.labels import write_labels
from marvel.export.place import LINKS, check_link, free_name, new_folder
from marvel.export.shards import write_listed, write_shards
from marvel.export.tables import write_table
from marvel.runs import RunFolder, write_atomically

__all__ = ["LINKS", "Exported", "export"]


@dataclass(frozen=True)
class Exported:
    """What was written."""

    out: Path
    kind: str
    written: int
    """Instances in the new dataset, with what is kept and marked; those of the test set not counted."""
    changed: int
    """Labels that differ from those the run was given."""
    aside: int
    """Instances left out, or marked."""
    undecided: int
    """Flagged labels that nobody has decided about: they stay as they are."""
    unreviewed: int
    """Suggestions accepted without a review."""
    label: str | None = None
    """The column or array of corrected labels."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Classes and files that got other names, since theirs were taken or no names of a folder."""
    elsewhere: int = 0
    """Images that a table names by a relative path out of its folder: they were not carried along."""
    decisions: str = CORRECTIONS
    """The file in the folder with all that was decided; under another name where the data took this one."""
    before: int = 0
    """Labels that differ from the source by the corrections that the run began with: not among those changed."""
    listed: int = 0
    """Suspects that the run lists."""

    def facts(self) -> dict[str, Any]:
        return {**vars(self), "out": str(self.out)}


def export(
    run: str | Path | RunFolder,
    out: str | Path,
    *,
    accept_all: bool = False,
    accept_above: float | None = None,
    keep_aside: bool = False,
    link: str = "copy",
    watch: Watch | None = None,
) -> Exported:
    """Write the data of a run with its labels corrected, and corrections.csv, into the new folder `out`.

    accept_all    accept the suggestion for every flagged label that was not decided about
    accept_above  accept it where the label is wrong with more than this probability
    keep_aside    mark what was set aside instead of leaving it out
    link          how images come along: "copy", "hard" or "symbolic"
    """
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    what = decided(folder, accept_all, accept_above)
    write = {
        "folder": write_folder,
        "listed": write_listed,
        "shards": write_shards,
        "paths": write_table,
        "table": write_table,
        "arrays": write_arrays,
        "huggingface": write_huggingface,
        "kept": write_labels,
    }[what.origin.kind]
    check_link(link)
    with new_folder(Path(out), what.origin) as place:
        written = write(what, place, keep_aside, link, watch)
        decisions = free_name(place, CORRECTIONS)
        write_atomically(place / decisions, corrections(what).encode())
    return Exported(
        Path(out),
        what.origin.kind,
        written.n,
        sum(one.corrected not in (None, one.given) for one in what.lines),
        len(what.aside),
        what.undecided,
        sum(one.action == UNREVIEWED for one in what.lines),
        written.label,
        written.renamed,
        written.elsewhere,
        decisions,
        what.before(),
        what.listed,
    )


def corrections(what: Decided) -> str:
    """The table of all that was decided, before the run too."""
    lines = [line_of(HEADING)]
    for one in what.all_lines():
        cells = (one.id, str(one.row), one.given, one.corrected or "", one.action)
        lines.append(line_of(guarded(cell) for cell in cells))
    return "".join(lines)
