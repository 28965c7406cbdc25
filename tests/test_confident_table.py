"""The table that sets `marvel clean` beside confident learning."""

from typing import Any

from marvel.report.confident import confident

RANKED = ("auroc", "ap", "best_f1")


def numbers(at: float, by: str = "", *, listed: float | None = None) -> dict[str, float]:
    ranked = {f"{by}detection_{key}": at + k / 100 for k, key in enumerate(RANKED)}
    return ranked if listed is None else ranked | {f"detection_{k}": listed for k in ("f1", "precision", "recall")}


def record(**config: Any) -> dict[str, Any]:
    settings = {"data": "cifar10", "noise": "symmetric", "rate": 0.4, "network": "resnet32", "epochs": 40}
    theirs = numbers(0.5, "self_confidence_") | numbers(0.7, "normalized_margin_", listed=0.6)
    found = {"marvel clean": numbers(0.9, listed=0.8), "mean margin": numbers(0.8), "confident learning": theirs}
    usual = {"config": settings | config, "final": {"wrong_labels": 17}, "wall_ours": 24.4, "wall_folds": 68.5}
    return usual | {"found": found}


def test_ours_stands_beside_theirs_by_its_better_score() -> None:
    lines = confident([record(), record(data="cifar10n-worst", noise="none")]).splitlines()
    place = "cifar10, symmetric 40 %, resnet32, 40 epochs | 17"
    assert lines[2:5] == [
        f"| {place} | marvel clean | 0.900 | 0.910 | 0.920 | 0.800 | 0.800 | 0.800 | 24 |",
        f"| {place} | mean margin | 0.800 | 0.810 | 0.820 |  |  |  |  |",
        f"| {place} | confident learning | 0.700 | 0.710 | 0.720 | 0.600 | 0.600 | 0.600 | 68 |",
    ]
    assert lines[5].startswith("| cifar10n-worst, as it is, resnet32") and len(lines) == 8


def test_without_theirs_ours_stands_alone() -> None:
    alone = record()
    del alone["found"]["confident learning"], alone["wall_folds"]
    lines = confident([alone]).splitlines()
    assert len(lines) == 4 and lines[2].endswith("| 24 |") and " mean margin " in lines[3]
