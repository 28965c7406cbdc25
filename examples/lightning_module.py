"""MARVEL in a LightningModule: one line of the module changes, and a callback does the rest.

python examples/lightning_module.py [FOLDER]
"""

import logging
import sys

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from marvel import Indexed, Marvel, data, keep_ledger, noise, save_run
from marvel.integrations.lightning import MarvelCallback

EPOCHS = 30


class Classifier(pl.LightningModule):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        self.criterion = Marvel(n, classes=10, epochs=EPOCHS)  # was: nn.CrossEntropyLoss()

    def training_step(self, batch: list[Tensor], step: int) -> Tensor:
        x, y = batch
        return self.criterion(self.network(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(folder: str) -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = data.load("digits")
    corruption = noise.corrupt(digits.y.numpy(), "symmetric", np.random.default_rng(0), classes=10, rate=0.4)
    labels, wrong = torch.from_numpy(corruption.labels), torch.from_numpy(corruption.wrong)

    model, dataset = Classifier(len(labels)), TensorDataset(digits.x, labels)
    loader = DataLoader(Indexed(dataset), batch_size=64, shuffle=True)
    keep_ledger(folder, model.criterion, replace=True)
    # Here the criterion is a part of the module. One outside of it would be MarvelCallback(criterion).
    callbacks = [MarvelCallback(feed_index=True)]
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    pl.Trainer(max_epochs=EPOCHS, accelerator="cpu", callbacks=callbacks, **quiet).fit(model, loader)
    saved = save_run(folder, model.criterion, dataset, classes=digits.classes)
    removed = model.criterion.removed
    print(f"{int((removed & wrong).sum())} of {int(removed.sum())} removed labels are wrong; the most suspect:")
    for issue in saved.issues[:5]:
        print(f"  {issue.id}: given {issue.given}, suggested {issue.suggested}")
    print(f"The report is {saved.report}. Next: marvel review {folder}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/lightning-module")
