"""What was decided about suspect labels: decisions.sqlite, a history that is only ever added to.

Each line of the history gives one instance its next version: accept the suggested label, keep the given one, choose
another, set the instance aside, or (no action) be undecided again. The newest line of an instance is what counts. Who
decides says which version they saw; if there is a newer one, nothing is written and they are told what it is. Undoing
adds a line as well. When `decide` returns, the decision is on the disk.

The file is checked against its copy (`journal`) when it is opened; damaged, it is made again from it.
"""

import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from marvel.errors import FolderError, InvalidInput, MarvelError
from marvel.review.journal import Journal, Row

ACTIONS = {
    "accept": "the suggested label is right",
    "keep": "the given label is right",
    "choose": "another label is right",
    "aside": "no label fits, or the instance should not be used",
}
LABELLED = ("accept", "choose")
"""Actions that say a label."""

APPLICATION = 0x4D41_5256
"""Marks our files: a file with another mark is not written to."""

SCHEMA = f"""
    CREATE TABLE history (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        instance INTEGER NOT NULL CHECK (instance >= 0),
        version INTEGER NOT NULL CHECK (version >= 1),
        action TEXT CHECK (action IN ({", ".join(f"'{action}'" for action in ACTIONS)})),
        label INTEGER CHECK ((label IS NOT NULL) = (action IS NOT NULL AND action IN {LABELLED})),
        at TEXT NOT NULL,
        who TEXT NOT NULL,
        act INTEGER NOT NULL,
        undoes INTEGER REFERENCES history (position),
        UNIQUE (instance, version)
    ) STRICT;
    CREATE INDEX by_who ON history (who, act);
    CREATE UNIQUE INDEX undone_once ON history (undoes) WHERE undoes IS NOT NULL;
    CREATE TRIGGER never_changed BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history is only added to'); END;
    CREATE TRIGGER never_removed BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'history is only added to'); END;
    CREATE TABLE run (fingerprint TEXT NOT NULL) STRICT;
    PRAGMA user_version = 1;
    PRAGMA application_id = {APPLICATION};
"""

COLUMNS = "position, instance, version, action, label, at, who, act, undoes"


@dataclass(frozen=True)
class Decision:
    """What counts for one instance. `label` is a class number for accept and choose, None otherwise."""

    index: int
    action: str
    label: int | None
    at: str


@dataclass(frozen=True)
class Change:
    """A decision to be written: `version` is the one it was made in view of, 0 where there was none."""

    index: int
    action: str
    label: int | None = None
    version: int = 0


@dataclass(frozen=True)
class Entry:
    """A line of the history. Without an action the instance is undecided again. `act` joins what was done at once."""

    position: int
    index: int
    version: int
    action: str | None
    label: int | None
    at: str
    who: str
    act: int
    undoes: int | None

    @property
    def decision(self) -> Decision | None:
        return None if self.action is None else Decision(self.index, self.action, self.label, self.at)


class Stale(MarvelError, RuntimeError):
    """Somebody else, or another tab, decided meanwhile; `now` is what they decided."""

    def __init__(self, now: Sequence[Entry]) -> None:
        some = ", ".join(str(entry.index) for entry in now[:5])
        super().__init__(f"decided elsewhere meanwhile: instance {some}{', ...' if len(now) > 5 else ''}")
        self.now = tuple(now)


class Decisions:
    """The decisions on one run, to be read and added to by several threads and processes at once.

    `of` is the fingerprint of the run's data: decisions on other data are refused.
    """

    def __init__(self, path: str | Path, of: str = "") -> None:
        self.path = Path(path)
        self.lock = threading.Lock()
        self.journal = Journal(self.path)
        self.restored: Path | None = None
        """Where the damaged file was put, where there was one."""
        try:
            self._open(of)
        except _Damaged as damage:
            self._restore(of, damage)

    def _open(self, of: str) -> None:
        existed = self.path.exists()
        try:
            self.connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise FolderError(f"{self.path} cannot be opened: {error}") from None
        try:
            _check(self.connection, self.path, fresh=True)
            self.connection.execute("PRAGMA journal_mode = WAL")
            # FULL: a decision outlives a power cut, not only a crash of ours.
            self.connection.execute("PRAGMA synchronous = FULL")
            self._begin(of)
            with _Transaction(self.connection):
                rows, copy = _rows(self.connection), self.journal.read()
                _compare(self.path, rows, copy)
                with suppress(OSError):
                    if not self.journal.whole or any(row[0] not in copy for row in rows if row[0] <= self.journal.last):
                        self.journal.write(rows)
                    self._mirror()
        except (sqlite3.Error, UnicodeError) as error:
            self.connection.close()
            said = f"{self.path} cannot be {'read' if existed else 'written'}: {error}"
            if existed and _is_damage(error):
                raise _Damaged(said) from None
            raise FolderError(said) from None
        except FolderError:
            self.connection.close()
            raise

    def _restore(self, of: str, damage: "_Damaged") -> None:
        """Put the damaged file aside, and make it again from its copy."""
        rows = self.journal.read()
        if not rows:
            raise FolderError(str(damage))
        self.restored = self.path.with_name(f"{self.path.stem}.damaged{self.path.suffix}")
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{self.restored}{suffix}")
        anew = Decisions(self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp"), of)
        with anew.lock, _Transaction(anew.connection):
            places = ", ".join("?" * len(COLUMNS.split(",")))
            anew.connection.executemany(
                f"INSERT INTO history ({COLUMNS}) VALUES ({places})", [rows[p] for p in sorted(rows)]
            )
        anew.connection.execute("PRAGMA journal_mode = DELETE")
        anew.close()
        anew.journal.path.unlink(missing_ok=True)
        os.replace(anew.path, self.path)
        self._open(of)

    def _mirror(self) -> None:
        """Bring the copy up to date; within a transaction, so that only one does."""
        self.journal.add(_rows(self.connection, after=self.journal.behind()))

    def _begin(self, of: str) -> None:
        """Make the tables where there are none; two processes may begin at once."""
        with _Transaction(self.connection):
            (version,) = self.connection.execute("PRAGMA user_version").fetchone()
            if not version:
                for statement in _statements(SCHEMA):
                    self.connection.execute(statement)
                self.connection.execute("INSERT INTO run VALUES (?)", (of,))
            _check_of(self.connection, self.path, of)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self.lock:
            self.connection.close()

    def decide(self, changes: Sequence[Change], who: str) -> list[Entry]:
        """Write these decisions, all or none, as one act that `undo` takes back as one."""
        for change in changes:
            if change.action not in ACTIONS:
                raise InvalidInput(f"an action is one of {', '.join(ACTIONS)}, given {change.action!r}")
            if (change.label is not None) != (change.action in LABELLED):
                raise InvalidInput(f"a label is said with {' and '.join(LABELLED)}, and only then; given {change}")
        if not changes or len({change.index for change in changes}) != len(changes):
            raise InvalidInput("decide about one or more instances, each of them once")
        with self.lock, _Transaction(self.connection):
            now = self._now([change.index for change in changes])
            newer = [now[c.index] for c in changes if c.index in now and now[c.index].version != c.version]
            if newer:
                raise Stale(newer)
            if ahead := [c.index for c in changes if c.index not in now and c.version != 0]:
                raise InvalidInput(f"instance {ahead[0]} has no version yet: its first decision is made in view of 0")
            rows = [(c.index, c.version + 1, c.action, c.label, None) for c in changes]
            added = self._add(rows, who)
        self._copy()
        return added

    def undo(self, who: str) -> list[Entry]:
        """Take back this person's last act that is not taken back yet; [] where there is none.

        Each instance returns to what it was before. `Stale` where somebody has decided about one of them since.
        """
        with self.lock, _Transaction(self.connection):
            (act,) = self.connection.execute(
                "SELECT max(act) FROM history WHERE who = ? AND undoes IS NULL"
                " AND position NOT IN (SELECT undoes FROM history WHERE undoes IS NOT NULL)",
                (who,),
            ).fetchone()
            if act is None:
                return []
            mine = self._entries("WHERE act = ?", (act,))
            now = self._now([entry.index for entry in mine])
            if newer := [now[entry.index] for entry in mine if not _still(entry, now[entry.index])]:
                raise Stale(newer)
            rows = []
            for entry in mine:
                before = self._entries("WHERE instance = ? AND version = ?", (entry.index, entry.version - 1))
                action, label = (before[0].action, before[0].label) if before else (None, None)
                rows.append((entry.index, now[entry.index].version + 1, action, label, entry.position))
            added = self._add(rows, who)
        self._copy()
        return added

    def _copy(self) -> None:
        """What is decided is decided: a copy that cannot be written now is brought up to date the next time."""
        with suppress(OSError, sqlite3.Error), self.lock, _Transaction(self.connection):
            self._mirror()

    def now(self, indices: Iterable[int]) -> dict[int, Entry]:
        """The newest entry of each of these instances that has one."""
        with self.lock:
            return self._now(indices)

    def since(self, position: int = 0) -> list[Entry]:
        """All that was added after that position, in order."""
        with self.lock:
            return self._entries("WHERE position > ? ORDER BY position", (position,))

    def history(self, index: int) -> list[Entry]:
        """All that was ever decided about an instance, oldest first."""
        with self.lock:
            return self._entries("WHERE instance = ? ORDER BY version", (index,))

    def _now(self, indices: Iterable[int]) -> dict[int, Entry]:
        newest = "WHERE instance = ? ORDER BY version DESC LIMIT 1"
        found = [entry for index in indices for entry in self._entries(newest, (index,))]
        return {entry.index: entry for entry in found}

    def _entries(self, where: str, values: tuple[int | str, ...]) -> list[Entry]:
        return [Entry(*row) for row in self.connection.execute(f"SELECT {COLUMNS} FROM history {where}", values)]

    def _add(self, rows: Sequence[tuple[int, int, str | None, int | None, int | None]], who: str) -> list[Entry]:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        (act,) = self.connection.execute("SELECT coalesce(max(position), 0) + 1 FROM history").fetchone()
        self.connection.executemany(
            "INSERT INTO history (instance, version, action, label, undoes, at, who, act)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(*row, at, who, act) for row in rows],
        )
        return self._entries("WHERE act = ? ORDER BY position", (act,))


def read_decisions(path: str | Path, of: str = "") -> dict[int, Decision]:
    """What counts now, by instance; none where there is no file. Nothing is written.

    `of` is the fingerprint of the run's data: decisions on other data are refused.
    """
    path = Path(path)
    if not path.exists():
        return {}
    copy = Journal(path).read()
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            _check(connection, path, fresh=False)
            _check_of(connection, path, of)
            rows = _rows(connection)
            _compare(path, rows, copy)
    except (sqlite3.Error, UnicodeError, _Damaged) as error:
        if not copy or (isinstance(error, sqlite3.Error) and not _is_damage(error)):
            raise FolderError(f"{path} cannot be read: {error}") from None
        rows = [copy[position] for position in sorted(copy)]
    newest: dict[int, Entry] = {}
    for entry in (Entry(*row) for row in rows):
        if entry.index not in newest or entry.version > newest[entry.index].version:
            newest[entry.index] = entry
    return {index: entry.decision for index, entry in sorted(newest.items()) if entry.decision is not None}


class _Damaged(FolderError):
    """The database is not what its copy says it was."""


def _is_damage(error: Exception) -> bool:
    """Whether it is the file's fault, and not that of the disk, of permissions or of another process."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF not in {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM),
    }


def _rows(connection: sqlite3.Connection, after: int = 0) -> list[Row]:
    wanted = f"SELECT {COLUMNS} FROM history WHERE position > ? ORDER BY position"
    return connection.execute(wanted, (after,)).fetchall()


def _compare(path: Path, rows: list[Row], copy: dict[int, Row]) -> None:
    known = {row[0]: row for row in rows}
    differ = [position for position, row in copy.items() if known.get(position) != row]
    if differ:
        raise _Damaged(f"{path} is damaged: {len(differ)} of its decisions are not those in {path.stem}.jsonl")


def _still(entry: Entry, now: Entry) -> bool:
    """Whether what `entry` decided still holds by it alone: nobody else has decided since, or they took it back."""
    return (entry.action, entry.label) == (now.action, now.label) and (entry.who == now.who or now.undoes is not None)


class _Transaction:
    """All or nothing, and nobody else writes meanwhile."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.execute("COMMIT" if kind is None else "ROLLBACK")


def _check(connection: sqlite3.Connection, path: Path, fresh: bool) -> None:
    """That the file is ours, and of a version we know; `fresh` allows one with nothing in it yet."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if fresh and not application and not version and not tables:
        return
    if application != APPLICATION:
        raise _Damaged(f"{path} is no file of decisions: move it away")
    if version != 1:
        raise FolderError(f"{path} was written by another version of Marvel (form {version}, known: 1)")
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise _Damaged(f"{path} is damaged: {said}")


def _check_of(connection: sqlite3.Connection, path: Path, of: str) -> None:
    """That the decisions are on the data with this fingerprint, where both are known."""
    (before,) = connection.execute("SELECT fingerprint FROM run").fetchone()
    if of and before and of != before:
        raise FolderError(f"{path} holds decisions on other data: move it away to begin anew")


def _statements(script: str) -> list[str]:
    """One by one: executescript() would end the transaction."""
    statements, rest = [], ""
    for part in script.split(";"):
        rest += part + ";"
        if sqlite3.complete_statement(rest):
            statements.append(rest)
            rest = ""
    return statements
