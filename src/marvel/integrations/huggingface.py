"""Hugging Face: `MarvelTrainer`, the Trainer with a criterion that remembers each instance.

    criterion = Marvel(n=len(train), classes=model.config.num_labels, epochs=3)
    trainer = MarvelTrainer(model, args, train_dataset=train, criterion=criterion)      # the rest as ever
    trainer.train()
    criterion.issues(train["label"])

For a Trainer of your own: `class Mine(MarvelMixin, OwnTrainer)`. The index goes around the removal of unused columns
and around the collator. What the criterion remembers lies in every checkpoint as `marvel.safetensors`.
"""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marvel.errors import InvalidInput, MissingExtra
from marvel.integrations.state import read_criterion, write_criterion
from marvel.integrations.tracking import numbers, summary
from marvel.method import Method

try:
    from transformers import Trainer, TrainerCallback, TrainerState
    from transformers.trainer_utils import get_last_checkpoint
except ImportError:
    raise MissingExtra("MarvelTrainer", "transformers", "hf") from None


class MarvelMixin:
    """What makes a Trainer one of Marvel's; it goes before the Trainer among the bases.

    `criterion` remembers as many instances as `train_dataset` has; their index is their place in it.
    """

    def __init__(self, *args: Any, criterion: Method, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        trainer: Any = self
        if trainer.compute_loss_func is not None or trainer.args.label_smoothing_factor:
            raise InvalidInput(
                "the criterion is the loss: leave out compute_loss_func and label_smoothing_factor; "
                "Marvel(cost=...) takes another cost, e.g. cost='label-smoothing'"
            )
        # The criterion's loss is a mean over the batch, so the Trainer divides it by the steps that it accumulates.
        trainer.model_accepts_loss_kwargs = False
        trainer.loss_is_scaled_for_ga = False
        if not isinstance(criterion, Method):
            raise InvalidInput(f"criterion is one of Marvel's, as Marvel(n, classes), got {type(criterion).__name__}")
        self.criterion = criterion
        # With model_init every training begins with a new network, and so with a criterion that knows nothing yet.
        self.fresh = None if trainer.model_init is None else copy.deepcopy(criterion.state_dict())
        trainer.add_callback(_Epochs(trainer))

    def get_train_dataloader(self) -> Any:
        """The Trainer's own, with the index in every batch."""
        trainer: Any = self
        dataset, collator, removes = trainer.train_dataset, trainer.data_collator, trainer.args.remove_unused_columns
        if dataset is None or not hasattr(dataset, "__getitem__"):
            raise InvalidInput("MarvelTrainer needs a train_dataset whose items have places: no IterableDataset")
        if len(dataset) != self.criterion.n:
            raise InvalidInput(
                f"the criterion is of {self.criterion.n} instances, and train_dataset has {len(dataset)}"
            )
        # Unused columns are removed here, as the Trainer would, and then the index is added.
        if hasattr(dataset, "column_names"):
            shown, inner = trainer._remove_unused_columns(dataset, description="training"), collator
        else:
            shown, inner = dataset, trainer._get_collator_with_removed_columns(collator, description="training")
        try:
            trainer.train_dataset, trainer.data_collator = _Places(shown), _Collator(inner)
            trainer.args.remove_unused_columns = False
            return super().get_train_dataloader()  # type: ignore[misc]
        finally:
            trainer.train_dataset, trainer.data_collator = dataset, collator
            trainer.args.remove_unused_columns = removes

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, *args: Any, **kwargs: Any
    ) -> Any:
        """The criterion's in training; the model's own in evaluation."""
        if "index" not in inputs or not model.training:
            return super().compute_loss(model, inputs, return_outputs, *args, **kwargs)  # type: ignore[misc]
        inputs = dict(inputs)
        index, y = inputs.pop("index"), inputs.pop("labels", None)
        if not isinstance(y, Tensor):
            raise InvalidInput(f"a batch should have 'labels', one class for each instance; it has {', '.join(inputs)}")
        outputs = model(**inputs)
        loss = self.criterion(outputs[0] if isinstance(outputs, tuple | list) else outputs, y.reshape(-1), index)
        return (loss, outputs) if return_outputs else loss

    # ------------------------------------------------------------ checkpoints

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The model, and beside it what the criterion remembers."""
        super().save_model(output_dir, _internal_call)  # type: ignore[misc]
        args: Any = self.args  # type: ignore[attr-defined]
        if args.should_save:
            write_criterion(self.criterion, output_dir or args.output_dir)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's own; where it goes on from a checkpoint, so does the criterion."""
        found = resume_from_checkpoint
        if found is True:
            found = get_last_checkpoint(self.args.output_dir)  # type: ignore[attr-defined]
        if found:
            self.load_criterion(found)
        elif self.fresh is not None:
            self.criterion.load_state_dict(copy.deepcopy(self.fresh))
        return super().train(resume_from_checkpoint, *args, **kwargs)  # type: ignore[misc]

    def load_criterion(self, checkpoint: str | Path) -> None:
        """What the criterion remembered when the checkpoint was written."""
        read_criterion(self.criterion, checkpoint)
        # Written after the last step of an epoch and before its end, the checkpoint lacks that end.
        state = Path(checkpoint) / "trainer_state.json"
        epoch = TrainerState.load_from_json(str(state)).epoch if state.exists() else None
        if epoch is not None and epoch == round(epoch) and self.criterion.visits.any():
            self.criterion.step()


class _Epochs(TrainerCallback):
    """Moves the criterion to the device, and steps it at the end of an epoch."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.criterion.to(args.device).train()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        criterion: Method = self.trainer.criterion
        if criterion.visits.any():
            self.trainer.log(numbers({"marvel": summary(criterion, criterion.step())}))


class _Places(torch.utils.data.Dataset[dict[str, Any]]):
    """A dataset of dicts, each with its place in it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: list[int]) -> list[dict[str, Any]]:
        """Many at once, where the dataset can: that is how `datasets` reads fast."""
        fetch = getattr(self.dataset, "__getitems__", None)
        items = fetch(places) if fetch is not None else [self.dataset[place] for place in places]
        if not isinstance(items[0], Mapping):
            raise InvalidInput(
                f"items of train_dataset should be dicts, as the model's inputs and 'labels', got "
                f"{type(items[0]).__name__}"
            )
        return [{**item, "index": place} for item, place in zip(items, places, strict=True)]


class _Collator:
    """A collator that never sees the index."""

    def __init__(self, inner: Callable[[list[dict[str, Any]]], Any]) -> None:
        self.inner = inner

    def __call__(self, items: list[dict[str, Any]]) -> Any:
        index = torch.tensor([item["index"] for item in items])
        batch = self.inner([{key: value for key, value in item.items() if key != "index"} for item in items])
        batch["index"] = index
        return batch


class MarvelTrainer(MarvelMixin, Trainer):
    """Hugging Face's Trainer with a criterion of Marvel's."""
