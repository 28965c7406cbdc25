"""The networks: their size, names, initialisation and parts, and weights from files."""

import math
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from marvel.errors import InvalidInput, UnknownName
from marvel.networks import NETWORKS, build, load_weights
from marvel.networks.resnet_cifar import Block

SHAPES: dict[str, tuple[int, ...]] = {
    "cnn2": (1, 8, 8),
    "cnn4": (1, 12, 9),
    "cnn4-bn": (1, 12, 9),
    "cnn4-conv4": (1, 12, 9),
    "mlp": (7,),
    "resnet18": (3, 8, 8),
    "resnet32": (3, 11, 14),
    "resnet34": (3, 8, 8),
    "resnet50": (3, 32, 32),
}
NAMES = sorted(SHAPES)
DISTINCT = [name for name in NAMES if name != "resnet34"]
"""ResNet-34 is ResNet-18 with more blocks: counting its parameters is enough where time matters."""


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def instances(name: str, m: int = 4) -> Tensor:
    return torch.randn(m, *SHAPES[name], generator=torch.Generator().manual_seed(1))


def test_every_network_is_tested() -> None:
    assert sorted(NETWORKS) == NAMES


@pytest.mark.parametrize(
    ("name", "classes", "shape", "count"),
    [
        ("cnn4-bn", 2, (1, 28, 28), 421_058),
        ("cnn4-conv4", 2, (1, 28, 28), 1_672_162),
        ("cnn4", 2, (1, 28, 28), 420_610),
        ("cnn2", 10, (1, 8, 8), 22_778),
        ("mlp", 10, (64,), 85_514),
        ("resnet32", 10, (3, 32, 32), 464_154),
        ("resnet32", 100, (3, 32, 32), 470_004),
        ("resnet18", 10, (3, 32, 32), 11_173_962),
        ("resnet18", 2, (3, 32, 32), 11_169_858),
        ("resnet34", 10, (3, 32, 32), 21_282_122),
        ("resnet50", 50, (3, 224, 224), 23_610_482),
        ("resnet50", 14, (3, 224, 224), 23_536_718),
    ],
)
def test_number_of_parameters(name: str, classes: int, shape: tuple[int, ...], count: int) -> None:
    assert parameters(build(name, classes, shape)) == count


@pytest.mark.parametrize("name", DISTINCT)
def test_logits_are_the_head_of_the_features(name: str) -> None:
    network = build(name, 5, SHAPES[name]).eval()
    x = instances(name)
    features = network.features(x)
    assert isinstance(network.head, nn.Linear)
    assert features.shape == (4, network.head.in_features)
    assert network(x).shape == (4, 5)
    assert torch.equal(network(x), network.head(features))
    assert not any("head" in key for key in network.state_dict())


def test_assigning_the_head_replaces_the_last_layer() -> None:
    network = build("resnet32", 5, (3, 8, 8))
    network.head = nn.Linear(64, 3)  # type: ignore[misc]
    assert network(torch.zeros(2, 3, 8, 8)).shape == (2, 3)
    assert network.state_dict()["fc.weight"].shape == (3, 64)


@pytest.mark.parametrize("name", DISTINCT)
def test_gradient_reaches_every_parameter(name: str) -> None:
    network = build(name, 3, SHAPES[name])
    network(instances(name)).logsumexp(1).sum().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        # A bias before BatchNorm has a gradient of 0 by construction; weights never do.
        if parameter.ndim > 1:
            assert parameter.grad.abs().max() > 0, key


@pytest.mark.parametrize("name", DISTINCT)
def test_weights_are_a_function_of_the_seed_alone(name: str) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = build(name, 3, SHAPES[name], seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    second, other = build(name, 3, SHAPES[name], seed=1), build(name, 3, SHAPES[name], seed=2)
    for (key, a), b, c in zip(first.named_parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), key
        if a.ndim > 1:
            assert not torch.equal(a, c), key


def test_build_is_on_the_cpu_whatever_the_default_device() -> None:
    with torch.device("meta"):
        network = build("mlp", 2, (3,))
    assert {parameter.device.type for parameter in network.parameters()} == {"cpu"}


def shortcut_by_hand(x: Tensor) -> Tensor:
    """2 x 2 means, then as many channels of zeros after the existing ones."""
    m, channels, height, width = x.shape
    out = torch.zeros(m, 2 * channels, height // 2, width // 2)
    for row in range(height // 2):
        for column in range(width // 2):
            window = x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            out[:, :channels, row, column] = window.sum((2, 3)) / 4
    return out


def test_resnet32_shortcuts_have_no_parameters() -> None:
    network = build("resnet32", 10, (3, 32, 32))
    blocks = [module for module in network.modules() if isinstance(module, Block)]
    assert len(blocks) == 15
    for block in blocks:
        assert sorted(dict(block.named_parameters())) == [
            "bn1.bias",
            "bn1.weight",
            "bn2.bias",
            "bn2.weight",
            "conv1.weight",
            "conv2.weight",
        ]
    x = torch.randn(2, 16, 8, 6)
    assert torch.equal(blocks[0].shortcut(x), x)
    assert torch.allclose(blocks[5].shortcut(x), shortcut_by_hand(x), atol=1e-6)
    assert torch.allclose(blocks[10].shortcut(torch.cat([x, x], 1)), shortcut_by_hand(torch.cat([x, x], 1)), atol=1e-6)


def test_resnet32_block_by_hand() -> None:
    block = Block(16, 32, stride=2).eval()
    x = torch.randn(2, 16, 8, 8)
    inner = block.bn2(block.conv2(block.bn1(block.conv1(x)).clamp(min=0)))
    assert torch.allclose(block(x), (inner + shortcut_by_hand(x)).clamp(min=0), atol=1e-6)


def test_resnet32_keeps_channels_last_through_its_shortcuts() -> None:
    network = build("resnet32", 10, (3, 16, 16)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
    seen = []
    for module in network.modules():
        if isinstance(module, Block):
            module.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    network(x)
    assert len(seen) == 15
    assert all(output.is_contiguous(memory_format=torch.channels_last) for output in seen)
    assert {tuple(output.shape[1:]) for output in seen} == {(16, 16, 16), (32, 8, 8), (64, 4, 4)}


def he(weight: Tensor, fan: str) -> float:
    """The standard deviation of He's initialisation."""
    outputs, inputs = weight.shape[:2]
    return math.sqrt(2 / ((inputs if fan == "in" else outputs) * weight[0, 0].numel()))


@pytest.mark.parametrize(("name", "fan"), [("resnet32", "out"), ("resnet50", "out"), ("cnn4-bn", "in")])
def test_he_initialisation(name: str, fan: str) -> None:
    network = build(name, 10, SHAPES[name])
    weights = [layer.weight.detach() for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    if name == "cnn4-bn":
        weights += [layer.weight.detach() for layer in network.modules() if isinstance(layer, nn.Linear)]
        assert not network.head.bias.any()
    else:
        bound = 1 / math.sqrt(network.head.in_features)
        assert 0.9 * bound < float(network.head.weight.detach().abs().max()) <= bound
    for weight in weights:
        # The standard deviation of n normal draws is itself known to 1 / sqrt(2 n).
        assert float(weight.std()) == pytest.approx(he(weight, fan), rel=4 / math.sqrt(2 * weight.numel()))
        assert float(weight.abs().max()) > 2.5 * he(weight, fan)


@pytest.mark.parametrize("name", ["cnn4", "cnn4-conv4", "resnet18", "resnet34"])
def test_default_initialisation(name: str) -> None:
    for layer in build(name, 10, SHAPES[name]).modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound


def test_resnet50_has_torchvisions_names() -> None:
    state = build("resnet50", 1000, (3, 224, 224)).state_dict()
    assert len(state) == 320
    expected = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.weight": (64,),
        "bn1.running_mean": (64,),
        "bn1.num_batches_tracked": (),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.conv2.weight": (64, 64, 3, 3),
        "layer1.0.conv3.weight": (256, 64, 1, 1),
        "layer1.0.bn3.running_var": (256,),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.bias": (256,),
        "layer1.2.conv1.weight": (64, 256, 1, 1),
        "layer2.0.downsample.0.weight": (512, 256, 1, 1),
        "layer2.3.bn2.weight": (128,),
        "layer3.5.conv3.weight": (1024, 256, 1, 1),
        "layer4.0.downsample.0.weight": (2048, 1024, 1, 1),
        "layer4.2.conv2.weight": (512, 512, 3, 3),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    }
    assert {key: tuple(state[key].shape) for key in expected} == expected
    assert not any(key.startswith(("layer1.1.downsample", "layer2.1.downsample")) for key in state)


def test_resnet50_halves_five_times_with_the_stride_in_the_middle() -> None:
    network = build("resnet50", 2, (3, 64, 64)).eval()
    sizes: dict[str, tuple[int, ...]] = {}
    for name in ("conv1", "layer1", "layer2.0.conv1", "layer2.0.conv2", "layer4"):
        network.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, name=name: sizes.update({name: tuple(output.shape[2:])})
        )
    network(torch.zeros(1, 3, 64, 64))
    assert sizes == {
        "conv1": (32, 32),
        "layer1": (16, 16),
        "layer2.0.conv1": (16, 16),
        "layer2.0.conv2": (8, 8),
        "layer4": (2, 2),
    }


def test_resnet18_keeps_small_images_large() -> None:
    network = build("resnet18", 2, (3, 32, 32)).eval()
    state = network.state_dict()
    assert state["conv1.weight"].shape == (64, 3, 3, 3)
    assert "layer1.0.downsample.0.weight" not in state
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    sizes = []
    for name in ("layer1", "layer4"):
        network.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output: sizes.append(tuple(output.shape[2:]))
        )
    network(torch.zeros(1, 3, 32, 32))
    assert sizes == [(32, 32), (4, 4)]


def test_mlp_flattens_images() -> None:
    assert build("mlp", 3, (1, 4, 5))(torch.zeros(2, 1, 4, 5)).shape == (2, 3)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mlp"])
def test_vectors_are_for_the_mlp(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"'{name}' takes images .* given vectors of shape \(64,\): use 'mlp'"):
        build(name, 2, (64,))


def test_mistakes_are_explained() -> None:
    with pytest.raises(UnknownName, match="no network 'resnet23'; did you mean 'resnet3"):
        build("resnet23", 2, (3, 32, 32))
    with pytest.raises(InvalidInput, match=r"given \(28, 28\); grey images are \(1, H, W\)"):
        build("cnn4", 2, (28, 28))
    with pytest.raises(InvalidInput, match="all positive"):
        build("mlp", 2, (0,))
    with pytest.raises(InvalidInput, match="at least 4 x 4 pixels, given 3 x 8"):
        build("cnn4", 2, (1, 3, 8))
    with pytest.raises(InvalidInput, match="classes must be at least 1, given 0"):
        build("mlp", 0, (3,))


def save(network: nn.Module, path: Path, drop: str = "nothing") -> Path:
    state = {key: value for key, value in network.state_dict().items() if drop not in key}
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_weights_round_trip(suffix: str, tmp_path: Path) -> None:
    source, target = build("cnn2", 4, (1, 8, 8), seed=1), build("cnn2", 4, (1, 8, 8), seed=2)
    source(torch.randn(8, 1, 8, 8))
    assert load_weights(target, save(source, tmp_path / f"weights{suffix}")) == []
    for key, value in source.state_dict().items():
        assert torch.equal(target.state_dict()[key], value), key


def test_weights_for_other_classes_leave_the_head(tmp_path: Path) -> None:
    source, target = build("resnet32", 6, (3, 8, 8), seed=1), build("resnet32", 4, (3, 8, 8), seed=2)
    head = target.head.weight.clone()
    assert load_weights(target, save(source, tmp_path / "weights.safetensors")) == ["fc.weight", "fc.bias"]
    assert torch.equal(target.head.weight, head)
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(source.eval().features(x), target.eval().features(x))


def test_weights_may_lack_the_counters_of_batchnorm(tmp_path: Path) -> None:
    source, target = build("cnn2", 4, (1, 8, 8), seed=1), build("cnn2", 4, (1, 8, 8), seed=2)
    assert load_weights(target, save(source, tmp_path / "old.pth", drop="num_batches_tracked")) == []
    assert torch.equal(target.head.weight, source.head.weight)


def test_weights_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    target = build("cnn4", 4, (1, 8, 8))
    before = {key: value.clone() for key, value in target.state_dict().items()}
    with pytest.raises(
        InvalidInput, match=r"missing body\.3\.weight, body.3.bias; unknown body\.2\.weight.* 1 more; of"
    ):
        load_weights(target, save(build("cnn4-conv4", 4, (1, 8, 8), seed=1), tmp_path / "other.pt"))
    with pytest.raises(InvalidInput, match=r"of another shape body.7.weight \(128, 576\) instead of \(128, 256\)"):
        load_weights(target, save(build("cnn4", 4, (1, 12, 12), seed=1), tmp_path / "larger.pt"))
    with pytest.raises(InvalidInput, match=r"missing fc.weight, fc.bias\. "):
        load_weights(target, save(build("cnn4", 4, (1, 8, 8), seed=1), tmp_path / "headless.pt", drop="fc"))
    for key, value in target.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_files_that_hold_no_weights(tmp_path: Path) -> None:
    network = build("mlp", 2, (3,))
    with pytest.raises(InvalidInput, match="no file of weights"):
        load_weights(network, tmp_path / "absent.pt")
    with pytest.raises(InvalidInput, match=r"\.safetensors, \.pt or \.pth"):
        load_weights(network, tmp_path / "weights.bin")
    (tmp_path / "damaged.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_weights(network, tmp_path / "damaged.safetensors")
    torch.save({"epoch": 3, "state_dict": network.state_dict()}, tmp_path / "checkpoint.pt")
    with pytest.raises(InvalidInput, match=r"save network\.state_dict\(\) alone"):
        load_weights(network, tmp_path / "checkpoint.pt")


class Hostile:
    """Writes a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path(self.path),)  # type: ignore[return-value]


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (tmp_path / "hostile.pt").write_bytes(pickle.dumps({"fc.weight": Hostile(trace)}))
    torch.save({"fc.weight": Hostile(trace)}, tmp_path / "hostile.pth")
    for name in ("hostile.pt", "hostile.pth"):
        with pytest.raises(InvalidInput, match="cannot be read"):
            load_weights(build("mlp", 2, (3,)), tmp_path / name)
    assert not trace.exists()
    pickle.loads((tmp_path / "hostile.pt").read_bytes())
    assert trace.exists()
