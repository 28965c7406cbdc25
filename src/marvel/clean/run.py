"""A run that looks for wrong labels: an ordinary run, with canaries among its labels, and what was found at its end."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from marvel.clean import cut
from marvel.clean.canaries import CLAIM, SPARE, UTMOST, Canaries, how_many, plant, to_spare
from marvel.clean.estimate import Scores, curve
from marvel.clean.findings import Findings, Issue
from marvel.clean.judgement import Judgement
from marvel.config import Config
from marvel.data.core import Data
from marvel.data.corrections import are_corrected
from marvel.errors import FolderError, InvalidInput, amount
from marvel.plan import seed_of
from marvel.run import Run
from marvel.runs import Facts, RunFolder

LOOKED_AT = 20_000
"""How many instances the first guess at the confusions is made from, at most: it takes 15 KiB an instance."""
POOLED = 8
"""The side that images are averaged to for it."""
AGAIN = "labels were corrected before, and canaries do not tell how many wrong ones were missed then"
OF_A_CLASS = f"a class of {SPARE} labels or more can spare a fifth of them, a smaller one none"


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
        number, classes = self.asked, len(self.data.classes)
        rows = self.some() if number and classes > 2 else None
        return plant(self.given, classes, number, rng, None if rows is None else self.looked_at(rows), rows)

    @cached_property
    def asked(self) -> int:
        """How many canaries there should be: unasked none, where nothing could be claimed by them."""
        number = how_many(len(self.data), self.wanted)
        return number if self.wanted is not None or (self.spare >= CLAIM and not self.again) else 0

    @property
    def again(self) -> bool:
        """Whether labels were corrected before. Those that are wrong still were missed then, which canaries were not:
        they would be found more easily, and too few be claimed."""
        return self.config.corrections is not None or are_corrected(self.data.origin)

    @property
    def spare(self) -> int:
        return int(to_spare(self.given).sum())

    @property
    def given(self) -> npt.NDArray[np.int64]:
        return self.corruption.labels

    def labels(self) -> torch.Tensor:
        if self.precision is not None and len(self.canaries) < CLAIM:
            instead = f"add --canaries {CLAIM}" if self.spare >= CLAIM else self.why_few()
            raise InvalidInput(
                f"precision {self.precision:g} can only be promised from {CLAIM} canaries on, and there are "
                f"{len(self.canaries)}: {instead}; or say how many to list, with --top 100"
            )
        return torch.from_numpy(self.canaries.planted(self.given))

    def some(self) -> npt.NDArray[np.int64]:
        """The instances that the first guess is made from: all, or as many drawn at random."""
        n = len(self.data)
        if n <= LOOKED_AT:
            return np.arange(n)
        return np.sort(
            np.random.default_rng(seed_of(self.config.seed, "looked at")).choice(n, LOOKED_AT, replace=False)
        )

    def looked_at(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.floating[Any]] | None:
        """(m, D), of vectors or images in memory; None for images on disk, which would have to be read once more."""
        x = self.data.x if isinstance(self.data.x, torch.Tensor) else self.data.x.held
        if x is None:
            return None
        parts = [x[part] for part in torch.from_numpy(rows).split(1000)]
        if x.ndim == 4:
            side = min(POOLED, x.shape[2]), min(POOLED, x.shape[3])
            parts = [torch.nn.functional.adaptive_avg_pool2d(part.float(), side) for part in parts]
        return torch.cat(parts).flatten(1).numpy()

    def facts(self) -> Facts:
        listed = {"precision": self.precision, "top": self.top}
        return {**super().facts(), "clean": {"canaries": len(self.canaries), **listed}}

    def claim(self, folder: RunFolder, resume: bool) -> None:
        before = folder.config
        if before is not None and resume:
            had, have = (before.get("clean") or {}).get("canaries"), len(self.canaries)
            if had is None:
                raise FolderError(f"{folder.path} holds a run of marvel train: name another folder")
            if had != have:
                planted = amount(had, "canary", "canaries")
                raise FolderError(f"{folder.path} holds a run with {planted}, not {have}: name another folder")
        super().claim(folder, resume)
        if before is not None and folder.config is not None:
            # Another list of a run that is there does not become the run's own: without a word it is the first again.
            folder.config = {**folder.config, "clean": before["clean"]}

    # ------------------------------------------------------------ after

    @cached_property
    def told(self) -> Scores:
        """What the training showed."""
        label, removed = self.trainer.y.cpu().numpy(), self.method.removed.cpu().numpy()
        score = torch.logit(self.trainer.ledger.trust.double().clamp(1e-6, 1 - 1e-6)).numpy()
        return Scores(
            # What was removed unseen has the lowest score; of what was left out otherwise, nothing is known.
            score=np.where(self.unseen & ~removed, np.nan, score),
            label=label,
            given=self.given,
            rival=np.where(self.competitor < 0, (label + 1) % len(self.data.classes), self.competitor),
            removed=removed,
            canary=self.canaries.mask(len(label)),
            classes=len(self.data.classes),
        )

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """(n,) what was never trained on: a method may remove it before, or hold it out."""
        return (self.method.epochs_seen == 0).cpu().numpy()

    @property
    def competitor(self) -> npt.NDArray[np.int64]:
        """(n,) the strongest competitor of the label trained with; -1: none is known."""
        known = self.method.competitor
        found = self.trainer.ledger.rival if known is None else known.cpu()
        return found.numpy().astype(np.int64)

    @property
    def suggested(self) -> npt.NDArray[np.int64]:
        """(n,) the class that competes with the given label; -1: none."""
        return np.where(self.competitor == self.given, -1, self.competitor)

    @cached_property
    def judgement(self) -> Judgement:
        quality = self.method.quality.cpu().numpy()
        quality = np.where(self.told.canary | self.unseen, np.float32(np.nan), quality)
        return Judgement(self.told, quality, seed_of(self.config.seed, "estimate"), self.precision, self.top)

    def instances(self) -> dict[str, Any]:
        """Canaries have their own label back, and nothing that was said of the false one."""
        n, canary, estimate = len(self.data), self.told.canary, self.judgement.estimate
        columns = super().instances()
        ids = self.data.ids if self.data.ids is not None else tuple(map(str, range(n)))
        columns |= {
            "row": columns.get("row", np.arange(n)),
            "id": np.array(ids, dtype=object),
            "given": self.given,
            "suggested": self.suggested,
            "quality": self.judgement.quality,
            "label_quality": np.where(canary | self.unseen, np.nan, self.trainer.ledger.trust.numpy()),
            "weight": np.where(canary, np.nan, columns["weight"]),
            "removed_at": np.where(canary, 0, columns["removed_at"]),
            **({"returned_at": np.where(canary, 0, columns["returned_at"])} if "returned_at" in columns else {}),
            "wrong_probability": np.full(n, np.nan) if estimate is None else estimate.chance,
            "flagged": self.judgement.flagged,
            "canary": canary,
        }
        return columns

    @property
    def findings(self) -> Findings:
        return Findings(self.instances(), self.data.classes, self.judgement.listed)

    def issues(self) -> list[Issue]:
        return self.findings.issues()

    def found(self) -> Facts:
        """What clean.json says."""
        findings, estimate = self.findings, self.judgement.estimate
        return findings.facts(
            self.data.origin,
            self.data.set_aside,
            self.trainer.seconds,
            canaries=len(self.canaries),
            top=self.judgement.top,
            estimate=self.judgement.claimed(),
            curve=[] if estimate is None else curve(estimate.chance, round(estimate.value, 1)),
            warnings=[*findings.warnings(), *self.warnings()],
        )

    def warnings(self) -> list[str]:
        left_out = int((~self.judgement.shown).sum())
        what = amount(left_out, "label was", "labels were")
        said = f"{what} left out of the training by {self.config.method}, and not listed"
        return [*([said] if left_out else []), *self.of_canaries()]

    def of_canaries(self) -> list[str]:
        """What there are too few of them for, and why."""
        made = len(self.canaries)
        short = (
            [f"{made:,} of the {self.asked:,} canaries were made: {OF_A_CLASS}"] if CLAIM <= made < self.asked else []
        )
        planted, by_default = int(self.told.canary[self.judgement.shown].sum()), how_many(len(self.data))
        if planted >= CLAIM and self.again:
            return [*short, f"{AGAIN}: more may be wrong than is claimed"]
        if planted >= CLAIM or (self.wanted == 0 and by_default):  # whoever wanted none knows what that means
            return short
        few = f"{amount(planted, 'canary is', 'canaries are')} fewer than {CLAIM}"
        if self.again and not self.asked:
            few = AGAIN
        elif self.spare < min(CLAIM, self.asked or CLAIM):
            few = f"{few}: {self.why_few()}" if planted else self.why_few()
        elif not planted and not by_default:
            few = (
                f"{len(self.data):,} labels are too few to make {CLAIM} of them wrong unasked; --canaries {CLAIM} does"
            )
        listed = ". The list is of those that were removed, or whose margins are negative on average"
        return [f"{few}. Nothing is claimed about how many labels are wrong{'' if self.judgement.top else listed}"]

    def why_few(self) -> str:
        """Why fewer than enough labels can be made wrong."""
        n = len(self.data)
        if UTMOST * n < CLAIM:
            return f"{n:,} labels are too few to make {CLAIM} of them wrong; {CLAIM / UTMOST:.0f} have room for as many"
        most = f"no more than {self.spare:,}" if self.spare else "none"
        return f"{most} of {n:,} labels can be made wrong where {CLAIM} are needed: {OF_A_CLASS}"

    # ------------------------------------------------------------ files

    def results(self, lines: list[Facts]) -> Facts:
        results = super().results(lines)
        if self.clean is not None:
            results["final"] |= self.judgement.beside(self.truth.numpy(), self.suggested)
        return {**results, "estimate": self.judgement.claimed(), "flagged": len(self.judgement.listed)}

    def write(self, folder: RunFolder, record: Facts) -> None:
        folder.blank_ledger(self.canaries.index)
        self.findings.write_issues(folder)
        super().write(folder, record)
        folder.found = self.found()
