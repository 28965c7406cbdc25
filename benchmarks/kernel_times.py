"""Where the time of a captured step goes, kernel by kernel, on a GPU.

python -m benchmarks.kernel_times resnet32 marvel+ --compile
"""

import argparse

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.problem import settings, synthetic
from marvel.run import Run

STEPS, FIRST, SHOWN = 10, 20, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("method")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda")
    run = Run(settings(args.method, args.network, device, compile=args.compile), data=synthetic(10_000))
    steps = run.steps()
    for _ in range(FIRST):
        next(steps)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(STEPS):
            next(steps)
        torch.cuda.synchronize()
    kernels = sorted(found.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    count = sum(kernel.count for kernel in kernels) / STEPS
    time = sum(kernel.self_device_time_total for kernel in kernels) / STEPS
    print(f"{args.network}, {args.method}: {count:.0f} kernels a step, {time / 1000:.2f} ms in them")
    for kernel in kernels[:SHOWN]:
        print(f"{kernel.self_device_time_total / STEPS:9.1f} us {kernel.count / STEPS:6.1f}  {kernel.key[:100]}")


if __name__ == "__main__":
    main()
