"""What was found in a dataset, whoever trained on it: the columns of instances.parquet -> issues.csv and clean.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.data.csv_text import guarded, line_of
from marvel.data.origin import Origin, SetAside
from marvel.runs import Facts, RunFolder

HEADING = ("rank", "id", "given", "suggested", "quality", "label_quality", "removed_at", "wrong_probability")
RETURNED = "returned_at"
"""One column more, last, of a method that returns what it removed."""
MOST_OF = 0.5
"""The share of a class that is "most" of it."""
NAMED = 10
"""Classes that a warning names."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Issue:
    """A line of issues.csv: a label that looks wrong. None where nothing is known, or claimed."""

    rank: int
    index: int
    id: str
    given: str
    suggested: str
    quality: float | None
    label_quality: float | None
    removed_at: int
    wrong_probability: float | None
    returned_at: int | None = None


@dataclass(frozen=True, eq=False)
class Findings:
    """`columns` are those of instances.parquet; `listed` are the instances of issues.csv, the most suspect first."""

    columns: Mapping[str, Any]
    classes: Sequence[str]
    listed: npt.NDArray[np.int64]

    def issues(self) -> list[Issue]:
        columns, names = self.columns, self.classes

        def known(value: float) -> float | None:
            return float(value) if np.isfinite(value) else None

        return [
            Issue(
                rank=rank,
                index=i,
                id=str(columns["id"][i]),
                given=names[columns["given"][i]],
                suggested=names[columns["suggested"][i]] if columns["suggested"][i] >= 0 else "",
                quality=known(columns["quality"][i]),
                label_quality=known(columns["label_quality"][i]),
                removed_at=int(columns["removed_at"][i]),
                wrong_probability=known(columns["wrong_probability"][i]),
                returned_at=int(columns[RETURNED][i]) if RETURNED in columns else None,
            )
            for rank, i in enumerate(self.listed.tolist(), 1)
        ]

    def by_class(self) -> list[Facts]:
        """For each class how many instances it has, how many of them are listed, and how many were removed."""

        def count(which: Any) -> list[int]:
            numbers: list[int] = np.bincount(self.columns["given"][which], minlength=len(self.classes)).tolist()
            return numbers

        counts = (
            count(np.ones(len(self.columns["given"]), dtype=bool)),
            count(self.columns["flagged"]),
            count(self.columns["removed_at"] > 0),
        )
        return [
            {"name": name, "n": n, "flagged": flagged, "removed": removed}
            for name, n, flagged, removed in zip(self.classes, *counts, strict=True)
        ]

    def pairs(self) -> list[Facts]:
        """How often which given label comes with which suggested one on the list, the most frequent first."""
        columns, names = self.columns, self.classes
        which = columns["flagged"] & (columns["suggested"] >= 0)
        both = np.column_stack([columns["given"][which], columns["suggested"][which]])
        values, counts = np.unique(both, axis=0, return_counts=True)
        return [
            {"given": names[values[k, 0]], "suggested": names[values[k, 1]], "count": int(counts[k])}
            for k in np.argsort(-counts, kind="stable")
        ]

    def warnings(self) -> list[str]:
        """Of classes that are gone for the most part: a line for those removed, and one for those listed."""
        most: dict[str, list[str]] = {"removed": [], "listed": []}
        for row in self.by_class():
            gone = max(row["removed"], row["flagged"])
            if row["n"] and gone > MOST_OF * row["n"]:
                what = "removed" if row["removed"] == gone else "listed"
                most[what].append(f"{row['name']} ({gone} of {row['n']})")
        return [_warning(what, classes) for what, classes in most.items() if classes]

    def facts(
        self,
        origin: Origin | None,
        set_aside: Sequence[SetAside] = (),
        seconds: float | None = None,
        *,
        canaries: int = 0,
        top: int | None = None,
        estimate: Facts | None = None,
        curve: Sequence[Facts] = (),
        warnings: Sequence[str] = (),
    ) -> Facts:
        """What clean.json says; without an estimate nothing is claimed about how many labels are wrong."""
        return {
            "origin": None if origin is None else origin.facts(),
            "classes": list(self.classes),
            "n": len(self.columns["given"]),
            "set_aside": [asdict(one) for one in set_aside],
            "canaries": canaries,
            "top": top,
            "found": {
                "flagged": int(self.columns["flagged"].sum()),
                "removed": int((self.columns["removed_at"] > 0).sum()),
                **self.returned(),
                "by_class": self.by_class(),
                "pairs": self.pairs(),
            },
            "estimate": estimate,
            "curve": list(curve),
            "warnings": list(warnings),
            "seconds": None if seconds is None else round(seconds, 3),
        }

    def returned(self) -> Facts:
        """How many are kept that had been removed, where the method returns any."""
        if RETURNED not in self.columns:
            return {}
        return {"returned": int(((self.columns[RETURNED] > 0) & (self.columns["removed_at"] == 0)).sum())}

    def write_issues(self, folder: RunFolder) -> None:
        """issues.csv"""
        heading = (*HEADING, RETURNED) if RETURNED in self.columns else HEADING
        folder.write_issues("".join(line_of(line) for line in (heading, *map(cells, self.issues()))))


def suspects(removed: Mask, quality: npt.NDArray[np.floating[Any]]) -> Mask:
    """Which labels are listed where nothing is estimated: the removed ones.

    A method that removes nothing still knows whose margins are negative.
    """
    return removed if removed.any() else quality < 0


def cells(issue: Issue) -> tuple[str, ...]:
    """A line of issues.csv."""

    def number(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    return (
        str(issue.rank),
        guarded(issue.id),
        guarded(issue.given),
        guarded(issue.suggested),
        number(issue.quality, 4),
        number(issue.label_quality, 4),
        str(issue.removed_at),
        number(issue.wrong_probability, 4),
        *(() if issue.returned_at is None else (str(issue.returned_at),)),
    )


def _warning(what: str, classes: Sequence[str]) -> str:
    look = "look at some of them before you believe it"
    if len(classes) == 1:
        return f"most of class {classes[0]} is {what}: {look}; the class may be too rare or too hard for this network"
    more = f" and {len(classes) - NAMED} more" if len(classes) > NAMED else ""
    named = ", ".join(classes[:NAMED]) + more
    return (
        f"most of {len(classes)} classes is {what}, {named}: {look}; they may be too rare or too hard for this network"
    )
