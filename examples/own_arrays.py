"""Arrays of one's own: from numpy to a run folder, and from there the suspect labels.

python examples/own_arrays.py [FOLDER]
"""

import sys
import tempfile

import numpy as np

from marvel.config import Config
from marvel.data import from_arrays
from marvel.run import train
from marvel.runs import RunFolder

NAMES = np.array(["ash", "birch", "cedar"])


def table_with_wrong_labels() -> tuple[np.ndarray, np.ndarray]:
    """Measurements of 600 trees, and their kinds, every fifth of which somebody wrote down wrong."""
    rng = np.random.default_rng(0)
    kind = np.arange(600) % 3
    x = 2 * rng.standard_normal((3, 8))[kind] + rng.standard_normal((600, 8))
    given = np.where(np.arange(600) % 5 == 0, (kind + 1) % 3, kind)
    return x, NAMES[given]


def main(folder: str) -> None:
    x, given = table_with_wrong_labels()
    data = from_arrays(x, given, name="trees")
    config = Config(data="trees", method="marvel", epochs=40, device="cpu", options={"wait": 4})
    run = train(config, folder, data=data)
    print(f"chosen: {run.record['chosen']}, removed: {run.record['final']['removed']}")

    rows = RunFolder(folder).instances()
    print("The most suspect labels:")
    for i in np.argsort(rows["quality"])[:5]:
        given, suggested = (data.classes[rows[column][i]] for column in ("given", "suggested"))
        print(f"  row {i}: given {given}, suggested {suggested}, label quality {rows['label_quality'][i]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(temporary)
