"""Images a second of the training step: as written, captured, compiled; alone and packed.

    python benchmarks/throughput.py --networks resnet32,resnet18 --packs 1,2,4,8 --out throughput.json

Synthetic CIFAR-sized data, batch 128; times exclude building and capture. Every row is measured in this one process.
"""

import argparse
import json
import time
from collections.abc import Iterator

import torch

from marvel.config import Config
from marvel.data.core import Data
from marvel.fast import pack
from marvel.run import Run, environment


def synthetic(n: int) -> Data:
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=g)
    y = torch.randint(0, 10, (n,), generator=g)
    names = tuple(map(str, range(10)))
    return Data("synthetic", x, y, names, augment="crop-flip", mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26))


def measure(data: Data, config: Config, packed: int, seconds: float) -> dict[str, float]:
    """Steady images a second of `packed` runs side by side, and the seconds before it was steady."""
    began = time.perf_counter()
    runs = [Run(config.but(seed=k), data=data) for k in range(packed)]
    turns = pack(run.steps() for run in runs)
    ended = 0
    while ended < packed:  # one epoch each, past the capture and the last batch, whose size is another
        _, shown = next(turns)
        if isinstance(shown, Exception):
            raise shown
        ended += shown is not None
    synchronize(runs[0].device)
    built = time.perf_counter() - began
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(50 * packed):
            _, shown = next(turns)
            if isinstance(shown, Exception):
                raise shown
        steps += 50 * packed
        synchronize(runs[0].device)
    passed = time.perf_counter() - began
    return {"images_per_second": round(steps * config.batch / passed), "build_seconds": round(built, 1)}


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def rows(args: argparse.Namespace) -> Iterator[dict[str, object]]:
    data = synthetic(args.n)
    for network in args.networks.split(","):
        for ways in args.ways.split(","):
            for method in args.methods.split(","):
                for packed in map(int, args.packs.split(",")):
                    if ways == "plain" and packed > 1:
                        continue
                    config = Config(
                        data="synthetic",
                        network=network,
                        method=method,
                        epochs=10_000,
                        lr=0.01,
                        drops=(),
                        device=args.device,
                        batch=args.batch,
                        fast=ways != "plain",
                        compile=ways == "compiled",
                        precision=args.precision,
                        options={"warmup": 0, "wait": 8} if method.startswith("marvel") else {},
                    )
                    row: dict[str, object] = {"network": network, "way": ways, "method": method, "packed": packed}
                    yield row | measure(data, config, packed, args.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="resnet32,resnet18")
    parser.add_argument("--ways", default="plain,captured,compiled")
    parser.add_argument("--methods", default="ce,marvel,marvel+")
    parser.add_argument("--packs", default="1,2,4,8")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--n", type=int, default=12_800 + 80)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--out", default="throughput.json")
    args = parser.parse_args()
    found = []
    for row in rows(args):
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
        found.append(row)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with open(args.out, "w") as file:
        json.dump({"batch": args.batch, "rows": found, "environment": environment(device)}, file, indent=1)


if __name__ == "__main__":
    main()
