"""What `marvel clean` finds with one method and with another: from the records of experiments/thorough.py."""

from collections.abc import Sequence
from statistics import fmean

from marvel.report.cells import Record
from marvel.report.sheet import markdown_table
from marvel.report.words import mean

FOUND = {
    "detection_auroc": "AUROC",
    "detection_ap": "AP",
    "detection_f1": "F1 of the list",
    "detection_precision": "detection precision",
    "detection_recall": "detection recall",
    "suggestion_accuracy": "suggestions right",
}


def thorough(records: Sequence[Record]) -> str:
    """A row for each kind of labels and each method: means over the seeds, in percent."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        config = record["config"]
        labels = f"{config['data']}, {config['noise']} {config['rate']:.0%}, {config['network']}"
        groups.setdefault((labels, config["method"]), []).append(record)
    rows = [
        [
            *place,
            f"{sum(covers(record) for record in group)} of {len(group)}",
            *(mean([100 * record["final"][key] for record in group]) for key in FOUND),
            f"{fmean(record['seconds'] for record in group):.0f}",
        ]
        for place, group in sorted(groups.items(), key=lambda item: item[0][0])
    ]
    return markdown_table(["labels", "method", "intervals that cover", *FOUND.values(), "s"], rows)


def covers(record: Record) -> bool:
    """Whether its interval holds the number of wrong labels."""
    wrong = record["estimate"]["wrong"]
    return bool(wrong["low"] <= record["final"]["wrong_labels"] <= wrong["high"])
