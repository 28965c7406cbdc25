"""Our kernels against PyTorch in double precision: on a GPU, and those of BatchNorm also in Triton's interpreter."""

import copy
import os
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F

from marvel import networks
from marvel.networks.conv import Conv3x3
from marvel.networks.norm import BatchNorm2d, relu_of

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"


def away(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """How far off, as a share of the whole."""
    got, wanted = got.detach().double(), wanted.detach()
    return float(torch.linalg.vector_norm(got - wanted) / torch.linalg.vector_norm(wanted))


# ---------------------------------------------------------------- convolutions


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="there is no GPU")
@pytest.mark.parametrize(("channels", "side", "m"), [(16, 32, 128), (32, 16, 7), (64, 8, 128), (16, 9, 3)])
def test_convolution_and_gradients_equal_those_in_double_precision(channels, side, m):
    g = torch.Generator("cuda").manual_seed(channels)
    layer = Conv3x3(channels, channels).cuda().bfloat16().to(memory_format=torch.channels_last)
    x = torch.randn(m, channels, side, side, device="cuda", generator=g).bfloat16().requires_grad_()
    up = torch.randn(m, channels, side, side, device="cuda", generator=g).bfloat16()
    ours = layer(x)
    ours.backward(up)
    exact_x, exact_w = x.detach().double().requires_grad_(), layer.weight.detach().double().requires_grad_()
    exact = F.conv2d(exact_x, exact_w, padding=1)
    exact.backward(up.double())
    for got, wanted in ((ours, exact), (x.grad, exact_x.grad), (layer.weight.grad, exact_w.grad)):
        assert away(got, wanted) < 4e-3


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="there is no GPU")
def test_our_convolutions_are_used():
    assert Conv3x3(16, 16).quick is not None and Conv3x3(16, 32).quick is None


# ---------------------------------------------------------------- BatchNorm


@pytest.fixture(scope="module", params=[512, 2], ids=["512 programs", "2 programs"])
def normed(request):
    """The kernels' own function; without a GPU, interpreted."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    if not ON_GPU:
        os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined
    from marvel.networks import norm_kernels

    # Few chunks, of several tiles each, the last one cut short: what large batches come to.
    with pytest.MonkeyPatch.context() as few:
        few.setattr(norm_kernels, "PROGRAMS", request.param)
        yield norm_kernels.Normed.apply


def images(m: int, channels: int, side: int, dtype: torch.dtype, seed: int, mean: float = 0.0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(m, channels, side, side, generator=g) + mean
    return x.to(DEVICE, dtype).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("relu", [True, False], ids=["relu", "linear"])
@pytest.mark.parametrize("plus", [True, False], ids=["shortcut", "alone"])
@pytest.mark.parametrize(
    ("m", "channels", "side", "mean"), [(5, 16, 9, 0), (3, 64, 8, 30), (9, 128, 7, -3), (70, 512, 1, 0)]
)
def test_norm_and_gradients_equal_those_in_double_precision(normed, m, channels, side, mean, plus, relu, dtype):
    x = images(m, channels, side, dtype, 0, mean).requires_grad_()
    shortcut = images(m, channels, side, dtype, 1).requires_grad_() if plus else None
    up = images(m, channels, side, dtype, 2)
    g = torch.Generator().manual_seed(3)
    weight, bias, before, spread = (torch.rand(channels, generator=g).to(DEVICE) + 0.5 for _ in range(4))
    weight.requires_grad_(), bias.requires_grad_()
    exact_x, exact_weight, exact_bias = (t.detach().double().requires_grad_() for t in (x, weight, bias))
    exact_before, exact_spread = before.double(), spread.double()
    exact = F.batch_norm(exact_x, exact_before, exact_spread, exact_weight, exact_bias, True, 0.1, 1e-5)
    if plus:
        exact_shortcut = shortcut.detach().double().requires_grad_()
        exact = exact + exact_shortcut
    exact = F.relu(exact) if relu else exact
    exact.backward(up.double())

    ours = normed(x, shortcut, weight, bias, before, spread, 0.1, 1e-5, relu)
    ours.backward(up)
    # Triton's interpreter cuts digits off where a GPU rounds.
    images_off, numbers_off = (1e-5, 1e-5) if dtype == torch.float32 else (4e-3, 2e-4)
    assert ours.dtype == dtype and ours.is_contiguous(memory_format=torch.channels_last)
    assert away(ours, exact) < images_off and away(x.grad, exact_x.grad) < images_off
    if plus:
        assert away(shortcut.grad, exact_shortcut.grad) < images_off
    pairs = ((weight.grad, exact_weight.grad), (bias.grad, exact_bias.grad))
    for got, wanted in (*pairs, (before, exact_before), (spread, exact_spread)):
        assert away(got, wanted) < numbers_off


def test_a_far_mean_costs_no_digits_of_the_variance(normed):
    """The naive difference of mean square and squared mean would have none left."""
    x = images(8, 16, 16, torch.float32, 0, mean=3000.0)
    mean, variance = torch.zeros(16, device=DEVICE), torch.zeros(16, device=DEVICE)
    normed(x, None, torch.ones(16, device=DEVICE), torch.zeros(16, device=DEVICE), mean, variance, 1.0, 1e-5, True)
    assert away(variance, x.double().var((0, 2, 3))) < 1e-4
    assert away(mean, x.double().mean((0, 2, 3))) < 1e-6


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="there is no GPU")
@pytest.mark.parametrize("name", ["resnet18", "resnet32"])
def test_a_network_s_gradients_are_as_good_as_with_pytorch_s_kernels(name, monkeypatch):
    """Both are compared with float32: bfloat16 itself is what is off."""
    x = images(128, 3, 32, torch.float32, 0)
    y = torch.arange(128, device=DEVICE) % 10
    net = networks.build(name, 10, (3, 32, 32)).cuda().to(memory_format=torch.channels_last)

    def gradient(half: bool) -> torch.Tensor:
        copied = copy.deepcopy(net)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(copied(x).float(), y)
        loss.backward()
        return torch.cat([p.grad.flatten() for p in copied.parameters()])

    exact = gradient(half=False).double()
    ours = gradient(half=True)
    with monkeypatch.context() as plain:
        plain.setattr("marvel.networks.norm.is_quick", lambda norm, x: False)
        theirs = gradient(half=True)
    assert not torch.equal(ours, theirs)
    assert away(ours, exact) < 1.1 * away(theirs, exact)


def test_without_a_gpu_it_is_pytorch_s():
    norm, x, shortcut = BatchNorm2d(16), torch.randn(4, 16, 3, 3), torch.randn(4, 16, 3, 3)
    assert torch.equal(relu_of(norm, x, shortcut), F.relu(norm(x) + shortcut))
    assert torch.equal(relu_of(norm.eval(), x), F.relu(norm(x)))
