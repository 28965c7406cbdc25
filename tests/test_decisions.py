"""Decisions outlive what happens to the process, nobody overwrites another's, and the history says what happened."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from marvel.errors import FolderError, InvalidInput
from marvel.review.decisions import ACTIONS, LABELLED, Change, Decisions, Stale, read_decisions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.sqlite"


def test_what_counts_is_the_newest(path: Path) -> None:
    with Decisions(path) as decisions:
        decisions.decide([Change(7, "accept", 3)], "a")
        decisions.decide([Change(2, "keep")], "a")
        (entry,) = decisions.decide([Change(7, "choose", 5, version=1)], "a")
        assert (entry.version, entry.action, entry.label) == (2, "choose", 5)
        # While it is open, and after it is closed.
        assert {i: (d.action, d.label) for i, d in read_decisions(path).items()} == {
            7: ("choose", 5),
            2: ("keep", None),
        }
    assert {i: (d.action, d.label) for i, d in read_decisions(path).items()} == {7: ("choose", 5), 2: ("keep", None)}
    assert all(decision.index == index and decision.at for index, decision in read_decisions(path).items())


def test_no_file_is_no_decision_and_is_not_made(path: Path) -> None:
    assert read_decisions(path) == {}
    assert not path.exists()


def test_a_stale_write_is_told_what_is_there(path: Path) -> None:
    with Decisions(path) as one, Decisions(path) as other:
        one.decide([Change(1, "accept", 4)], "one")
        with pytest.raises(Stale) as told:
            other.decide([Change(0, "keep"), Change(1, "keep")], "other")
        assert [(entry.index, entry.action, entry.label, entry.who) for entry in told.value.now] == [
            (1, "accept", 4, "one")
        ]
        assert set(read_decisions(path)) == {1}, "all or none"
        other.decide([Change(1, "keep", version=told.value.now[0].version)], "other")
    assert read_decisions(path)[1].action == "keep"


def test_undo_goes_back_act_by_act(path: Path) -> None:
    with Decisions(path) as decisions:
        decisions.decide([Change(1, "accept", 4)], "me")
        decisions.decide([Change(1, "aside", version=1), Change(2, "keep")], "me")
        decisions.decide([Change(3, "keep")], "you")
        assert {entry.index: entry.action for entry in decisions.undo("me")} == {1: "accept", 2: None}
        assert set(read_decisions(path)) == {1, 3} and read_decisions(path)[1].label == 4
        assert [entry.action for entry in decisions.undo("me")] == [None]
        assert set(read_decisions(path)) == {3}
        assert decisions.undo("me") == []
        said = [(entry.version, entry.action, entry.who, entry.undoes is not None) for entry in decisions.history(1)]
        assert said == [
            (1, "accept", "me", False),
            (2, "aside", "me", False),
            (3, "accept", "me", True),
            (4, None, "me", True),
        ]
        decisions.decide([Change(1, "keep", version=4)], "me")
        assert read_decisions(path)[1].action == "keep"
        assert [entry.version for entry in decisions.undo("me")] == [6]


def test_undo_does_not_take_back_anothers(path: Path) -> None:
    with Decisions(path) as decisions:
        decisions.decide([Change(1, "accept", 4)], "me")
        decisions.decide([Change(1, "keep", version=1)], "you")
        with pytest.raises(Stale) as told:
            decisions.undo("me")
        assert told.value.now[0].who == "you"
        assert read_decisions(path)[1].action == "keep"
        decisions.undo("you")
        assert decisions.undo("me")[0].action is None
        decisions.decide([Change(2, "keep")], "me")
        decisions.decide([Change(2, "keep", version=1)], "you")
        with pytest.raises(Stale):
            decisions.undo("me")


def test_random_acts_against_a_plain_list_of_states(path: Path) -> None:
    """Undo restores the whole state before the act, whatever came before."""
    rng = random.Random(0)
    states: list[dict[int, tuple[str, int | None]]] = [{}]
    versions: dict[int, int] = {}
    with Decisions(path) as decisions:
        for _ in range(200):
            if rng.random() < 0.4:
                undone = decisions.undo("me")
                assert bool(undone) == (len(states) > 1)
                if undone:
                    states.pop()
                versions |= {entry.index: entry.version for entry in undone}
            else:
                changes = []
                for index in rng.sample(range(8), rng.randint(1, 4)):
                    action = rng.choice(list(ACTIONS))
                    label = rng.randrange(5) if action in LABELLED else None
                    changes.append(Change(index, action, label, versions.get(index, 0)))
                entries = decisions.decide(changes, "me")
                versions |= {entry.index: entry.version for entry in entries}
                states.append(states[-1] | {change.index: (change.action, change.label) for change in changes})
            assert {i: (d.action, d.label) for i, d in read_decisions(path).items()} == states[-1]


def test_since_hands_out_each_entry_once(path: Path) -> None:
    with Decisions(path) as decisions:
        seen = []
        position = 0
        for index in range(5):
            decisions.decide([Change(index, "keep"), Change(index + 10, "aside")], "a")
            new = decisions.since(position)
            position = new[-1].position
            seen += [entry.index for entry in new]
        assert seen == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14] and decisions.since(position) == []


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [Change(1, "delete")],
        [Change(1, "accept")],
        [Change(1, "keep", 3)],
        [Change(1, "keep"), Change(1, "aside")],
        [Change(1, "keep", version=2)],
    ],
)
def test_what_cannot_be_meant_is_refused(path: Path, changes: list[Change]) -> None:
    with Decisions(path) as decisions:
        with pytest.raises(InvalidInput):
            decisions.decide(changes, "a")
        assert decisions.since() == []


def test_the_history_cannot_be_rewritten(path: Path) -> None:
    with Decisions(path) as decisions:
        decisions.decide([Change(1, "keep")], "a")
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("UPDATE history SET action = 'aside'", "DELETE FROM history"):
            with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                connection.execute(statement)


def test_threads_never_lose_a_version(path: Path) -> None:
    """Eight at once on the same instance: each version is written by one of them, and every loser is told."""
    written, told = [], []
    with Decisions(path) as shared, Decisions(path) as apart:

        def insist(who: int) -> None:
            decisions = shared if who % 2 else apart
            for _ in range(10):
                version = max((entry.version for entry in decisions.now([0]).values()), default=0)
                try:
                    written.extend(decisions.decide([Change(0, "choose", who, version)], str(who)))
                except Stale as stale:
                    told.append(stale.now[0])

        threads = [threading.Thread(target=insist, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        history = shared.history(0)
    assert len(written) + len(told) == 80
    assert [entry.version for entry in history] == list(range(1, len(written) + 1))
    assert sorted(entry.position for entry in written) == [entry.position for entry in history]


KILLED = """
import sys
from marvel.review.decisions import Change, Decisions
decisions = Decisions(sys.argv[1])
for index in range(10**6):
    decisions.decide([Change(index, "accept", index % 10)], "a")
    print(index, flush=True)
"""


def test_nothing_is_lost_when_the_process_is_killed(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        for _ in range(40):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        last = max([last, *map(int, process.stdout.read().split())])
    assert process.wait() == -signal.SIGKILL
    found = read_decisions(path)
    # The one after the last that was said may have been written as well.
    assert list(found) in (list(range(last + 1)), list(range(last + 2)))
    assert all(decision.label == index % 10 for index, decision in found.items())
    with Decisions(path) as decisions:
        decisions.decide([Change(10**7, "keep")], "b")
    assert 10**7 in read_decisions(path)


def test_other_files_are_left_alone(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"not a database, but longer than a header" * 100)
    for attempt in (Decisions, read_decisions):
        with pytest.raises(FolderError, match="cannot be read"):
            attempt(path)
    foreign = tmp_path / "foreign.sqlite"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
        connection.commit()
    for attempt in (Decisions, read_decisions):
        with pytest.raises(FolderError, match="no file of decisions"):
            attempt(foreign)
    newer = tmp_path / "newer.sqlite"
    Decisions(newer).close()
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 9")
    for attempt in (Decisions, read_decisions):
        with pytest.raises(FolderError, match="another version"):
            attempt(newer)
    with pytest.raises(FolderError, match="cannot be opened"):
        Decisions(tmp_path / "nowhere" / "decisions.sqlite")


def test_decisions_belong_to_their_data(path: Path) -> None:
    Decisions(path, of="abc").close()
    Decisions(path, of="abc").close()
    with pytest.raises(FolderError, match="on other data"):
        Decisions(path, of="abd")
