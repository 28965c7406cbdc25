"""scikit-learn's digits: 1797 grey 8x8 images that come with the package, so that a first run needs no files."""

from pathlib import Path

import numpy as np
import torch

from marvel.data.core import Data

TEST = 540


def digits(root: Path | None = None) -> Data:
    """1257 training and 540 test instances, (1, 8, 8) float32 in 0..1. `root` is not needed.

    The split is fixed without a random number: of the instances ordered by class, every 1797/540-th is a test
    instance. It is stratified to within one instance a class and the same with every version of every library.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(images.reshape(-1, 1, 8, 8).astype(np.float32) / 16)
    y = torch.from_numpy(labels.astype(np.int64))

    step = np.arange(len(labels) + 1) * TEST // len(labels)
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(labels, kind="stable")] = np.diff(step) > 0
    held = torch.from_numpy(test)
    return Data("digits", x[~held], y[~held], tuple("0123456789"), x[held], y[held])
