"""MARVEL in a PyTorch loop on several processes: all of them come to the same, and the first writes it down.

torchrun --nproc-per-node 2 examples/torchrun_loop.py [FOLDER]
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from marvel import Indexed, Marvel, data, keep_ledger, noise, save_run
from marvel.distributed import together, writes_files

EPOCHS = 30


def main(folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = data.load("digits")
    corruption = noise.corrupt(digits.y.numpy(), "symmetric", np.random.default_rng(0), classes=10, rate=0.4)
    dataset = TensorDataset(digits.x, torch.from_numpy(corruption.labels))

    network = DistributedDataParallel(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)),
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(Indexed(dataset), batch_size=32, sampler=sampler)

    criterion = Marvel(n=len(dataset), classes=10, epochs=EPOCHS)
    keep_ledger(folder, criterion, replace=True)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for index, x, y in loader:  # the loss is that of the batches of all processes
            criterion(network(x), y, index).backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    saved = save_run(folder, criterion, dataset, classes=digits.classes)

    if writes_files():
        removed, wrong = criterion.removed, torch.from_numpy(corruption.wrong)
        print(f"{int((removed & wrong).sum())} of {int(removed.sum())} removed labels are wrong; the most suspect:")
        for issue in saved.issues[:5]:
            print(f"  {issue.id}: given {issue.given}, suggested {issue.suggested}")
        print(f"The report is {saved.report}. Next: marvel review {folder}")


if __name__ == "__main__":
    with together("cpu"):  # joins the processes that torchrun started, and parts from them in good order
        main(sys.argv[1] if len(sys.argv) > 1 else "runs/torchrun-loop")
