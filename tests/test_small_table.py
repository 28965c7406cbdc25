"""A table too small for canaries: its wrong labels are found all the same, not learnt by heart."""

from pathlib import Path

import numpy as np
import pytest

from marvel import metrics
from marvel.clean import clean

TOPICS = {
    "billing": "invoice charge refund payment card bill fee amount bank price",
    "login": "password account sign reset locked email code access user page",
    "delivery": "parcel late courier address tracking box arrived lost van order",
    "fault": "broken screen noise battery crash error stopped device smoke repair",
}
COMMON = "please help the my is not it I have since yesterday and can you what to with was"


def tickets(path: Path, n: int, wrong: float = 0.12) -> np.ndarray:
    """Write a table of texts and numbers; returns which labels are wrong."""
    rng, names = np.random.default_rng(0), list(TOPICS)
    truth = rng.integers(0, 4, n)
    flipped = rng.random(n) < wrong
    label = np.where(flipped, (truth + rng.integers(1, 4, n)) % 4, truth)
    lines = ["text,minutes,label"]
    for own, said in zip(truth, label, strict=True):
        own_words, common = TOPICS[names[own]].split(), COMMON.split()
        words = [rng.choice(own_words if rng.random() < 0.35 else common) for _ in range(rng.integers(8, 20))]
        lines.append(f"{' '.join(words)},{rng.gamma(2 + own, 5):.1f},{names[said]}")
    path.write_text("\n".join(lines) + "\n")
    return flipped


@pytest.mark.parametrize("n", [300, 900])
def test_wrong_labels_of_a_small_table_are_listed(n: int, tmp_path: Path) -> None:
    wrong = tickets(tmp_path / "tickets.csv", n)
    found = clean(str(tmp_path / "tickets.csv"), device="cpu", threads=1)
    listed = np.isin(np.arange(n), [issue.index for issue in found.issues])
    assert found.estimate is None  # or canaries found them
    assert metrics.detection(listed, wrong)["detection_f1"] > 0.75
