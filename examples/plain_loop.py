"""MARVEL in an ordinary PyTorch loop: digits with 40 % wrong labels, found, shown and ready to be reviewed.

python examples/plain_loop.py [FOLDER]
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from marvel import Indexed, Marvel, data, keep_ledger, noise, save_run

EPOCHS = 30


def main(folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = data.load("digits")
    corruption = noise.corrupt(digits.y.numpy(), "symmetric", np.random.default_rng(0), classes=10, rate=0.4)
    labels, wrong = torch.from_numpy(corruption.labels), torch.from_numpy(corruption.wrong)

    dataset = TensorDataset(digits.x, labels)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Indexed(dataset), batch_size=64, shuffle=True)

    criterion = Marvel(n=len(dataset), classes=10, epochs=EPOCHS)
    keep_ledger(folder, criterion, replace=True)  # may be left out: for margins by epoch
    for _ in range(EPOCHS):
        for index, x, y in loader:
            loss = criterion(network(x), y, index)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    saved = save_run(folder, criterion, dataset, classes=digits.classes)

    removed = criterion.removed
    print(f"chosen: {criterion.chosen}")
    print(f"{int(wrong.sum())} of {len(labels)} labels are wrong; {int(removed.sum())} instances were removed,")
    print(f"{int((removed & wrong).sum())} of them rightly. On the test set:", end=" ")
    print(f"{(network(digits.test_x).argmax(1) == digits.test_y).float().mean():.1%} right.")
    print("The most suspect labels:")
    for issue in saved.issues[:5]:
        clean = digits.classes[digits.y[issue.index]]
        print(f"  {issue.id}: given {issue.given}, suggested {issue.suggested}, in truth {clean}")
    print(f"The report is {saved.report}. Next: marvel review {folder}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/plain-loop")
