"""MarvelTrainer: text and images with tiny models of random weights; the plain loop's numbers, and checkpoints."""

import builtins
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

from marvel import FolderError, InvalidInput, Marvel, MarvelPlus, MissingExtra
from marvel.integrations.huggingface import MarvelMixin, MarvelTrainer
from marvel.integrations.state import FILE

ROOT = Path(__file__).resolve().parent.parent
N, EPOCHS, BATCH = 44, 5, 8
G = torch.Generator().manual_seed(0)
TRUTH = torch.arange(N) % 2
Y = torch.where(torch.rand(N, generator=G) < 0.25, 1 - TRUTH, TRUTH)
WORDS = [(1 + 10 * int(t) + torch.randint(0, 10, (int(k),), generator=G)).tolist() for t, k in zip(TRUTH, 4 + TRUTH)]
PIXELS = torch.rand(N, 3, 8, 8, generator=G) + TRUTH.view(-1, 1, 1, 1)


class Spy(Marvel):
    """MARVEL that writes down which instances came together."""

    def __init__(self, **options: Any) -> None:
        super().__init__(N, 2, EPOCHS, warmup=1, wait=2, **options)
        self.batches: list[list[int]] = []

    def record(self, index: Tensor, margin: Tensor, rival: Tensor) -> None:
        self.batches.append(index.tolist())
        super().record(index, margin, rival)


class SpyPlus(Spy, MarvelPlus):
    pass


def bert() -> nn.Module:
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=2,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model: nn.Module = BertForSequenceClassification(config)
    return model


def vit() -> nn.Module:
    torch.manual_seed(3)
    config = ViTConfig(
        image_size=8, patch_size=4, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
    )  # fmt: skip
    model: nn.Module = ViTForImageClassification(config)
    return model


def texts() -> datasets.Dataset:
    columns = {"input_ids": WORDS, "label": Y.tolist(), "comment": ["not for the model"] * N}
    return datasets.Dataset.from_dict(columns)


def padded(words: list[list[int]]) -> dict[str, Tensor]:
    longest = max(map(len, words))
    mask = [[1] * len(w) + [0] * (longest - len(w)) for w in words]
    return {
        "input_ids": torch.tensor([w + [0] * (longest - len(w)) for w in words]),
        "attention_mask": torch.tensor(mask),
    }


def strict_collator(items: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A user's own, which knows its keys, and takes no others."""
    assert all(set(item) == {"input_ids", "label"} for item in items)
    return {**padded([item["input_ids"] for item in items]), "labels": torch.tensor([item["label"] for item in items])}


class Images(torch.utils.data.Dataset[dict[str, Any]]):
    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"pixel_values": PIXELS[i], "labels": int(Y[i]), "file": f"{i}.png"}


def of(kind: str) -> dict[str, Any]:
    """A model, its data and how batches are made."""
    if kind == "text":
        return {"model": bert(), "train_dataset": texts(), "data_collator": strict_collator}
    return {"model": vit(), "train_dataset": Images()}


def trainer_of(
    folder: Path,
    criterion: Marvel,
    kind: str = "text",
    cls: type = MarvelTrainer,
    evaluated: Any = None,
    **settings: Any,
) -> MarvelTrainer:
    settings = {"num_train_epochs": EPOCHS, "save_strategy": "no", **settings}
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=BATCH, report_to="none", use_cpu=True, disable_tqdm=True,
        max_grad_norm=0, logging_strategy="no", seed=1, dataloader_pin_memory=False, **settings,
    )  # fmt: skip
    parts = {**of(kind), "eval_dataset": evaluated}
    optimizer = torch.optim.SGD(parts["model"].parameters(), lr=0.1, momentum=0.9)
    steady = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    made: MarvelTrainer = cls(args=arguments, optimizers=(optimizer, steady), criterion=criterion, **parts)
    return made


def plain_loop(
    batches: list[list[int]], criterion: Marvel, kind: str, accumulate: int = 1, world: int = 1
) -> nn.Module:
    """Without a Trainer: the same batches, the same first weights."""
    model = bert() if kind == "text" else vit()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = -(-N // (BATCH * world))
    for epoch in range(EPOCHS):
        todo = batches[epoch * steps : (epoch + 1) * steps]
        assert set(chain(*todo)) == set(range(N))  # every instance; of one process, once an epoch
        assert world > 1 or sum(map(len, todo)) == N
        for k in range(0, steps, accumulate):
            group = todo[k : k + accumulate]
            for rows in group:
                index = torch.tensor(rows)
                x = padded([WORDS[i] for i in rows]) if kind == "text" else {"pixel_values": PIXELS[index]}
                (criterion(model(**x).logits, Y[index], index) / len(group)).backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    return model


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    left, right = ours.state_dict(), theirs.state_dict()
    assert left.keys() == right.keys()
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("criterion", [Spy, SpyPlus])
@pytest.mark.parametrize("kind", ["text", "images"])
def test_it_is_the_plain_loop(kind: str, criterion: type[Spy], accumulate: int, tmp_path: Path) -> None:
    """Bit for bit, with accumulated gradients as well: six steps of an epoch are taken as four and two."""
    found = criterion()
    trainer = trainer_of(tmp_path, found, kind, gradient_accumulation_steps=accumulate)
    trainer.train()
    expected = criterion()
    model = plain_loop(found.batches, expected, kind, accumulate)
    assert_same(found, expected)
    assert_same(trainer.model, model)
    assert found.epoch == EPOCHS + 1
    if accumulate == 1:
        assert found.removed.any() and not found.removed.all()
    logged = [line["marvel/removed"] for line in trainer.state.log_history if "marvel/removed" in line]
    assert len(logged) == EPOCHS and logged[-1] == found.removed.sum()


@pytest.mark.parametrize("saves", [{"save_strategy": "epoch"}, {"save_strategy": "steps", "save_steps": 4}], ids=str)
def test_resumed_it_is_the_same(saves: dict[str, Any], tmp_path: Path) -> None:
    """From an epoch's end, from within an epoch, and from the last step of one, before its end."""
    whole = trainer_of(tmp_path / "whole", Spy(), **saves)
    whole.train()
    assert whole.criterion.removed.any()
    steps = [6, 12] if saves["save_strategy"] == "epoch" else [4, 12]
    for step in steps:
        again = trainer_of(tmp_path / "again", Spy())
        again.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        assert_same(again.criterion, whole.criterion)
        assert_same(again.model, whole.model)
    last = trainer_of(tmp_path / "whole", Spy())
    last.load_criterion(max((tmp_path / "whole").glob("checkpoint-*"), key=lambda path: int(path.name[11:])))
    assert last.criterion.epoch >= EPOCHS


def test_evaluation_is_as_ever(tmp_path: Path) -> None:
    """The model's own loss, on data that has an index column of its own; nothing is noted."""
    criterion = Spy()
    held = [{**Images()[i], "index": i} for i in range(10)]
    trainer = trainer_of(tmp_path, criterion, "images", evaluated=held, eval_strategy="epoch", num_train_epochs=1)
    trainer.train()
    losses = [line["eval_loss"] for line in trainer.state.log_history if "eval_loss" in line]
    trainer.model.eval()
    logits = trainer.model(pixel_values=PIXELS[:10]).logits.detach()
    assert losses == [pytest.approx(float(nn.functional.cross_entropy(logits, Y[:10])), rel=1e-5)]
    assert criterion.epochs_seen.tolist() == [1] * N and len(criterion.batches) == 6
    assert isinstance(trainer.train_dataset, Images) and trainer.args.remove_unused_columns


def test_a_dataset_with_a_transform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transform that knows no index, on columns that are left where they are."""
    plain, transformed = Spy(), Spy()
    trainer_of(tmp_path, plain).train()
    shown = texts().with_transform(lambda rows: {"input_ids": rows["input_ids"], "label": rows["label"]})
    monkeypatch.setitem(globals(), "texts", lambda: shown)
    trainer_of(tmp_path, transformed, remove_unused_columns=False).train()
    assert transformed.batches == plain.batches
    assert_same(transformed, plain)


@pytest.mark.parametrize("form", [lambda z: z, lambda z: (z,), lambda z: {"loss": z.sum(), "logits": z}])
def test_whatever_the_model_puts_out(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = bert()

        def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Any:
            return form(self.inner(input_ids, attention_mask).logits)

    plain, wrapped, parts = Spy(), Spy(), of("text")
    trainer_of(tmp_path, plain, num_train_epochs=1).train()
    monkeypatch.setitem(globals(), "of", lambda kind: {**parts, "model": Wrapped()})
    trainer_of(tmp_path, wrapped, num_train_epochs=1).train()
    assert_same(wrapped, plain)


def test_a_trainer_of_ones_own(tmp_path: Path) -> None:
    class Own(Trainer):
        def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
            self.taken = getattr(self, "taken", 0) + 1
            loss: Tensor = super().training_step(*args, **kwargs)
            return loss

    class Both(MarvelMixin, Own):
        pass

    trainer = trainer_of(tmp_path, Spy(), cls=Both, num_train_epochs=1)
    trainer.train()
    assert trainer.taken == 6 and trainer.criterion.epoch == 2  # type: ignore[attr-defined]
    trainer.save_model()
    assert (tmp_path / FILE).exists()


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="of 7 instances, and train_dataset has 44"):
        trainer_of(tmp_path, Marvel(7, 2)).train()
    with pytest.raises(InvalidInput, match=r"criterion is one of Marvel's, .* got CrossEntropyLoss"):
        trainer_of(tmp_path, nn.CrossEntropyLoss())  # type: ignore[arg-type]
    trainer = trainer_of(tmp_path, Spy())
    trainer.train_dataset = torch.utils.data.TensorDataset(torch.zeros(N, 3), Y)
    with pytest.raises(InvalidInput, match="items of train_dataset should be dicts, .* got tuple"):
        trainer.train()
    with pytest.raises(InvalidInput, match="the criterion is the loss"):
        trainer_of(tmp_path, Spy(), label_smoothing_factor=0.1)
    (tmp_path / "checkpoint-1").mkdir()
    with pytest.raises(FolderError, match="marvel.safetensors is missing"):
        trainer_of(tmp_path, Spy()).train(resume_from_checkpoint=True)
    trainer = trainer_of(tmp_path, Spy())
    trainer.save_model(str(tmp_path / "other"))
    with pytest.raises(FolderError, match="does not fit"):
        trainer_of(tmp_path, Marvel(7, 2)).load_criterion(tmp_path / "other")


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any) -> Any:
        if name.startswith("transformers"):
            raise ModuleNotFoundError("No module named 'transformers'", name="transformers")
        return real(name, *args)

    monkeypatch.delitem(sys.modules, "marvel.integrations.huggingface")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'marvel-learn\[hf\]'"):
        import marvel.integrations.huggingface  # noqa: F401


@pytest.fixture(autouse=True)
def generator_left_alone() -> Iterator[None]:
    """The Trainer seeds the global generators."""
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.mark.dist
def test_two_processes_are_one(tmp_path: Path) -> None:
    """One process that sees the global batches of two, some instances twice, comes to the same."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    program = str(ROOT / "tests" / "together_huggingface.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name, kind in {"marvel": Spy, "marvel+": SpyPlus}.items():
        found = torch.load(tmp_path / f"{name}.pt", weights_only=True)
        alone = kind()
        model = plain_loop(found["batches"], alone, "text", world=2)
        expected = {f"criterion.{key}": tensor for key, tensor in alone.state_dict().items()}
        expected |= {f"network.{key}": tensor for key, tensor in model.state_dict().items()}
        assert found["state"].keys() == expected.keys()
        assert alone.removed.any() and not alone.removed.all()
        for key, tensor in expected.items():
            same = {"rtol": 1e-4, "atol": 1e-4} if tensor.is_floating_point() else {"rtol": 0, "atol": 0}
            torch.testing.assert_close(found["state"][key], tensor, equal_nan=True, msg=f"{name}: {key}", **same)


def test_a_new_model_begins_with_a_criterion_that_knows_nothing(tmp_path: Path) -> None:
    criterion = Marvel(N, 2, EPOCHS, warmup=1, wait=2)
    arguments = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=BATCH, report_to="none", use_cpu=True, disable_tqdm=True,
        logging_strategy="no", save_strategy="no", num_train_epochs=EPOCHS, seed=1, dataloader_pin_memory=False,
        learning_rate=0.01,
    )  # fmt: skip
    parts = {"train_dataset": texts(), "data_collator": strict_collator}
    trainer = MarvelTrainer(model_init=bert, args=arguments, criterion=criterion, **parts)
    trainer.train()
    first = {name: tensor.clone() for name, tensor in criterion.remembered().items()}
    trainer.train()
    assert criterion.epoch == EPOCHS + 1
    assert criterion.removed.any()
    for name, tensor in criterion.remembered().items():
        torch.testing.assert_close(tensor, first[name], equal_nan=True, msg=name)
