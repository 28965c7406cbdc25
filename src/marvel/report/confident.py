"""Wrong labels found by `marvel clean`, beside confident learning's: from the records of experiments/detection.py."""

from collections.abc import Sequence

from marvel.report.cells import Record
from marvel.report.sheet import markdown_table

OURS, THEIRS = "marvel clean", "confident learning"
RANKED = ("detection_auroc", "detection_ap", "detection_best_f1")
LISTED = ("detection_f1", "detection_precision", "detection_recall")


def confident(records: Sequence[Record]) -> str:
    """Rows for each setting: our list, the mean margin alone, and theirs by its better score, where it was asked."""
    rows = []
    for record in records:
        seconds = {OURS: record["wall_ours"], THEIRS: record.get("wall_folds")}
        for who in (OURS, "mean margin", THEIRS):
            if (numbers := record["found"].get(who)) is None:
                continue
            by = _better(numbers) if who == THEIRS else ""
            ranked = [f"{numbers[f'{by}{key}']:.3f}" for key in RANKED]
            listed = [f"{numbers[key]:.3f}" if key in numbers else "" for key in LISTED]
            taken = f"{seconds[who]:.0f}" if seconds.get(who) else ""
            rows.append([_labels(record), str(record["final"]["wrong_labels"]), who, *ranked, *listed, taken])
    headings = ["labels", "wrong", "found by", "AUROC", "AP", "best F1", "F1 of the list", "precision", "recall", "s"]
    return markdown_table(headings, rows)


def _better(numbers: dict[str, float]) -> str:
    return max(("self_confidence_", "normalized_margin_"), key=lambda by: numbers[f"{by}detection_ap"])


def _labels(record: Record) -> str:
    config = record["config"]
    noise = "as it is" if config["noise"] == "none" else f"{config['noise']} {100 * config['rate']:g} %"
    return f"{config['data']}, {noise}, {config['network']}, {config['epochs']} epochs"
