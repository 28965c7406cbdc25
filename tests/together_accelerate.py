"""What every process of tests/test_accelerate.py does: `torchrun ... tests/together_accelerate.py FOLDER`."""

import gc
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import Tensor
from torch.utils.data import DataLoader

from marvel import Indexed, InvalidInput, Marvel
from marvel.distributed import agree, processes
from marvel.integrations.accelerate import attach
from together import EPOCHS, Toy
from toy import network

BATCH = 4


class Spy(Marvel):
    """MARVEL that writes down which instances came together."""

    def __init__(self) -> None:
        super().__init__(30, 3, warmup=1, wait=2)
        self.batches: list[list[int]] = []

    def record(self, index: Tensor, margin: Tensor, rival: Tensor) -> None:
        self.batches.append(index.tolist())
        super().record(index, margin, rival)


def state(model: Any, criterion: Marvel) -> dict[str, Tensor]:
    found = {f"network.{name}": tensor.clone() for name, tensor in model.state_dict().items()}
    return found | {f"criterion.{name}": tensor.clone() for name, tensor in criterion.state_dict().items()}


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    assert processes() == 2
    model = network(seed=3)
    loader = DataLoader(Indexed(Toy()), batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    criterion = attach(accelerator, Spy())
    for epoch in range(EPOCHS):
        for index, x, y in loader:
            accelerator.backward(criterion(wrapped(x), y, index))
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
        if epoch == 2:
            accelerator.save_state(str(folder / "saved"))
            early = state(model, criterion)
    found = state(model, criterion)
    agree(str({name: tensor.tolist() for name, tensor in found.items()}))
    if accelerator.is_main_process:
        torch.save({"state": found, "batches": criterion.batches}, folder / "found.pt")

    accelerator.load_state(str(folder / "saved"))
    for name, tensor in state(model, criterion).items():
        torch.testing.assert_close(tensor, early[name], rtol=0, atol=0, equal_nan=True, msg=name)
    assert criterion.epoch == 4
    try:
        uneven = DataLoaderConfiguration(even_batches=False)
        attach(Accelerator(cpu=True, dataloader_config=uneven), Spy())
    except InvalidInput:
        pass
    else:
        raise AssertionError("not refused")
    accelerator.free_memory()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
    gc.collect()  # what DistributedDataParallel holds is gone before the group is
    torch.distributed.destroy_process_group()
