"""Being asked to stop: by Ctrl-C, or by SIGTERM, which is how a cluster says that time is over."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def gently(said: str) -> Iterator[Callable[[], bool]]:
    """Whether to stop: the first signal asks for it, and `said` is printed; the second does not ask.

    A stop that comes of it is told to whoever handled that signal before: the command ends with another exit code after
    SIGTERM than after Ctrl-C.
    """
    asked: list[signal.Signals] = []
    ours = os.getpid()

    def stop() -> bool:
        return bool(asked)

    def on_signal(number: int, frame: Any) -> None:
        if os.getpid() != ours:  # a worker that was forked from here: whoever started it ends it
            return
        asked.append(signal.Signals(number))
        if len(asked) > 1:
            raise KeyboardInterrupt
        print(f"marvel: {said}; once more to stop at once", file=sys.stderr)

    if threading.current_thread() is not threading.main_thread():  # signals are not for other threads
        yield stop
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except KeyboardInterrupt:
        handler = before[asked[-1]] if asked else None
        if callable(handler):
            with suppress(KeyboardInterrupt):  # it is on its way already, and may say more
                handler(asked[-1], None)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
