"""The claims of the paper's prose, each judged by a function of records.

    python -m marvel.report.tables docs/claims.md            write the page anew
    python -m marvel.report.tables --check docs/claims.md    say whether it is out of date

A claim is quoted; the rule says when we take it to hold, and was written from the paper's words, not from our runs.
"""

from collections import Counter

from marvel.report.cells import Runs
from marvel.report.claims import accuracy, periods, removal, training
from marvel.report.claims.claim import Claim, Finding

CLAIMS: tuple[Claim, ...] = (*training.CLAIMS, *removal.CLAIMS, *accuracy.CLAIMS, *periods.CLAIMS)

__all__ = ["CLAIMS", "Claim", "Finding", "page"]


def page(runs: Runs) -> str:
    """A line about all, a table, and a section for each, in Markdown."""
    verdicts = {claim: claim.verdict(runs) for claim in CLAIMS}
    counts = Counter(verdicts.values())
    order = ("holds", "holds so far", "does not hold", "does not hold so far", "not run")
    said = {one: one if counts[one] == 1 else one.replace("holds", "hold").replace("does", "do") for one in order}
    summary = ", ".join(f"{counts[verdict]} {said[verdict]}" for verdict in order if counts[verdict])
    rows = [f"| {claim.name} | {claim.where} | **{verdict}** |" for claim, verdict in verdicts.items()]
    overview = "\n".join(["| claim | where | verdict |", "| --- | --- | --- |", *rows])
    return "\n\n".join([f"{len(CLAIMS)} claims: {summary}.", overview, *(section(claim, runs) for claim in CLAIMS)])


def section(claim: Claim, runs: Runs) -> str:
    found = claim.judge(runs)
    lines = [f"- Holds if: {claim.rule}", f"- Runs: {claim.needs}."]
    if found is not None:
        part = f" ({found.part} run)" if found.part else ""
        lines.append(f"- Ours{part}: {found.figure}.")
    if claim.own is not None:
        lines.append(f"- The paper's own tables: {claim.own()}.")
    lines.append(f"- Verdict: **{claim.verdict(runs)}**")
    return "\n\n".join([f"## {claim.name}", f"> {claim.said}", "\n".join(lines)])
