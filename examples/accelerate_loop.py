"""MARVEL in a loop of Accelerate's: digits with 40 % wrong labels, on whatever `accelerate launch` finds.

python examples/accelerate_loop.py [FOLDER]
"""

import sys
import tempfile

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from marvel import Indexed, Marvel, data, noise, save_run
from marvel.integrations.accelerate import attach

EPOCHS = 30


def main(folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = data.load("digits")
    corruption = noise.corrupt(digits.y.numpy(), "symmetric", np.random.default_rng(0), classes=10, rate=0.4)
    labels, wrong = torch.from_numpy(corruption.labels), torch.from_numpy(corruption.wrong)

    accelerator = Accelerator()
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    dataset = TensorDataset(digits.x, labels)
    loader = DataLoader(Indexed(dataset), batch_size=64, shuffle=True)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    criterion = attach(accelerator, Marvel(n=len(labels), classes=10, epochs=EPOCHS))

    for _ in range(EPOCHS):
        for index, x, y in loader:
            accelerator.backward(criterion(network(x), y, index))
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()

    with tempfile.TemporaryDirectory() as place:
        accelerator.save_state(place)  # network, optimizer, criterion ...
        accelerator.load_state(place)  # ... and back

    saved = save_run(folder, criterion, dataset, classes=digits.classes, replace=True)
    removed = criterion.removed.cpu()
    accelerator.print(f"{int((removed & wrong).sum())} of {int(removed.sum())} removed labels are wrong;", end=" ")
    accelerator.print("the most suspect:")
    for issue in saved.issues[:5]:
        accelerator.print(f"  {issue.id}: given {issue.given}, suggested {issue.suggested}")
    accelerator.print(f"The report is {saved.report}. Next: marvel review {folder}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/accelerate-loop")
