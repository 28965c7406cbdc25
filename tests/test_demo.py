"""The demonstration, with few epochs: its numbers are its runs' own, and it writes over nobody else's files."""

import json
from pathlib import Path

import pytest

from marvel.cli import main
from marvel.demo import METHODS, NUMBERS, Demo, demo, settings
from marvel.errors import FolderError
from marvel.trainer import Epoch


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return demo(tmp_path_factory.mktemp("demo") / "demo", epochs=2)


def test_numbers_are_those_of_the_records(shown: Demo) -> None:
    for method in METHODS:
        record = json.loads((shown.folder / method / "record.json").read_bytes())
        assert record["config"]["method"] == method
        assert shown.rows()[method] == {key: record["final"][key] for key in NUMBERS}
    assert json.loads((shown.folder / "demo.json").read_bytes()) == shown.facts()


def test_the_picture_is_a_picture(shown: Demo) -> None:
    assert shown.picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_it_is_the_preset_of_digits(shown: Demo) -> None:
    config = settings("marvel")
    assert (config.noise, config.rate, config.batch, config.threads, config.options) == (
        *("symmetric", 0.4, 128, 1),
        {"wait": 4},
    )
    said = shown.records["marvel"]["config"]
    assert (said["network"], said["lr"], said["epochs"]) == ("cnn2", 0.01, 2)


def test_it_can_be_watched_and_run_again_and_keeps_what_is_not_its_own(shown: Demo) -> None:
    notes = shown.folder / "ce" / "notes.txt"
    notes.write_text("mine")
    seen: list[tuple[str, int]] = []

    def watch(method: str):  # type: ignore[no-untyped-def]
        def look(epoch: Epoch) -> None:
            seen.append((method, epoch.epoch))

        return look

    again = demo(shown.folder, epochs=1, watch=watch)
    assert seen == [(method, 1) for method in METHODS]
    assert len(again.records["ce"]["curves"]["test_accuracy"]) == 1
    assert notes.read_text() == "mine"


@pytest.mark.parametrize("name", ["ce/config.json", "curves.png", "demo.json"])
def test_it_does_not_touch_what_it_did_not_make(tmp_path: Path, name: str) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("{}")
    with pytest.raises(FolderError, match="was not made by the demo"):
        demo(tmp_path, epochs=1)
    assert mine.read_text() == "{}"


def test_the_verb_prints_the_runs_numbers(
    shown: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("marvel.demo.demo", lambda *_, **__: shown)
    with pytest.raises(SystemExit) as done:
        main(["demo"])
    out = capsys.readouterr().out
    assert not done.value.code
    for method in METHODS:
        assert f"{shown.records[method]['final']['test_accuracy']:.1%}" in out
    assert "curves.png" in out and "marvel train --help" in out
    with pytest.raises(SystemExit):
        main(["demo", "--json"])
    assert json.loads(capsys.readouterr().out) == shown.facts()
