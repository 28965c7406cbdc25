"""Commands that can be killed at leisure: a process that has everything imported, and forks one `marvel` after another.

A trial then costs what the command itself does. A child can be told to kill itself just before its k-th operation on a
file, so that no place between two of them is left to luck; random moments are the caller's to choose.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
OPERATIONS = {
    *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"),
    *("shutil.copyfile", "sqlite3.connect"),
}
"""Python's audit events of what changes files; `open` counts where it is for writing."""


def environment() -> dict[str, str]:
    """Of a process that has this source tree, and one thread."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MARVEL_COMMIT": "none"}


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal that ended it."""

    code: int
    said: str
    operations: int
    seconds: float


class Nursery:
    """`with Nursery(log) as nursery: nursery.run(["train", ...], cwd)`."""

    def __init__(self, log: Path) -> None:
        self.log = log
        words, pipe = [sys.executable, __file__], subprocess.PIPE
        self.process = subprocess.Popen(words, env=environment(), stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def begin(self, words: Sequence[str], cwd: Path, at: int | None = None, limit: int | None = None) -> int:
        """Start a command; its process number. `at`: which operation it does not live to see; `limit`: the largest
        file it may write, in bytes."""
        self.began = time.monotonic()
        self._say({"words": list(words), "cwd": str(cwd), "log": str(self.log), "at": at, "limit": limit})
        return int(self._hear()["pid"])

    def end(self) -> Ended:
        """Wait for it. Its number stays its own until this is called, so that no other process is ever killed."""
        self._say({})
        heard = self._hear()
        return Ended(heard["code"], self.said, heard["operations"], time.monotonic() - self.began)

    @property
    def said(self) -> str:
        """What the command has printed so far, on both streams."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def run(self, words: Sequence[str], cwd: Path, at: int | None = None, limit: int | None = None) -> Ended:
        self.begin(words, cwd, at, limit)
        return self.end()

    def kill(self, words: Sequence[str], cwd: Path, after: float, number: signal.Signals = signal.SIGKILL) -> Ended:
        """Run it, and send it a signal after so many seconds; it may have ended by then."""
        pid = self.begin(words, cwd)
        time.sleep(after)
        os.kill(pid, number)
        return self.end()

    def _say(self, what: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the nursery has died"
        heard: dict[str, Any] = json.loads(line)
        return heard


# ------------------------------------------------------------ the process itself


def main() -> None:
    # What a command would import on the way, which takes ten times as long as these commands themselves.
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch._dynamo
    import torch.distributed  # noqa: F401
    import uvicorn  # noqa: F401

    import marvel.bench
    import marvel.clean
    import marvel.cli
    import marvel.data.arrays
    import marvel.export
    import marvel.report.page
    import marvel.review.server  # noqa: F401

    told = os.dup(1)
    count = mmap.mmap(-1, 8)
    for line in sys.stdin:
        asked = json.loads(line)
        log = os.open(asked["log"], os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND)
        count[:] = bytes(8)
        pid = os.fork()
        if pid == 0:
            _child(asked, log, count)
        os.write(told, (json.dumps({"pid": pid}) + "\n").encode())
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        os.close(log)
        ended = {"code": os.waitstatus_to_exitcode(status), "operations": int.from_bytes(count[:], "little")}
        os.write(told, (json.dumps(ended) + "\n").encode())


def _child(asked: dict[str, Any], log: int, count: mmap.mmap) -> None:
    from marvel.cli import main as marvel

    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(asked["cwd"])
        sys.argv = ["marvel", *asked["words"]]
        if asked["limit"] is not None:
            import resource

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (asked["limit"], asked["limit"]))
        _watch(asked["at"], count)
        marvel(asked["words"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _watch(at: int | None, count: mmap.mmap) -> None:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in OPERATIONS:
            return
        if event == "open":
            path, _, flags = arguments
            if not (flags & (os.O_WRONLY | os.O_RDWR)) or str(path).startswith("/dev/"):
                return
        number = int.from_bytes(count[:], "little") + 1
        count[:] = number.to_bytes(8, "little")
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
