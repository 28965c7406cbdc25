"""MARVEL in a LightningModule: one line of the module changes, and a callback does the rest.

python examples/lightning_module.py
"""

import logging

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from marvel import Indexed, Marvel, data, noise
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


def main() -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = data.load("digits")
    corruption = noise.corrupt(digits.y.numpy(), "symmetric", np.random.default_rng(0), classes=10, rate=0.4)
    labels, wrong = torch.from_numpy(corruption.labels), torch.from_numpy(corruption.wrong)

    model = Classifier(len(labels))
    loader = DataLoader(Indexed(TensorDataset(digits.x, labels)), batch_size=64, shuffle=True)
    # Here the criterion is a part of the module. One outside of it would be MarvelCallback(criterion).
    callbacks = [MarvelCallback(feed_index=True)]
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    pl.Trainer(max_epochs=EPOCHS, accelerator="cpu", callbacks=callbacks, enable_model_summary=False, **quiet).fit(
        model, loader
    )
    removed = model.criterion.removed
    print(f"{int((removed & wrong).sum())} of {int(removed.sum())} removed labels are wrong; the most suspect:")
    for issue in model.criterion.issues(labels, names=digits.classes)[:5]:
        print(f"  {issue.id}: given {issue.given}, suggested {issue.suggested}")


if __name__ == "__main__":
    main()
