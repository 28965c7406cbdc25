"""Being asked to stop: by Ctrl-C, or by SIGTERM, which is how a cluster says that time is over."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def gently(said: str) -> Iterator[Callable[[], bool]]:
    """Whether to stop: the first signal asks for it, and `said` is printed; the second does not ask."""
    asked, ours = threading.Event(), os.getpid()

    def on_signal(number: int, frame: Any) -> None:
        if os.getpid() != ours:  # a worker that was forked from here: whoever started it ends it
            return
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        print(f"marvel: {said}; once more to stop at once", file=sys.stderr)

    if threading.current_thread() is not threading.main_thread():  # signals are not for other threads
        yield asked.is_set
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
