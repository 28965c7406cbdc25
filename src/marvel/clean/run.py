"""A run that looks for wrong labels: an ordinary run, with canaries among its labels, and what was found at its end."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from marvel import metrics
from marvel.clean import cut
from marvel.clean.canaries import CLAIM, Canaries, how_many, plant
from marvel.clean.estimate import LEVEL, MODEL, Estimate, Scores, curve, estimate
from marvel.config import Config
from marvel.data.core import Data
from marvel.data.csv_text import guarded, line_of
from marvel.errors import FolderError, InvalidInput
from marvel.plan import seed_of
from marvel.run import Run
from marvel.runs import Facts, RunFolder

LOOKED_AT = 5000
"""How many instances the first guess at the confusions is made from."""
POOLED = 8
"""The side that images are averaged to for it."""
MOST_OF = 0.5
"""The share of a class that is "most" of it."""
HEADING = ("rank", "id", "given", "suggested", "quality", "label_quality", "removed_at", "wrong_probability")


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


class CleanRun(Run):
    """`canaries`: a number, a share, 0 or None for the default; `precision` and `top`: how many labels are listed."""

    def __init__(
        self,
        config: Config,
        out: str | Path | None = None,
        resume: bool = False,
        data: Data | None = None,
        canaries: float | None = None,
        precision: float | None = None,
        top: int | None = None,
    ) -> None:
        cut.check(precision, top)
        self.wanted, self.precision, self.top = canaries, precision, top
        super().__init__(config, out, resume, data)

    # ------------------------------------------------------------ before

    @cached_property
    def canaries(self) -> Canaries:
        """A function of the data and the seed, so that a run that goes on has the same."""
        rng = np.random.default_rng(seed_of(self.config.seed, "canaries"))
        number, classes = how_many(len(self.data), self.wanted), len(self.data.classes)
        return plant(self.given, classes, number, rng, self.looked_at() if number and classes > 2 else None)

    @property
    def given(self) -> npt.NDArray[np.int64]:
        return self.corruption.labels

    def labels(self) -> torch.Tensor:
        if self.precision is not None and len(self.canaries) < CLAIM:
            raise InvalidInput(
                f"precision {self.precision:g} can only be promised from {CLAIM} canaries on, and there are "
                f"{len(self.canaries)}: leave it out, or say how many with --top 100"
            )
        return torch.from_numpy(self.canaries.planted(self.given))

    def looked_at(self) -> npt.NDArray[np.floating[Any]] | None:
        """(n, D), of vectors or images in memory; None for images on disk, which would have to be read once more."""
        x = self.data.x if isinstance(self.data.x, torch.Tensor) else self.data.x.held
        if x is None:
            return None
        if x.ndim == 4:
            side = min(POOLED, x.shape[2]), min(POOLED, x.shape[3])
            x = torch.cat([torch.nn.functional.adaptive_avg_pool2d(part.float(), side) for part in x.split(LOOKED_AT)])
        return x.flatten(1).numpy()

    def facts(self) -> Facts:
        return {**super().facts(), "clean": {"canaries": len(self.canaries)}}

    def claim(self, folder: RunFolder, resume: bool) -> None:
        before = folder.config
        if before is not None and resume:
            had, have = (before.get("clean") or {}).get("canaries"), len(self.canaries)
            if had is None:
                raise FolderError(f"{folder.path} holds a run of marvel train: name another folder")
            if had != have:
                raise FolderError(f"{folder.path} holds a run with {had} canaries, not {have}: name another folder")
        super().claim(folder, resume)

    # ------------------------------------------------------------ after

    @cached_property
    def told(self) -> Scores:
        """What the training showed."""
        ledger, label = self.trainer.ledger, self.trainer.y.cpu().numpy()
        trust = ledger.trust.double().clamp(1e-6, 1 - 1e-6)
        known = self.method.competitor
        rival = (ledger.rival if known is None else known.cpu()).numpy().astype(np.int64)
        rival = np.where(rival < 0, (label + 1) % len(self.data.classes), rival)  # never visited
        return Scores(
            score=torch.logit(trust).numpy(),
            label=label,
            given=self.given,
            rival=rival,
            removed=self.method.removed.cpu().numpy(),
            canary=self.canaries.mask(len(label)),
            classes=len(self.data.classes),
        )

    @cached_property
    def estimate(self) -> Estimate | None:
        return estimate(self.told, np.random.default_rng(seed_of(self.config.seed, "estimate")))

    @cached_property
    def ranked(self) -> npt.NDArray[np.int64]:
        """All instances that were judged, the most suspect first."""
        chance = np.full(len(self.given), np.nan) if self.estimate is None else self.estimate.chance
        judged = ~self.told.canary if self.estimate is None else np.isfinite(chance)
        order = np.lexsort((self.told.score, -np.nan_to_num(chance)))
        return order[judged[order]]

    @cached_property
    def listed(self) -> npt.NDArray[np.int64]:
        """Those of issues.csv."""
        if self.estimate is not None:
            return self.ranked[: cut.listed(self.estimate.chance[self.ranked], self.precision, self.top)]
        if self.top is not None:
            return self.ranked[: self.top]
        removed = self.told.removed & ~self.told.canary
        # A method that removes nothing still knows whose margins are negative.
        suspect = removed if removed.any() else self.method.quality.cpu().numpy() < 0
        return self.ranked[suspect[self.ranked]]

    def instances(self) -> dict[str, Any]:
        """Canaries have their own label back, and nothing that was said of the false one."""
        n, canary = len(self.data), self.told.canary
        columns = super().instances()
        ids = self.data.ids if self.data.ids is not None else tuple(map(str, range(n)))
        suggested = np.where(self.told.rival == self.given, -1, self.told.rival)
        columns |= {
            "row": columns.get("row", np.arange(n)),
            "id": np.array(ids, dtype=object),
            "given": self.given,
            "suggested": suggested,
            "quality": np.where(canary, np.nan, columns["quality"]),
            "label_quality": np.where(canary, np.nan, self.trainer.ledger.trust.numpy()),
            "weight": np.where(canary, np.nan, columns["weight"]),
            "removed_at": np.where(canary, 0, columns["removed_at"]),
            **({"returned_at": np.where(canary, 0, columns["returned_at"])} if "returned_at" in columns else {}),
            "wrong_probability": np.full(n, np.nan) if self.estimate is None else self.estimate.chance,
            "flagged": np.isin(np.arange(n), self.listed),
            "canary": canary,
        }
        return columns

    def issues(self) -> list[Issue]:
        columns, names = self.instances(), self.data.classes

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
            )
            for rank, i in enumerate(self.listed.tolist(), 1)
        ]

    def found(self) -> Facts:
        """What clean.json says."""
        origin = self.data.origin
        columns, names = self.instances(), self.data.classes
        by_class = self.by_class(columns)
        flagged, removed = columns["flagged"], columns["removed_at"] > 0
        return {
            "origin": None if origin is None else origin.facts(),
            "classes": list(names),
            "n": len(self.data),
            "set_aside": [asdict(one) for one in self.data.set_aside],
            "canaries": len(self.canaries),
            "found": {
                "flagged": int(flagged.sum()),
                "removed": int(removed.sum()),
                "by_class": by_class,
                "pairs": pairs(columns, names),
            },
            "estimate": self.claimed(),
            "curve": [] if self.estimate is None else curve(self.estimate.chance),
            "warnings": self.warnings(by_class),
            "seconds": round(self.trainer.seconds, 3),
        }

    def by_class(self, columns: dict[str, Any]) -> list[Facts]:
        def count(which: Any) -> list[int]:
            numbers: list[int] = np.bincount(columns["given"][which], minlength=len(self.data.classes)).tolist()
            return numbers

        counts = (
            count(np.ones(len(self.data), dtype=bool)),
            count(columns["flagged"]),
            count(columns["removed_at"] > 0),
        )
        return [
            {"name": name, "n": n, "flagged": flagged, "removed": removed}
            for name, n, flagged, removed in zip(self.data.classes, *counts, strict=True)
        ]

    def claimed(self) -> Facts | None:
        if self.estimate is None:
            return None
        chance = self.estimate.chance
        hits, all_hits = float(np.sum(chance[self.listed])), float(np.nansum(chance))
        last = self.listed[~self.told.canary[self.listed]][-1:]
        return {
            "wrong": {
                "value": round(self.estimate.value, 1),
                "low": round(self.estimate.low, 1),
                "high": round(self.estimate.high, 1),
                "level": LEVEL,
            },
            "precision": hits / len(self.listed) if len(self.listed) else None,
            "recall": min(1.0, hits / all_hits) if all_hits > 0 else None,
            "cut_off": float(self.method.quality[int(last[0])]) if len(last) else None,
            "model": MODEL,
        }

    def warnings(self, by_class: Sequence[Facts]) -> list[str]:
        said = []
        for row in by_class:
            gone = max(row["removed"], row["flagged"])
            if row["n"] and gone > MOST_OF * row["n"]:
                what = "removed" if row["removed"] == gone else "listed"
                said.append(
                    f"most of class {row['name']} is {what} ({gone} of {row['n']}): look at some of them before you "
                    "believe it; the class may be too rare or too hard for this network"
                )
        if self.wanted != 0 and len(self.canaries) < CLAIM:
            said.append(
                f"{len(self.canaries)} canaries are fewer than {CLAIM}: nothing is claimed about how many labels are "
                "wrong, and the list is what the method removed"
            )
        return said

    # ------------------------------------------------------------ files

    def results(self, lines: list[Facts]) -> Facts:
        results = super().results(lines)
        if self.clean is not None:
            results["final"] |= self.judged()
        return {**results, "estimate": self.claimed(), "flagged": len(self.listed)}

    def judged(self) -> Facts:
        """How good the list is, where the clean labels are known; canaries are left out."""
        others, truth = ~self.told.canary, self.truth.numpy()
        wrong = self.given != truth
        place = np.full(len(wrong), np.inf)
        place[self.ranked] = np.arange(len(self.ranked))
        flagged = np.isin(np.arange(len(wrong)), self.listed)
        found = flagged & wrong & others
        return {
            **metrics.detection(flagged[others], wrong[others]),
            **metrics.ranking(place[others], wrong[others]),
            "suggestion_accuracy": metrics.share((self.told.rival == truth)[found]),
            "wrong_labels": int(wrong.sum()),
        }

    def write(self, folder: RunFolder, record: Facts) -> None:
        folder.blank_ledger(self.canaries.index)
        folder.write_issues("".join(line_of(line) for line in (HEADING, *map(cells, self.issues()))))
        super().write(folder, record)
        folder.found = self.found()


def pairs(columns: dict[str, Any], names: Sequence[str]) -> list[Facts]:
    """How often which given label comes with which suggested one on the list, the most frequent first."""
    which = columns["flagged"] & (columns["suggested"] >= 0)
    both = np.column_stack([columns["given"][which], columns["suggested"][which]])
    values, counts = np.unique(both, axis=0, return_counts=True)
    return [
        {"given": names[values[k, 0]], "suggested": names[values[k, 1]], "count": int(counts[k])}
        for k in np.argsort(-counts, kind="stable")
    ]


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
    )
