"""What every process of tests/test_lightning.py does: `torchrun ... tests/together_lightning.py FILE`."""

import gc
import logging
import sys
from pathlib import Path

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader

from marvel import Indexed, Marvel
from marvel.distributed import agree
from marvel.integrations.lightning import MarvelCallback
from together import EPOCHS, Toy
from toy import network


class Net(pl.LightningModule):
    """A user's module."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network(seed=3)
        self.criterion = Marvel(30, 3, warmup=1, wait=2)

    def training_step(self, batch: list[Tensor], step: int) -> Tensor:
        x, y = batch
        loss: Tensor = self.criterion(self.network(x), y)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)


def main(file: Path) -> None:
    net = Net()
    trainer = pl.Trainer(
        max_epochs=EPOCHS, strategy="ddp", devices=2, accelerator="cpu", callbacks=[MarvelCallback(feed_index=True)],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(net, DataLoader(Indexed(Toy()), batch_size=4, shuffle=True))
    found = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    agree(str({name: tensor.tolist() for name, tensor in found.items()}))
    if trainer.is_global_zero:
        torch.save(found, file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    main(Path(sys.argv[1]))
    gc.collect()  # what DistributedDataParallel holds is gone before the group is
    dist.destroy_process_group()
