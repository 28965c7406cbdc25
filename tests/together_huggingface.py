"""What every process of tests/test_huggingface.py does: `torchrun ... tests/together_huggingface.py FOLDER`."""

import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from marvel.distributed import agree, processes
from test_huggingface import Spy, SpyPlus, trainer_of

KINDS = {"marvel": Spy, "marvel+": SpyPlus}


def main(folder: Path) -> None:
    for name, kind in KINDS.items():
        criterion = kind()
        # Folders of their own: checkpoints that look newer than the first of a run have that one removed.
        trainer = trainer_of(folder / f"trainer-{name}", criterion, save_strategy="epoch")
        trainer.train()
        assert processes() == 2
        state = {f"criterion.{key}": tensor.clone() for key, tensor in criterion.state_dict().items()}
        agree(str({key: tensor.tolist() for key, tensor in state.items()}))  # of both processes, to the last bit
        state |= {f"network.{key}": tensor.clone() for key, tensor in trainer.model.state_dict().items()}
        if trainer.is_world_process_zero():
            torch.save({"state": state, "batches": criterion.batches}, folder / f"{name}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
    gc.collect()  # what DistributedDataParallel holds is gone before the group is
    dist.destroy_process_group()
