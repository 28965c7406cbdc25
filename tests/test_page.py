"""The report: it says what the run folder says, holds all it shows, and nothing in the data can become part of it."""

import csv
import json
import re
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as example
from hypothesis import strategies as st

from cleaned import EPOCHS, Pictures, Rows, write_cleaned
from marvel.errors import FolderError
from marvel.report import charts
from marvel.report.page import GALLERY, write_page
from marvel.runs import RunFolder, as_json, write_atomically
from shapes import SHAPES, Planted, plant
from soaking import note

HOSTILE = ("</title><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "{{ 7 * 7 }}", "<!--", "\u202eevil")


class Seen(HTMLParser):
    """The elements of a page with their attributes, the text of each, and its tables."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.inside: list[tuple[str, int]] = []
        self.tables: list[list[list[str]]] = []
        self.feed(page)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        self.elements.append((tag, attributes))
        kind = self.kind(tag, attributes)
        self.texts.setdefault(kind, []).append("")
        if tag not in ("meta", "link", "img", "br", "wbr"):
            self.open.append(tag)
            self.inside.append((kind, len(self.texts[kind]) - 1))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    @staticmethod
    def kind(tag: str, attributes: dict[str, str]) -> str:
        return f"{tag}.{attributes['class']}" if attributes.get("class") else tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (self.open, tag)
        self.open.pop()
        self.inside.pop()

    def handle_data(self, data: str) -> None:
        if "table" in self.open and ({"td", "th"} & set(self.open)):
            self.tables[-1][-1][-1] += data.strip()
        for kind, place in self.inside:
            self.texts[kind][place] += data

    def of(self, kind: str) -> list[str]:
        return [" ".join(text.split()) for text in self.texts.get(kind, [])]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("data") / "shapes", 300, 0.3, size=32)


@pytest.fixture
def folder(tmp_path: Path, planted: Planted) -> RunFolder:
    return write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids)


def issues(folder: RunFolder) -> list[dict[str, str]]:
    with open(folder.path / "issues.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def written(folder: RunFolder, instances: Any) -> Seen:
    path = write_page(folder, instances=instances)
    assert path == folder.path / "report.html"
    return Seen(path.read_text(encoding="utf-8"))


def test_it_says_what_the_run_folder_says(folder: RunFolder, planted: Planted) -> None:
    page, found, listed = written(folder, Pictures(planted)), folder.found, issues(folder)
    assert found is not None
    wrong = found["estimate"]["wrong"]
    (text,) = page.of("body")
    assert page.of("strong") == [f"{wrong['value']:.0f}"] and "of 300 labels look wrong" in text
    assert f"Between {wrong['low']:.0f} and {wrong['high']:.0f}, with 95% confidence" in text
    assert "Most of class 'moon' is removed (31 of 48): look at it." in text
    for one in found["set_aside"]:
        assert [one["id"], one["reason"]] in page.tables[-1]
    # Tables, from issues.csv alone.
    by_class = Counter(row["given"] for row in listed)
    shown = {row[0]: int(row[2]) for row in page.tables[0][1:]}
    assert shown == {name: by_class.get(name, 0) for name in SHAPES}
    pairs = Counter((row["given"], row["suggested"]) for row in listed)
    columns = page.tables[1][0][1:]
    cells = {
        (row[0], column): int(cell)
        for row in page.tables[1][1:]
        for column, cell in zip(columns, row[1:])
        if cell.isdigit()
    }
    assert cells == dict(pairs)
    # The gallery, in the order of issues.csv.
    assert page.of("bdi.label given")[: len(listed[:GALLERY])] == [row["given"] for row in listed[:GALLERY]]
    assert page.of("bdi.label suggested")[: len(listed[:GALLERY])] == [row["suggested"] for row in listed[:GALLERY]]
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    assert [picture["alt"] for picture in pictures] == [row["id"] for row in listed[:GALLERY]]
    assert "marvel clean shapes --out runs/shapes" in text and "fingerprint of the data" in text.lower()


def test_the_small_charts_are_of_the_ledger(folder: RunFolder, planted: Planted) -> None:
    page = written(folder, Pictures(planted))
    told = [attributes["aria-label"] for tag, attributes in page.elements if attributes.get("class") == "spark"]
    ledger = dict(folder.ledger())
    place = {name: k for k, name in enumerate(planted.ids)}
    canaries = {planted.ids[k] for k in np.flatnonzero(folder.instances()["canary"])}
    shown = [row for row in issues(folder)[:GALLERY] if row["id"] not in canaries]
    assert len(shown) == GALLERY - 1, "the one that is a canary has no chart"
    for row, said in zip(shown, told, strict=True):
        margins = [float(ledger[epoch]["margin"][place[row["id"]]]) for epoch in range(1, EPOCHS + 1)]
        numbers = [float(number) for number in re.findall(r"(?:first|last|lowest) (-?\d+\.\d)", said)]
        assert numbers == pytest.approx([margins[0], margins[-1], min(margins)], abs=0.06)
        assert (f"Removed in epoch {row['removed_at']}." in said) == (row["removed_at"] != "0")


def returning(folder: RunFolder, **more: Any) -> dict[str, Any]:
    """The folder as of a method that returns: three of the kept came back, and the most suspect was removed again."""
    columns = folder.instances()
    kept = np.flatnonzero((columns["removed_at"] == 0) & ~columns["canary"])[:3]
    again = int(np.argmin(np.where(columns["canary"], np.inf, columns["quality"])))
    returned_at = np.zeros(len(columns["given"]), dtype=np.int16)
    returned_at[kept], returned_at[again] = (12, 12, 20), columns["removed_at"][again] - 1
    folder.write_instances({**columns, "returned_at": returned_at, **more})
    return {"kept": kept, "again": again, "returned_at": returned_at, "removed_at": columns["removed_at"]}


def test_what_was_removed_and_returned_is_shown(folder: RunFolder, planted: Planted) -> None:
    before = folder.instances()
    told = returning(folder)
    page = written(folder, Pictures(planted))
    shown = dict(zip(page.of("dt"), page.of("dd")))
    assert shown["removed, and returned"] == "3"
    order = sorted(told["kept"], key=lambda i: (-before["wrong_probability"][i], before["label_quality"][i]))
    pictures = [a["alt"] for tag, a in page.elements if tag == "img"]
    assert pictures[GALLERY:] == [planted.ids[i] for i in order], "a gallery of their own, the most suspect first"
    sparks = [a["aria-label"] for _, a in page.elements if a.get("class") == "spark"]
    assert [f"Returned in epoch {told['returned_at'][i]}." in said for i, said in zip(order, sparks[-3:])] == [True] * 3
    epoch = told["removed_at"][told["again"]]
    assert sum(f"Returned in epoch {epoch - 1}. Removed again in epoch {epoch}." in said for said in sparks) == 1
    assert len([a for tag, a in page.elements if tag == "circle" and a.get("class") == "returned"]) == 4
    labels = [a.get("aria-label", "") for _, a in page.elements]
    assert "3 instances were returned in all, most of them (2) in epoch 12." in labels
    assert "Guesses for what was removed" not in page.of("h3")  # nobody knows how many are right


def test_one_that_was_returned_is_said_as_one(folder: RunFolder, planted: Planted) -> None:
    returned_at = returning(folder)["returned_at"]
    folder.write_instances({**folder.instances(), "returned_at": np.where(returned_at == 20, 20, 0)})
    labels = [a.get("aria-label", "") for _, a in written(folder, Pictures(planted)).elements]
    assert "1 instance was returned, in epoch 20." in labels


def test_how_right_guesses_are_is_said_where_that_is_known(folder: RunFolder, planted: Planted) -> None:
    returning(folder, clean=planted.truth)
    record = folder.record
    assert record is not None
    record["final"] |= {"suggestion_accuracy": 0.875}
    record["curves"]["suggestion_accuracy"] = [None] * 10 + [0.5] * 13 + [0.875]
    folder.record = record
    page = written(folder, Pictures(planted))
    assert dict(zip(page.of("dt"), page.of("dd")))["of the wrong found, suggestion right"] == "88%"
    assert "Guesses for what was removed" in page.of("h3")


def test_of_a_method_that_removes_for_good_no_return_is_spoken_of(folder: RunFolder, planted: Planted) -> None:
    (text,) = written(folder, Pictures(planted)).of("body")
    assert "return" not in text and "guess" not in text.lower()


def test_it_needs_nothing_from_outside(folder: RunFolder, planted: Planted) -> None:
    page = written(folder, Pictures(planted))
    content = (folder.path / "report.html").read_text(encoding="utf-8")
    assert not [tag for tag, _ in page.elements if tag in ("script", "iframe", "object", "base", "form")]
    for tag, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on")]
        for key in ("src", "href", "action", "srcset", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (tag, attributes)
    assert "url(" not in content and "@import" not in content
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "script-src" not in policy
    assert len(content) < 5_000_000
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert {a["href"][1:] for tag, a in page.elements if tag == "a"} <= targets


def test_names_cannot_become_part_of_the_page(tmp_path: Path) -> None:
    n, classes = 200, HOSTILE
    truth = np.arange(n) % len(classes)
    given = np.where(np.arange(n) % 4 == 0, (truth + 1) % len(classes), truth)
    ids = [f"{classes[label]}/{k}.png\udcff" for k, label in enumerate(given)]
    folder = write_cleaned(tmp_path / "run<b>", given, truth, [name.replace("\udcff", "") for name in ids], classes)
    found = folder.found
    assert found is not None
    found["set_aside"] = [{"id": HOSTILE[0], "reason": HOSTILE[1]}]
    found["warnings"] = list(HOSTILE)
    folder.found = found
    page = written(folder, Rows())
    assert not [tag for tag, _ in page.elements if tag in ("script", "img", "b")]
    assert set(page.of("bdi.label given")) <= {" ".join(name.split()) for name in classes}
    assert "{{ 7 * 7 }}" in page.of("bdi.label given")
    assert "<b>red</b>" in page.of("bdi")
    assert any("run<b>" in text for text in page.of("code"))


def test_a_page_can_hold_names_that_are_no_text(folder: RunFolder) -> None:
    class Odd(Rows):
        def fields(self, index: int) -> dict[str, str]:
            return {"name": "caf\udce9"}

    assert "caf\\udce9" in write_page(folder, instances=Odd()).read_text(encoding="utf-8")  # type: ignore[arg-type]


def test_heavy_pictures_are_made_light(folder: RunFolder, planted: Planted) -> None:
    import io

    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 255, (700, 500, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")

    class Heavy(Pictures):
        def picture(self, index: int, largest: int = 512) -> bytes | None:
            return (file.getvalue(), b"no picture", None)[index % 3]

    assert len(file.getvalue()) > 500_000
    page = written(folder, Heavy(planted))
    pictures = [attributes["src"] for tag, attributes in page.elements if tag == "img"]
    assert pictures and all(picture.startswith("data:image/jpeg;base64,") for picture in pictures)
    assert (folder.path / "report.html").stat().st_size < 5_000_000


def test_without_an_estimate_none_is_claimed(tmp_path: Path, planted: Planted) -> None:
    folder = write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids, estimate=False)
    page = written(folder, Rows())
    text = " ".join(page.of("p.lead"))
    assert "is not estimated" in text and "confidence" not in text
    assert page.of("strong") == [str(len(issues(folder)))]
    assert not any("likely wrong" in text for text in page.of("span.odds"))
    assert all(text.startswith("quality ") for text in page.of("span.odds"))


def test_nothing_found_is_said(tmp_path: Path, planted: Planted) -> None:
    first = slice(0, 60)
    folder = write_cleaned(
        tmp_path / "run", planted.truth[first], planted.truth[first], planted.ids[first], estimate=False
    )
    assert issues(folder) == []
    page = written(folder, Pictures(planted))
    assert "No label looks wrong." in page.of("p.lead")


def test_an_empty_list_does_not_unsay_the_estimate(tmp_path: Path, planted: Planted) -> None:
    """--precision 1 lists nothing where no label is certain to be wrong; some are wrong all the same."""
    first = slice(0, 60)
    folder = write_cleaned(
        tmp_path / "run", planted.truth[first], planted.truth[first], planted.ids[first], estimate=False
    )
    found, rest = folder.found, {"precision": None, "recall": 0.0, "cut_off": None, "model": "In words."}
    assert issues(folder) == [] and found is not None
    for value, said in ((12.0, "None is listed"), (0.0, "No label looks wrong.")):
        wrong = {"value": value, "low": 0.0, "high": 20.0, "level": 0.9}
        folder.found = {**found, "canaries": 60, "estimate": {"wrong": wrong, **rest}}
        lead = written(folder, Pictures(planted)).of("p.lead")
        assert any(words.startswith(said) for words in lead)
        assert ("No label looks wrong." in lead) == (value == 0)


def test_a_plain_run_has_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from marvel.cli import main
    from marvel.config import Config
    from marvel.run import train

    train(
        Config(data="digits", noise="symmetric", rate=0.3, epochs=4, ledger=True, options={"wait": 2}), tmp_path / "a"
    )
    train(Config(data="digits", method="ce", epochs=2), tmp_path / "b")
    for name in "ab":
        with pytest.raises(SystemExit) as done:
            main(["report", str(tmp_path / name), "--json"])
        assert not done.value.code
        said = json.loads(capsys.readouterr().out)
        page = Seen(Path(said["report"]).read_text(encoding="utf-8"))
        assert len(page.of("span.odds")) == GALLERY
        columns = RunFolder(tmp_path / name).instances()
        removed = int((columns["removed_at"] > 0).sum())
        assert (page.of("strong") == [f"{removed}"]) == (name == "a")
        sparks = [a for _, a in page.elements if a.get("class") == "spark"]
        assert len(sparks) == (GALLERY if name == "a" else 0)
        if name == "a":
            assert sum(int(cell) for row in page.tables[1][1:] for cell in row[1:] if cell.isdigit()) == removed


@pytest.mark.parametrize("missing", ["config.json", "record.json", "instances.parquet"])
def test_a_folder_without_a_finished_run_is_refused(folder: RunFolder, missing: str) -> None:
    (folder.path / missing).unlink()
    with pytest.raises(FolderError, match="no finished run|has not finished"):
        write_page(folder, instances=Rows())  # type: ignore[arg-type]


def test_a_clean_file_of_another_form_is_refused(folder: RunFolder) -> None:
    write_atomically(folder.path / "clean.json", as_json({"found": {}}))
    with pytest.raises(FolderError, match="of this version"):
        write_page(folder, instances=Rows())  # type: ignore[arg-type]


# ------------------------------------------------------------ colours


def contrast(one: str, other: str) -> float:
    """WCAG's, of two colours as #rrggbb."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_can_be_read_on_its_background_in_light_and_dark() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#ffffff") == pytest.approx(
        4.48, abs=0.01
    )
    package = Path(charts.__file__).parent.parent
    shared = (package / "report" / "templates" / "colours.css").read_text()
    own = (package / "review" / "page" / "review.css").read_text()
    schemes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", shared.partition("@media")[0] + own.partition("@media")[0])),
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", shared.partition("@media")[2] + own.split("@media")[1])),
    ]
    assert schemes[0].keys() == schemes[1].keys() and len(schemes[0]) > 15
    for colours in schemes:
        for text, backs in {
            "ink": ("paper", "panel", "stage"),
            "muted": ("paper", "panel", "stage"),
            "given": ("paper", "given-soft"),
            "suggested": ("paper", "suggested-soft"),
            "chosen": ("paper", "chosen-soft"),
            "warn": ("warn-soft",),
        }.items():
            for back in backs:
                assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
        # Lines and bars need less.
        for fill in ("given-fill", "suggested-fill"):
            assert contrast(colours[fill], colours["paper"]) >= 3, fill


# ------------------------------------------------------------ many instances


@pytest.mark.slow
def test_a_million_instances(tmp_path: Path) -> None:
    n, k = 1_000_000, 1000
    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    given = np.where(rng.random(n) < 0.05, rng.integers(0, k, n), truth)
    classes = [f"class {c}" for c in range(k)]
    folder = write_cleaned(tmp_path / "run", given, truth, [f"{c}/{i}.png" for i, c in enumerate(given)], classes)
    began = time.monotonic()
    path = write_page(folder, instances=Rows())  # type: ignore[arg-type]
    seconds = time.monotonic() - began
    assert seconds < 30
    note("A run of a million instances is shown", slowest_seconds_of_a_report=seconds)
    assert path.stat().st_size < 1_000_000


# ------------------------------------------------------------ charts


@example(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_round_even_and_inside(low: float, span: float, about: int) -> None:
    scale = charts.Scale(low, low + span, 0, 100)
    ticks = scale.ticks(about)
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    steps = np.diff(ticks)
    assert about // 2 <= len(ticks) <= 1.5 * about + 1
    if len(steps):
        assert np.allclose(steps, steps[0], rtol=1e-4)
        leading = steps[0] / 10 ** np.floor(np.log10(steps[0]) + 1e-9)
        assert min(abs(leading - step) for step in (1, 2, 5, 10)) < 1e-3


def test_bars_are_as_high_as_their_counts() -> None:
    svg = Seen(str(charts.bars([0, 3, 0, 9, 6], "told")))
    heights = [float(attributes["height"]) for tag, attributes in svg.elements if tag == "rect"]
    assert heights == pytest.approx([heights[1] / 3, heights[1], heights[1] * 2 / 3], abs=0.15)
    assert svg.of("title") == ["epoch 2: 3", "epoch 4: 9", "epoch 5: 6"]


def test_a_line_is_parted_where_nothing_is_known() -> None:
    svg = Seen(str(charts.curves({"learned": [0.1, 0.2, None, 0.4, None]}, "told")))
    assert len([a for tag, a in svg.elements if tag == "path"]) == 2


def test_charts_of_hardly_anything() -> None:
    for chart in (
        charts.curves({"learned": [0.5]}, ""),
        charts.fan([None, None], ""),
        charts.bars([0], ""),
        charts.spark([None, None], "", 1),
        charts.spark([0.0], "", 1),
        charts.histogram([0.0, 1.0], {"given": [0], "rest": [0]}, "", ""),
        charts.interval(0, 0, 0, 0, ""),
    ):
        assert not re.search(r"nan|inf", str(chart))
        Seen(str(chart))
