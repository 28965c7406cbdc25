"""Numbers beside the paper's, as tables write them."""

from collections.abc import Sequence
from statistics import fmean, stdev

from marvel.paper import PaperNumber, Verdict

NOTHING, NOT_RUN = "–", "not run"


def mean(values: Sequence[float]) -> str:
    """88.4 (0.2, 5): the mean, the standard deviation where there is one, and of how many runs."""
    sd = f"{stdev(values):.1f}" if len(values) > 1 else NOTHING
    return f"{fmean(values):.1f} ({sd}, {len(values)})"


def paper_mean(number: PaperNumber | None) -> str:
    """The paper's, in the same form; a dagger marks what it took from Pleiss et al."""
    if number is None or number.mean is None:
        return NOTHING if number is None else number.note or NOTHING
    runs = NOTHING if number.runs is None else str(number.runs)
    sd = NOTHING if number.sd is None else f"{number.sd:.1f}"
    return f"{number.mean:.1f} ({sd}, {runs})" + (" †" if number.source == "pleiss" else "")


def judgement(ours: Sequence[float], theirs: PaperNumber | None, judged: Verdict | None) -> list[str]:
    """The difference, and the verdict with its bound; "none" beside what allows no verdict."""
    if not ours or theirs is None or theirs.mean is None:
        return [NOTHING, NOTHING]
    if judged is None:
        return [f"{fmean(ours) - theirs.mean:+z.1f}", "none"]
    return [f"{judged.difference:+z.1f}", f"{'agrees' if judged.agrees else 'differs'} (bound {judged.bound:.1f})"]
