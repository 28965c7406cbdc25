"""A second copy of the history of decisions: decisions.jsonl, a line an entry, each with its checksum.

The database is what is asked. This is what it is checked against whenever it is opened, and what it is made from again
where it is damaged. A line is added after its entry is in the database, never before, so that an entry which only this
copy has is one that the database has lost.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
"""A line of the history as the database has it: its position comes first."""


class Journal:
    """The copy beside a database."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_suffix(".jsonl")
        self.end = 0
        """Up to where the file is known."""
        self.last = 0
        """The last position in it."""
        self.whole = True
        """Whether no line of it is damaged."""

    def read(self) -> dict[int, Row]:
        """The rows by position. Lines that are damaged, or were cut short by a crash, are left out."""
        self.end, self.last, self.whole = 0, 0, True
        return self._read_on()

    def behind(self) -> int:
        """Up to which position the file has what was decided, by whomever."""
        if self.path.exists() and self.path.stat().st_size < self.end:
            self.read()
        self._read_on()
        return self.last

    def _read_on(self) -> dict[int, Row]:
        content = b""
        if self.path.exists():
            with open(self.path, "rb") as file:
                file.seek(self.end)
                content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        lines = content.splitlines()
        found = {row[0]: row for row in map(_row_of, lines) if row is not None}
        self.whole = self.whole and len(found) == len(lines)
        self.end += len(content)
        self.last = max(self.last, *found) if found else self.last
        return found

    def add(self, rows: Sequence[Row]) -> None:
        """Add lines, in place of one that a crash cut short; nobody else does meanwhile."""
        if rows:
            with open(self.path, "ab") as file:
                file.truncate(self.end)
                file.write(b"".join(map(_line_of, rows)))
                file.flush()
                os.fsync(file.fileno())
            self._read_on()

    def write(self, rows: Sequence[Row]) -> None:
        """The whole of it anew."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with open(temporary, "wb") as file:
            file.write(b"".join(map(_line_of, rows)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        self.read()


def _line_of(row: Row) -> bytes:
    said = json.dumps(row, separators=(",", ":"))
    return f"[{said},{json.dumps(_sum(said))}]\n".encode()


def _row_of(line: bytes) -> Row | None:
    try:
        row, told = json.loads(line)
        whole = isinstance(row, list) and told == _sum(json.dumps(row, separators=(",", ":")))
        return tuple(row) if whole and isinstance(row[0], int) else None
    except (ValueError, TypeError, IndexError, RecursionError):
        return None


def _sum(said: str) -> str:
    return hashlib.sha256(said.encode()).hexdigest()[:16]
