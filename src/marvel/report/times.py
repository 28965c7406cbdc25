"""How long a run of a method of ours takes beside one of cross entropy: same problem, network, budget and device."""

from collections.abc import Iterable
from statistics import fmean

from marvel.report.cells import OURS, Record, name_of, set_by_hand
from marvel.report.sheet import markdown_table
from marvel.report.words import mean

SAME = ("data", "network", "epochs", "batch", "precision")


def times(records: Iterable[Record]) -> str:
    """A row for each method of ours and place where both were run; noise does not change what a step costs.

    Of ordinary training, on a CPU only: runs on a GPU share it, and their seconds say how many did. `python -m
    benchmarks` has its steps.
    """
    seconds: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for record in records:
        config = record["config"]
        alone = record["environment"]["device"] == "cpu" and "flagged" not in record  # those are of `marvel clean`
        if alone and config["method"] in ("ce", *OURS) and not set_by_hand(config):
            at = (*(str(config[key]) for key in SAME), record["environment"]["device"])
            seconds.setdefault(at, {}).setdefault(config["method"], []).append(record["seconds"])
    rows = []
    for (data, network, epochs, _, precision, device), found in sorted(seconds.items()):
        for method in OURS:
            if "ce" in found and method in found:
                ours, theirs = found[method], found["ce"]
                place = [f"{data}, {network}", epochs, f"{device}, {precision}"]
                rows.append([*place, mean(theirs), mean(ours), f"{fmean(ours) / fmean(theirs):.2f}"])
    names = ", ".join(map(name_of, OURS))
    headings = ["problem", "epochs", "device", "cross entropy, s", f"{names}, s", "times as long"]
    return markdown_table(headings, rows) if rows else "Not run yet."
