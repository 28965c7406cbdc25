"""Our convolution against PyTorch's, on a GPU."""

import pytest
import torch
import torch.nn.functional as F

from marvel.networks.conv import Conv3x3

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


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
        assert torch.linalg.vector_norm(got.double() - wanted) < 4e-3 * torch.linalg.vector_norm(wanted)


def test_our_kernels_are_used():
    assert Conv3x3(16, 16).quick is not None and Conv3x3(16, 32).quick is None
