"""What most people come for: a folder of wrong labels -> clean -> report -> review by keyboard -> export."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser import Tab, chromium
from shapes import SHAPES, plant

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def marvel(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "marvel", *words], capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def reviewing(run: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "marvel", "review", str(run), "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    with process.stdout:
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address
        try:
            yield address[0]
        finally:
            process.terminate()
            process.wait()


def judge(tab: Tab, truth: dict[str, str]) -> dict[str, str]:
    """Looks at every suspect as a person would who knows the shapes, and decides by keyboard; id -> key."""
    pressed: dict[str, str] = {}
    page = tab.page
    while True:
        tab.until(
            "(seen) => !document.getElementById('done').hidden"
            " || (document.getElementById('picture').naturalWidth > 0"
            " && !seen.includes(document.getElementById('id').textContent))",
            list(pressed),
            seconds=60,
        )
        if page.is_visible("#done"):
            return pressed
        name = page.text_content("#id")
        given, suggested = page.text_content("#given"), page.text_content("#suggested")
        right = truth[name]
        key = "a" if right == suggested else "k" if right == given else "c"
        page.keyboard.press(key)
        if key == "c":
            page.keyboard.type(right)
            page.keyboard.press("Enter")
        pressed[name] = key


def test_planted_errors_are_found_decided_and_fixed(tmp_path: Path) -> None:
    planted = plant(tmp_path / "shapes", 700, 0.1, size=32)
    truth = {name: SHAPES[label] for name, label in zip(planted.ids, planted.truth, strict=True)}
    wrong = {name for name in planted.ids if not name.startswith(f"{truth[name]}/")}
    (planted.folder / "star" / "cut short.png").write_bytes((planted.folder / planted.ids[0]).read_bytes()[:200])
    run, out = tmp_path / "run", tmp_path / "corrected"
    marvel("clean", str(planted.folder), "--out", str(run), "--device", "cpu", "--quiet")

    with chromium() as browser:
        # The report, opened and looked at.
        report = Tab(browser, offline=True)
        report.page.goto((run / "report.html").as_uri())
        assert report.errors == [] and report.fits()
        shown = report.page.locator(".card img").evaluate_all("(images) => images.map((image) => image.alt)")
        assert len(shown) == 60 or len(shown) >= 0.8 * len(wrong)
        assert sum(name in wrong for name in shown) >= 0.9 * len(shown)
        assert "star/cut short.png" in report.page.inner_text("#aside")
        report.close()

        # Every suspect, decided by keyboard.
        with reviewing(run) as address:
            tab = Tab(browser)
            tab.page.goto(address)
            pressed = judge(tab, truth)
            assert tab.page.text_content("#done-title") == f"All {len(pressed)} suspects are decided"
            assert tab.errors == []
            tab.close()
    with open(run / "issues.csv", newline="", encoding="utf-8") as file:
        assert [row["id"] for row in csv.DictReader(file)] == list(pressed), "in the order of the list"
    said: dict[str, Any] = json.loads(marvel("export", str(run), "--out", str(out), "--json"))

    # What was listed is right now, whatever it was before; nothing that was right has become wrong.
    found = wrong & set(pressed)
    assert len(found) >= 0.9 * len(wrong), "most planted errors were listed"
    assert said["changed"] == len(found)
    # Files keep their names, so that each can be told by the end of its path.
    written = list(out.rglob("*.png"))
    place = {path.stem.split(" ")[0]: path.parent.name for path in written}
    assert len(place) == len(written) == len(planted.ids)
    for name in planted.ids:
        folder = place[Path(name).stem]
        assert folder == (truth[name] if name in pressed or name not in wrong else name.split("/")[0]), name
    # The input is as it was.
    there = {path.relative_to(planted.folder).as_posix() for path in planted.folder.rglob("*.png")}
    assert there == {*planted.ids, "star/cut short.png"}
