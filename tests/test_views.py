"""Views against naive loops, one image at a time."""

import math

import numpy as np
import pytest
import torch

from marvel.data import Views
from marvel.errors import InvalidInput

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)


def images(m: int, shape: tuple[int, int, int] = (3, 8, 6), seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, (m, *shape), dtype=np.uint8))


def uniforms(m: int, k: int, seed: int = 1) -> torch.Tensor:
    return torch.rand(m, k, generator=torch.Generator().manual_seed(seed))


def naive_weak(image: np.ndarray, row: int, column: int, flip: bool) -> np.ndarray:
    channels, height, width = image.shape
    padded = np.zeros((channels, height + 8, width + 8), np.uint8)
    padded[:, 4 : 4 + height, 4 : 4 + width] = image
    crop = padded[:, row : row + height, column : column + width]
    return crop[:, :, ::-1] if flip else crop


def normalised(image: np.ndarray) -> np.ndarray:
    mean, std = np.array(MEAN).reshape(3, 1, 1), np.array(STD).reshape(3, 1, 1)
    return (image / 255 - mean) / std


def test_plain_is_standardised_on_the_unit_scale() -> None:
    x = images(4)
    views = Views(MEAN, STD, "none", (3, 8, 6))
    expected = np.stack([normalised(image) for image in x.numpy()])
    assert views.plain(x).dtype == torch.float32
    np.testing.assert_allclose(views.plain(x).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(views.plain(x.float() / 255).numpy(), expected, atol=1e-5)


def test_weak_equals_pad_crop_flip_for_every_offset() -> None:
    views = Views(MEAN, STD, "crop-flip", (3, 8, 6))
    choices = [(row, column, flip) for row in range(9) for column in range(9) for flip in (False, True)]
    x = images(len(choices))
    u = torch.tensor([((r + 0.5) / 9, (c + 0.5) / 9, 0.25 if flip else 0.75) for r, c, flip in choices])
    expected = [normalised(naive_weak(image, *choice)) for image, choice in zip(x.numpy(), choices, strict=True)]
    np.testing.assert_allclose(views.weak(x, u).numpy(), np.stack(expected), atol=1e-5)


def test_weak_of_float_images_pads_with_raw_zeros() -> None:
    views = Views(MEAN, STD, "crop-flip", (3, 8, 6))
    x, u = images(16), uniforms(16, 3)
    torch.testing.assert_close(views.weak(x.float() / 255, u), views.weak(x, u))


def test_the_largest_uniform_stays_inside() -> None:
    views = Views(MEAN, STD, "crop-flip", (3, 8, 6))
    x = images(1)
    largest = torch.full((1, 3), float(np.nextafter(np.float32(1), np.float32(0))))
    expected = normalised(naive_weak(x[0].numpy(), 8, 8, False))
    np.testing.assert_allclose(views.weak(x, largest)[0].numpy(), expected, atol=1e-5)


def test_offsets_and_flips_are_uniform() -> None:
    m = 9000
    # One bright pixel in the middle shows where each crop lies, and a dim one to its left whether it is flipped.
    x = torch.zeros(m, 1, 17, 17, dtype=torch.uint8)
    x[:, :, 8, 8], x[:, :, 8, 7] = 255, 100
    out = Views((0.0,), (1.0,), "crop-flip", (1, 17, 17)).weak(x, uniforms(m, 3))
    bright = (out > 0.9).flatten(1).int().argmax(dim=1)
    dim = ((out > 0.3) & (out < 0.5)).flatten(1).int().argmax(dim=1)
    flipped = (dim > bright).float().mean().item()
    assert abs(flipped - 0.5) < 0.03
    rows, columns = torch.bincount(bright // 17), torch.bincount(bright % 17)
    for counts in (rows[4:], columns[4:]):
        assert len(counts) == 9
        assert (counts.float() / m - 1 / 9).abs().max() < 0.02


def test_weak_without_augmentation_is_plain_and_needs_nothing() -> None:
    x = images(5)
    views = Views(MEAN, STD, "none", (3, 8, 6))
    assert views.weak_uniforms == 0
    assert torch.equal(views.weak(x, torch.empty(5, 0)), views.plain(x))


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 12, 20)])
def test_strong_is_finite_float32_and_a_function_of_its_uniforms(augment: str, shape: tuple[int, int, int]) -> None:
    channels = shape[0]
    views = Views((0.5,) * channels, (0.25,) * channels, augment, shape)
    x, u = images(32, shape), uniforms(32, views.strong_uniforms)
    out = views.strong(x, u)
    assert out.shape == (32, *shape)
    assert out.dtype == torch.float32
    assert torch.isfinite(out).all()
    assert out.abs().max() <= 2  # the standardised range of 0..1
    assert torch.equal(out, views.strong(x, u))
    assert not torch.equal(out, views.strong(x, uniforms(32, views.strong_uniforms, seed=2)))
    # An instance's view depends on its own row only.
    torch.testing.assert_close(out[7:9], views.strong(x[7:9], u[7:9]))


def test_strong_without_any_change_is_the_image_with_a_square_cut_out() -> None:
    views = Views(MEAN, STD, "none", (3, 16, 16))
    x = images(2, (3, 16, 16))
    u = torch.full((2, views.strong_uniforms), 0.5)
    expected = views.plain(x)
    expected[:, :, 4:12, 4:12] = 0
    torch.testing.assert_close(views.strong(x, u), expected, atol=1e-4, rtol=0)


def test_strong_rotates_about_the_centre_even_when_not_square() -> None:
    # A centred disc is a fixed point of every rotation, on a wide image too.
    height, width = 24, 48
    row, column = torch.meshgrid(torch.arange(height) - 11.5, torch.arange(width) - 23.5, indexing="ij")
    disc = (((row**2 + column**2) < 64) * 255).to(torch.uint8).expand(1, 1, height, width)
    views = Views((0.0,), (1.0,), "none", (1, height, width))
    u = torch.full((1, views.strong_uniforms), 0.5)
    u[0, -2:] = 0.0  # the square lies in the corner, away from the disc
    still = views.strong(disc, u)
    u[0, 0] = 0.999
    assert (views.strong(disc, u) - still).abs().mean() < 0.02


def test_strong_shifts_by_an_eighth_at_most() -> None:
    x = torch.zeros(1, 1, 16, 16, dtype=torch.uint8)
    x[0, 0, 8, 8] = 255
    views = Views((0.0,), (1.0,), "none", (1, 16, 16))
    u = torch.full((1, views.strong_uniforms), 0.5)
    u[0, -2:] = 0.0
    u[0, 2], u[0, 3] = 1.0, 0.0  # the image moves left by two pixels and down by two
    brightest = int(views.strong(x, u).flatten().argmax())
    assert (brightest // 16, brightest % 16) == (10, 6)


@pytest.mark.parametrize("shape", [(3, 16, 16), (7,)])
def test_strong_without_strength_is_the_weak_view(shape: tuple[int, ...]) -> None:
    image = len(shape) == 3
    views = Views(*((MEAN, STD, "crop-flip") if image else ((0.0,) * 7, (1.0,) * 7, "none")), shape)
    x = images(8, shape) if image else torch.randn(8, *shape)
    u = uniforms(8, views.strong_uniforms)
    weak = views.weak(x, u[:, : views.weak_uniforms])
    torch.testing.assert_close(views.strong(x, u, 0.0), weak, atol=2e-4, rtol=0)
    assert not torch.allclose(views.strong(x, u, 0.1), weak, atol=1e-2)


def test_half_the_strength_is_half_of_every_change() -> None:
    """A uniform at a quarter of the way in full does what one at the end does at half strength; the square is half."""
    views = Views((0.0,), (1.0,), "none", (1, 24, 24))
    x, u = images(1, (1, 24, 24)), torch.full((1, views.strong_uniforms), 0.5)
    u[0, :-2], u[0, -2:] = 1.0, 0.5
    half = views.strong(x, u, 0.5)
    u[0, :-2] = 0.75
    full = views.strong(x, u)
    torch.testing.assert_close(half[:, :, 2:5], full[:, :, 2:5], atol=1e-4, rtol=0)
    assert int((half[0, 0, 9:15, 9:15] == 0).sum()) == 36 and int((full[0, 0, 6:18, 6:18] == 0).sum()) == 144
    assert int((half[0, 0, 8, 9:15] == 0).sum()) == 0


def test_strong_of_vectors_adds_gaussian_noise_and_drops_features() -> None:
    m, features = 4000, 7
    mean, std = tuple(range(features)), tuple(0.5 + i for i in range(features))
    views = Views(mean, std, "none", (features,))
    x = torch.tensor(mean).float() + 2 * torch.tensor(std)  # two deviations above the mean
    u = uniforms(m, views.strong_uniforms)
    out = views.strong(x.expand(m, features), u)
    dropped = out == 0
    noise = (out - 2)[~dropped]
    assert abs(dropped.float().mean().item() - 0.1) < 0.01
    assert abs(noise.mean().item()) < 0.003
    assert abs(noise.std().item() - 0.1) < 0.003
    kurtosis = ((noise / noise.std()) ** 4).mean().item()
    assert abs(kurtosis - 3) < 0.15
    assert math.isclose(views.plain(x[None])[0, 0].item(), 2, rel_tol=1e-5)
    assert torch.isfinite(views.strong(x[None], torch.zeros(1, views.strong_uniforms))).all()


@pytest.mark.parametrize("shape", [(3, 32, 32), (5,)])
def test_nothing_depends_on_values_on_the_host(shape: tuple[int, ...]) -> None:
    """Tensors without values go through: no waiting for the device, no shape that depends on what is drawn."""
    augment = "crop-flip" if len(shape) == 3 else "none"
    dtype = torch.uint8 if len(shape) == 3 else torch.float32
    views = Views((0.5,) * shape[0], (0.2,) * shape[0], augment, shape).to("meta")
    x = torch.empty((6, *shape), dtype=dtype, device="meta")
    for make, k in ((views.weak, views.weak_uniforms), (views.strong, views.strong_uniforms)):
        assert make(x, torch.empty(6, k, device="meta")).shape == x.shape
    assert views.plain(x).device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_views_on_the_gpu_are_those_on_the_cpu_and_can_be_captured(augment: str) -> None:
    views = Views(MEAN, STD, augment, (3, 32, 32))
    there = views.to("cuda")
    x, u = images(64, (3, 32, 32)), uniforms(64, views.strong_uniforms)
    xs, us = x.cuda(), u.cuda()
    k = views.weak_uniforms
    torch.testing.assert_close(there.weak(xs, us[:, :k]).cpu(), views.weak(x, u[:, :k]))
    strong = there.strong(xs, us)
    torch.testing.assert_close(strong.cpu(), views.strong(x, u), atol=1e-3, rtol=0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = there.strong(xs, us)
    graph.replay()
    assert torch.equal(captured, strong)


def test_views_say_what_they_need() -> None:
    with pytest.raises(InvalidInput, match="augment is one of"):
        Views(MEAN, STD, "flip", (3, 8, 8))
    with pytest.raises(InvalidInput, match="without crop-flip"):
        Views((0.0,), (1.0,), "crop-flip", (1,))
    with pytest.raises(InvalidInput, match="mean and std have 1 numbers"):
        Views(MEAN, STD, "none", (1, 8, 8))
    views = Views(MEAN, STD, "crop-flip", (3, 8, 6))
    with pytest.raises(InvalidInput, match=r"uniforms \(m, 3\) are needed"):
        views.weak(images(2), torch.rand(2, 2))
    with pytest.raises(InvalidInput, match="instances"):
        views.weak(images(2, (3, 6, 6)), torch.rand(2, 3))
