"""Two sources of raw instances that must give the same tensors."""

import gc
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from marvel.data import Resident, Source, Streamed
from marvel.errors import DataError

X = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (20, 3, 6, 5), dtype=np.uint8))
DRAWS = [torch.tensor([3, 1, 4]), torch.tensor([1, 5, 9]), torch.tensor([2])]


class Pairs(Dataset[Any]):
    """(x, label) pairs, x in one of the forms people's datasets have."""

    def __init__(self, form: str, x: torch.Tensor = X) -> None:
        self.form = form
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        x = self.x[i]
        if self.form == "tensor":
            return x, 0
        if self.form == "array":
            return x.permute(1, 2, 0).numpy(), 0
        if self.form == "dict":
            return {"image": x, "label": 0}
        from PIL import Image

        image = Image.fromarray(x.permute(1, 2, 0).numpy())
        return image if self.form == "image" else [image.convert("RGBA"), 0]


@pytest.mark.parametrize("form", ["tensor", "array", "image", "rgba"])
def test_streamed_equals_resident(form: str) -> None:
    sources: list[Source] = [Resident(X, "cpu"), Streamed(Pairs(form), "cpu")]
    for source in sources:
        assert len(source) == 20
        out = list(source.stream(DRAWS))
        assert [x.dtype for x in out] == [torch.uint8] * 3
        for x, index in zip(out, DRAWS, strict=True):
            assert torch.equal(x, X[index])
            assert torch.equal(source.fetch(index), X[index])


def test_workers_give_the_same_in_the_same_order() -> None:
    out = list(Streamed(Pairs("tensor"), "cpu", workers=1).stream(DRAWS))
    assert all(torch.equal(x, X[index]) for x, index in zip(out, DRAWS, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_draw_of_none_is_no_instance_in_the_shape_of_one(workers: int) -> None:
    nothing = torch.tensor([], dtype=torch.int64)
    for source in (Resident(X, "cpu"), Streamed(Pairs("tensor"), "cpu", workers=workers)):
        assert source.fetch(nothing).shape == (0, 3, 6, 5)
        shapes = [x.shape for x in source.stream([DRAWS[0], nothing, DRAWS[2]])]
        assert shapes == [(3, 3, 6, 5), (0, 3, 6, 5), (1, 3, 6, 5)]


def test_pick_takes_the_instance_out_of_any_item() -> None:
    source = Streamed(Pairs("dict"), "cpu", pick=lambda item: item["image"])
    assert torch.equal(source.fetch(DRAWS[0]), X[DRAWS[0]])
    with pytest.raises(DataError, match="given dict; pick="):
        Streamed(Pairs("dict"), "cpu").fetch(DRAWS[0])


def test_vectors_and_grey_images() -> None:
    vectors = np.random.default_rng(1).normal(size=(4, 7))
    out = Streamed(vectors, "cpu").fetch(torch.tensor([2, 0]))
    assert out.dtype == torch.float32
    assert torch.equal(out, torch.from_numpy(vectors).float()[[2, 0]])
    grey = np.arange(2 * 5 * 4, dtype=np.uint8).reshape(2, 5, 4)
    assert torch.equal(Streamed(grey, "cpu").fetch(torch.tensor([1])), torch.from_numpy(grey[1])[None, None])


class Random(Dataset[Any]):
    """A dataset with a random transform of its own, drawn from torch's generator as torchvision's are."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.rand(2)


def test_a_datasets_own_randomness_follows_the_draws_whoever_reads() -> None:
    source = Streamed(Random(), "cpu", workers=2)
    first, again = (torch.cat(list(source.stream(DRAWS))) for _ in range(2))
    other = torch.cat(list(source.stream([DRAWS[1], DRAWS[0], DRAWS[2]])))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first, torch.cat(list(Streamed(Random(), "cpu").stream(DRAWS))))


def test_workers_stay_from_epoch_to_epoch_and_two_streams_do_not_meet() -> None:
    source = Streamed(Pairs("tensor"), "cpu", workers=1)
    list(source.stream(DRAWS))
    (loader,) = source.idle
    one, two = source.stream(DRAWS), source.stream(DRAWS[::-1])
    both = [(next(one), next(two)) for _ in DRAWS]
    assert list(one) == list(two) == []
    assert loader in source.idle and len(source.idle) == 2
    for (a, b), ours, theirs in zip(both, DRAWS, DRAWS[::-1], strict=True):
        assert torch.equal(a, X[ours]) and torch.equal(b, X[theirs])


def test_workers_of_a_source_that_is_garbage_of_a_cycle_are_told_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch alone they are not: each is waited for in vain, and killed."""
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 2.0)  # less than a worker itself waits
    source = Streamed(Pairs("tensor"), "cpu", workers=1)
    source.itself = source  # type: ignore[attr-defined]
    list(source.stream(DRAWS))
    (worker,) = source.idle[0]._iterator._workers  # type: ignore[union-attr]
    killed: list[bool] = []
    monkeypatch.setattr(worker, "terminate", lambda: killed.append(True))
    del source
    gc.collect()
    assert not killed and worker.exitcode == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_the_global_generator_is_left_alone(workers: int) -> None:
    before = torch.get_rng_state()
    list(Streamed(Pairs("tensor"), "cpu", workers=workers).stream(DRAWS))
    list(Resident(X, "cpu").stream(DRAWS))
    assert torch.equal(torch.get_rng_state(), before)


def test_images_of_several_sizes_are_said() -> None:
    sizes: list[torch.Tensor] = [torch.zeros(3, 4, 4, dtype=torch.uint8), torch.zeros(3, 5, 4, dtype=torch.uint8)]
    with pytest.raises(DataError, match="one shape.*resize"):
        Streamed(sizes, "cpu").fetch(torch.tensor([0, 1]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_both_sources_on_the_gpu() -> None:
    for source in (Resident(X, "cuda"), Streamed(Pairs("tensor"), "cuda", workers=1)):
        for x, index in zip(source.stream(DRAWS), DRAWS, strict=True):
            assert x.device.type == "cuda"
            assert torch.equal(x.cpu(), X[index])
