"""Measuring on a machine that others use too: in turns, many times, and the median of it.

What is compared is measured in the same rounds, in an order that is reversed from round to round, so that a clock that
drifts or a neighbour that wakes up meets both sides. A ratio is the median of the rounds' own ratios.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

import torch

Samples = dict[str, list[float]]
"""What each job took, round by round."""


def in_turns(
    jobs: Mapping[str, Callable[[], float]], rounds: int, between: Callable[[], object] = lambda: None
) -> Samples:
    """Every job once a round; a job returns what it took. `between` runs after each round, unmeasured."""
    samples: Samples = {name: [] for name in jobs}
    order = list(jobs)
    gc.collect()
    gc.disable()  # a collection would fall on one job or the other by chance
    try:
        for _ in range(rounds):
            for name in order:
                samples[name].append(jobs[name]())
            order.reverse()
            between()
    finally:
        gc.enable()
    return samples


def processor(job: Callable[[], object], calls: int) -> float:
    """Seconds of the processor a call: what others take of it does not count. For one thread that waits for nothing."""
    began = time.process_time()
    for _ in range(calls):
        job()
    return (time.process_time() - began) / calls


def events(job: Callable[[], object], calls: int) -> float:
    """Seconds a call, between two events on the GPU."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()  # type: ignore[no-untyped-call]
    for _ in range(calls):
        job()
    end.record()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1000 / calls


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def quartiles(samples: list[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high


def ratios(mine: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """The middle of the rounds' ratios."""
    return middle([a / b for a, b in zip(mine, theirs, strict=True)])


def middle(samples: list[float]) -> tuple[float, float, float]:
    """The median, and the two samples that it lies between with 95% confidence, by their ranks."""
    ranked, n = sorted(samples), len(samples)
    first = max(0, int(n / 2 - 0.98 * n**0.5))
    return statistics.median(ranked), ranked[first], ranked[n - 1 - first]
