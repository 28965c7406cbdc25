"""Killed at any moment, a command goes on to what it would have come to: bit for bit, but for times and the command.

`make soak` kills hundreds of times, and before every single operation on a file.
"""

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marvel.held import abandoned, alive, hold
from marvel.review.decisions import Decisions
from nursery import Nursery, environment
from soaking import NOTES, SHARE, note, seed, times

pytestmark = pytest.mark.timeout(300 if NOTES is None else 7200)
PROMISE = "A killed command goes on to the same result"
TRAINING = ["--epochs", "3", "--batch", "128", "--device", "cpu", "--quiet"]
GRID = """
title = "two runs"
settings = { data = "mine.npz", epochs = 2, batch = 64 }
grid = { method = ["ce", "marvel"] }
seeds = [0]
"""


@dataclass(frozen=True)
class Verb:
    """A command, what it needs, how it goes on, and where its result lies."""

    words: list[str]
    again: list[str]
    result: str
    needs: tuple[str, ...] = ("mine.npz",)

    def there(self, place: Path) -> dict[str, Any]:
        """All files of the result, less what depends on the clock or on how it was called."""
        files = [path for path in sorted((place / self.result).rglob("*")) if path.is_file()]
        return {str(path.relative_to(place)): timeless(path) for path in files}


TRAIN = ["train", "--data", "mine.npz", "--ledger", "--out", "run", *TRAINING]
CLEAN = ["clean", "mine.npz", "--ledger", "--out", "run", *TRAINING]
BENCH = ["bench", "grid.toml", "--results", "out/two.jsonl", "--runs", "out/runs", "--checkpoint-every", "1"]
BENCH += ["--width", "1", "--device", "cpu", "--quiet"]
EXPORT = ["export", "run", "--out", "new", "--accept-all"]
VERBS = {
    "train": Verb(TRAIN, [*TRAIN, "--resume"], "run"),
    "clean": Verb(CLEAN, [*CLEAN, "--resume"], "run"),
    "bench": Verb(BENCH, BENCH, "out", ("mine.npz", "grid.toml")),
    "export": Verb(EXPORT, EXPORT, "new", ("mine.npz", "run")),
}


def timeless(path: Path) -> Any:
    content = path.read_bytes()
    if path.suffix == ".json":
        return without_times(json.loads(content))
    if path.suffix == ".jsonl":
        return [without_times(json.loads(line)) for line in content.splitlines()]
    if path.suffix == ".html":
        return re.sub(rb"marvel (train|clean) [^<]*|[\d.,]+ (s|seconds)\b", b"", content)
    return content


def without_times(facts: Any) -> Any:
    if isinstance(facts, dict):
        return {k: without_times(v) for k, v in facts.items() if k not in ("seconds", "command", "sha256")}
    return [without_times(one) for one in facts] if isinstance(facts, list) else facts


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("nursery") / "log") as nursery:
        yield nursery


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Path:
    """What commands start from: arrays, a grid, and the run of an undisturbed `clean`."""
    place = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    truth = np.arange(1040) % 3
    x = 3 * rng.standard_normal((3, 6))[truth] + rng.standard_normal((len(truth), 6))
    given = np.where(rng.random(len(truth)) < 0.1, (truth + 1) % 3, truth)
    np.savez(place / "mine.npz", x=x.astype(np.float32), y=np.array(["ash", "birch", "cedar"])[given])
    (place / "grid.toml").write_text(GRID)
    done = nursery.run(VERBS["clean"].words, place)
    assert done.code == 0, done.said
    return place


def fresh(place: Path, inputs: Path, verb: Verb) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name in verb.needs:
        copy: Callable[[Path, Path], Any] = shutil.copytree if (inputs / name).is_dir() else shutil.copyfile
        copy(inputs / name, place / name)
    return place


def goes_on(nursery: Nursery, verb: Verb, place: Path, expected: dict[str, Any], how: str) -> None:
    """The command again, and what it comes to. A command that says it is done already has nothing to go on with."""
    if not (verb is VERBS["export"] and (place / verb.result).exists()):
        done = nursery.run(verb.again, place)
        assert done.code == 0, f"{how}: {done.said}"
    found = verb.there(place)
    assert found.keys() == expected.keys(), how
    differ = [name for name in expected if found[name] != expected[name]]
    assert not differ, f"{how}: {differ}"
    # Nothing half-written is left lying about.
    assert not list(place.rglob(".*.tmp")), how


def test_ten_kills_over_all_commands(inputs: Path, nursery: Nursery, tmp_path: Path) -> None:
    """One test, since beginning takes the time. The seed of a failure is in its message: MARVEL_SEED=... replays it."""
    started = seed()
    rng = random.Random(started)
    kills = 0
    for name, verb in VERBS.items():
        whole = nursery.run(verb.words, fresh(tmp_path / "place", inputs, verb))
        assert whole.code == 0, whole.said
        expected = verb.there(tmp_path / "place")
        for k in range(times(2, 50)):
            place = fresh(tmp_path / "place", inputs, verb)
            how = f"{name}, kill {k} of MARVEL_SEED={started}"
            # Killed again while it goes on, every other time.
            for words in (verb.words, verb.again)[: 1 + k % 2]:
                if not (verb is VERBS["export"] and (place / verb.result).exists()):
                    kills += nursery.kill(words, place, rng.uniform(0, 1.1 * whole.seconds)).code == -signal.SIGKILL
            goes_on(nursery, verb, place, expected, how)
    note(PROMISE, kills_at_random_moments=kills, seed=started)


@pytest.mark.skipif(NOTES is None, reason="takes minutes: make soak")
@pytest.mark.parametrize("name", VERBS)
def test_a_kill_before_each_operation_on_a_file(name: str, inputs: Path, nursery: Nursery, tmp_path: Path) -> None:
    verb = VERBS[name]
    whole = nursery.run(verb.words, fresh(tmp_path / "place", inputs, verb))
    expected = verb.there(tmp_path / "place")
    tried = range(1, whole.operations + 1, max(1, round(1 / SHARE)))
    for at in tried:
        place = fresh(tmp_path / "place", inputs, verb)
        killed = nursery.run(verb.words, place, at=at)
        # An import writes its compiled form the first time only.
        assert killed.code == -signal.SIGKILL or at > whole.operations - 5, (at, killed)
        goes_on(nursery, verb, place, expected, f"{name}, killed before operation {at} of {whole.operations}")
    note(PROMISE, kills_before_an_operation_on_a_file=len(tried), operations_on_files=whole.operations)


# ------------------------------------------------------------ review


class Reviewer:
    """`marvel review` in a process that can be killed, and somebody who decides."""

    def __init__(self, nursery: Nursery, place: Path) -> None:
        import httpx2 as httpx

        self.nursery = nursery
        self.pid = nursery.begin(["review", "run", "--no-open", "--json"], place)
        end = time.monotonic() + 30
        while (address := re.search(r"(http://127[\d.]+:\d+)/#token=([\w-]+)", nursery.said)) is None:
            assert time.monotonic() < end, nursery.said
            time.sleep(0.01)
        self.client = httpx.Client(base_url=address[1], headers={"x-marvel-token": address[2]}, timeout=30)

    def decide(self, index: int, version: int) -> None:
        """Keep the label, or set the instance aside, whichever is its turn."""
        action = ("keep", "aside")[(index + version) % 2]
        body = {"who": "me", "changes": [{"index": index, "action": action, "version": version}]}
        self.client.post("/api/decide", json=body).raise_for_status()

    def version(self, index: int) -> int:
        return len(self.client.get(f"/api/instances/{index}").json()["history"])

    def end(self, number: signal.Signals) -> int:
        os.kill(self.pid, number)
        self.client.close()
        return self.nursery.end().code


def history(path: Path) -> list[tuple[Any, ...]]:
    with Decisions(path) as decisions:
        return [(e.index, e.version, e.action, e.label, e.who, e.undoes) for e in decisions.since(0)]


def test_a_killed_review_loses_no_decision_that_was_answered(inputs: Path, nursery: Nursery, tmp_path: Path) -> None:
    import threading

    import httpx2 as httpx

    verb = Verb([], [], "run", ("mine.npz", "run"))
    wanted = [(index, version) for version in range(2) for index in range(times(10, 40))]
    place = fresh(tmp_path / "whole", inputs, verb)
    reviewer = Reviewer(nursery, place)
    began = time.monotonic()
    for index, version in wanted:
        reviewer.decide(index, version)
    seconds = time.monotonic() - began
    assert reviewer.end(signal.SIGINT) == 0
    expected = history(place / "run" / "decisions.sqlite")
    assert len(expected) == len(wanted)

    started = seed()
    rng = random.Random(started)
    kills, rounds = 0, times(1, 15)
    for k in range(rounds):
        place = fresh(tmp_path / "place", inputs, verb)
        answered = 0
        while answered < len(wanted):
            reviewer = Reviewer(nursery, place)
            # A decision that was written, and whose answer was lost, counts.
            index, version = wanted[answered]
            answered += reviewer.version(index) > version
            killer = threading.Timer(rng.uniform(0, seconds), os.kill, (reviewer.pid, signal.SIGKILL))
            killer.start()
            try:
                for index, version in wanted[answered:]:
                    reviewer.decide(index, version)
                    answered += 1
            except httpx.TransportError:
                kills += 1
            killer.cancel()
            killer.join()
            reviewer.end(signal.SIGKILL)
            how = f"round {k} of MARVEL_SEED={started}"
            known = history(place / "run" / "decisions.sqlite")
            assert known == expected[: len(known)] and len(known) in (answered, answered + 1), how
        assert history(place / "run" / "decisions.sqlite") == expected
    assert kills >= rounds // 2
    note(PROMISE, kills_of_a_review=kills, decisions_found_again=rounds * len(wanted), seed=started)


# ------------------------------------------------------------ two at once


def test_two_processes_do_not_work_in_one_folder(inputs: Path, nursery: Nursery, tmp_path: Path) -> None:
    """The second is told so at once; when the first has gone, however it went, the folder is free."""
    place = fresh(tmp_path / "place", inputs, VERBS["train"])
    assert nursery.run(VERBS["train"].words, place).code == 0
    before = VERBS["train"].there(place)
    held = hold(place / "run")
    refused = nursery.run(VERBS["train"].again, place)
    assert refused.code == 2 and "another process is at work in run" in refused.said, refused
    assert VERBS["train"].there(place) == before
    del held
    assert nursery.run(VERBS["train"].again, place).code == 0


def test_a_forked_reader_does_not_keep_the_folder(tmp_path: Path) -> None:
    held = hold(tmp_path)
    context = multiprocessing.get_context("fork")
    goes, told = context.Event(), context.Event()
    child = context.Process(target=lambda: (told.set(), goes.wait(60)), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this process has threads
        child.start()
    assert told.wait(60) and not abandoned(tmp_path)
    del held
    assert abandoned(tmp_path)
    goes.set()
    child.join()


BENCH_OF_ONE = """
import sys
from marvel.config import Config
from marvel.engines import Job, in_processes
if __name__ == "__main__":
    job = Job(Config(data="mine.npz", epochs=30000, batch=64, device="cpu"))
    for _ in in_processes(1)([job], lambda: False):
        import multiprocessing
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
"""


@pytest.mark.slow
def test_the_processes_of_a_killed_bench_end_with_it(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "bench_of_one.py").write_text(BENCH_OF_ONE)
    words = [sys.executable, str(tmp_path / "bench_of_one.py")]
    with subprocess.Popen(words, cwd=inputs, env=environment(), stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        worker = int(first.stdout.readline().split()[0])
        first.kill()
    end = time.monotonic() + 20
    while alive(worker):
        assert time.monotonic() < end
        time.sleep(0.05)
