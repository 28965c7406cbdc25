"""The report and the review page in a real browser, used as a person uses them."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import LAPTOP, PHONE, Tab, chromium, faint, nameless, skipped, small
from cleaned import Pictures, Rows, write_cleaned
from marvel.report.page import write_page
from marvel.review.decisions import Decisions, read_decisions
from marvel.review.server import address, create_app, listen, new_token
from marvel.runs import RunFolder
from shapes import SHAPES, Planted, plant

pytestmark = pytest.mark.browser

PATIENCE = 20_000
HOSTILE = ("<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "&lt;b&gt;", *SHAPES[3:])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("data") / "shapes", 80, 0.3, size=32)


@pytest.fixture
def folder(tmp_path: Path, planted: Planted) -> RunFolder:
    return write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids)


Serve = Callable[..., str]


@pytest.fixture
def serve(planted: Planted) -> Iterator[Serve]:
    """Serves the review of a folder; gives its address."""
    import uvicorn

    stops: list[Callable[[], None]] = []

    def start(folder: RunFolder, instances: Any = None) -> str:
        decisions, token, listener = Decisions(folder.decisions_file), new_token(), listen()
        app = create_app(folder, decisions, instances or Pictures(planted), token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join()
            listener.close()
            decisions.close()

        stops.append(stop)
        start.stop = stop  # type: ignore[attr-defined]
        return address(listener, token)

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def tab(browser: Any) -> Iterator[Callable[..., Tab]]:
    tabs: list[Tab] = []

    def open_tab(url: str, *arguments: Any, **options: Any) -> Tab:
        tabs.append(Tab(browser, *arguments, **options))
        tabs[-1].page.set_default_timeout(PATIENCE)
        tabs[-1].page.goto(url)
        return tabs[-1]

    yield open_tab
    for one in tabs:
        one.close()


def shown(tab: Tab) -> str:
    """Waits until an instance is there with its picture; its id. A page that is loaded anew has none for a moment."""
    tab.until("document.getElementById('picture')?.naturalWidth > 0")
    return str(tab.page.inner_text("#id"))


def press(tab: Tab, key: str) -> None:
    """Press a key and wait until another instance is shown, or the end."""
    before = tab.page.inner_text("#count")
    tab.page.keyboard.press(key)
    tab.until("(before) => document.getElementById('count').innerText !== before", before)
    settle(tab)


def settle(tab: Tab) -> None:
    tab.until(
        "!document.getElementById('done').hidden || !document.getElementById('grid').hidden"
        " || (document.getElementById('state').hidden && document.getElementById('picture').naturalWidth > 0)"
    )


def by_id(folder: RunFolder, planted: Planted) -> dict[str, tuple[str, str | None]]:
    """id -> (action, name of the label)"""
    found = read_decisions(folder.decisions_file)
    return {planted.ids[i]: (d.action, None if d.label is None else SHAPES[d.label]) for i, d in found.items()}


# ------------------------------------------------------------ the report


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_offline(
    folder: RunFolder, planted: Planted, tab: Callable[..., Tab], size: tuple[int, int], scheme: str
) -> None:
    path = write_page(folder, instances=Pictures(planted))  # type: ignore[arg-type]
    one = tab(path.as_uri(), size, scheme, offline=True)
    assert one.errors == []
    assert [url for url in one.requests if not url.startswith("data:")] == [path.as_uri()]
    assert one.fits()
    loaded = one.page.evaluate("[...document.images].map((image) => image.complete && image.naturalWidth > 0)")
    assert loaded and all(loaded)
    back = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back))) < 384) == (scheme == "dark")


def test_the_report_is_printed_light(folder: RunFolder, planted: Planted, tab: Callable[..., Tab]) -> None:
    path = write_page(folder, instances=Pictures(planted))  # type: ignore[arg-type]
    one = tab(path.as_uri(), (680, 960), "dark")
    one.page.emulate_media(media="print", color_scheme="dark")
    assert one.fits()
    ink = one.page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert sum(map(int, re.findall(r"\d+", ink))) < 200
    assert one.page.pdf(format="A4").startswith(b"%PDF")


def test_hostile_names_in_the_report(tmp_path: Path, planted: Planted, tab: Callable[..., Tab]) -> None:
    folder = write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids, HOSTILE)
    one = tab(write_page(folder, instances=Rows()).as_uri())  # type: ignore[arg-type]
    assert one.errors == []
    assert one.page.evaluate("document.scripts.length + document.images.length") == 0


# ------------------------------------------------------------ reviewing


def test_review_by_keyboard(folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]) -> None:
    one = tab(serve(folder))
    first = shown(one)
    assert "token" not in one.page.url
    listed = int(one.page.get_attribute("#track", "aria-valuemax"))
    suggestion = one.page.inner_text("#suggested")
    press(one, "a")
    second = shown(one)
    given = one.page.inner_text("#given")
    press(one, "k")
    third = shown(one)
    other = next(
        name for name in SHAPES if name not in (one.page.inner_text("#given"), one.page.inner_text("#suggested"))
    )
    one.page.keyboard.press("c")
    one.page.keyboard.type(other[:4])
    press(one, "Enter")
    fourth = shown(one)
    press(one, "x")
    fifth = shown(one)
    expected = {
        first: ("accept", suggestion),
        second: ("keep", None),
        third: ("choose", other),
        fourth: ("aside", None),
    }
    assert by_id(folder, planted) == expected
    assert given == SHAPES[planted.given[planted.ids.index(second)]]
    assert len({first, second, third, fourth, fifth}) == 5

    one.page.keyboard.press("u")
    one.until("(id) => document.getElementById('id').innerText === id", fourth)
    assert by_id(folder, planted) == {key: value for key, value in expected.items() if key != fourth}
    # Back to one that is decided: it is said, and can be decided anew.
    one.page.keyboard.press("ArrowLeft")
    one.until("(id) => document.getElementById('id').innerText === id", third)
    assert one.page.inner_text("#state") == f"chosen {other}"
    one.page.keyboard.press("k")
    one.until("(id) => document.getElementById('id').innerText === id", fourth)
    assert by_id(folder, planted)[third] == ("keep", None)

    for _ in range(listed - 3):
        press(one, "a")
    assert one.page.inner_text("#done-title") == f"All {listed} suspects are decided"
    assert one.page.inner_text("#command") == f"marvel export {folder.path} --out corrected"
    assert len(by_id(folder, planted)) == listed
    assert one.errors == [] and one.fits()


def test_keys_that_are_held_or_meant_for_the_browser_decide_nothing(
    folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]
) -> None:
    one = tab(serve(folder))
    shown(one)
    held = "window.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', repeat: true}))"
    one.page.evaluate(held)
    one.page.keyboard.press("Control+a")
    one.page.keyboard.press("c")
    one.page.keyboard.press("Enter")  # nothing was typed, so nothing is chosen
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("f")
    one.page.keyboard.press("k")  # goes to the filter, not to the page below it
    one.page.keyboard.press("Escape")
    one.page.wait_for_timeout(300)
    assert by_id(folder, planted) == {}
    assert one.page.inner_text("#count").startswith("0 of")


def test_a_class_is_found_by_what_is_typed(folder: RunFolder, serve: Serve, tab: Callable[..., Tab]) -> None:
    """The name itself first, then what begins with it, a word that does, what holds it, its letters in order."""
    one = tab(serve(folder))
    names = ["concatenate", "house cat", "cat", "cattle", "c-a-t", "dog", "Catfish"]
    ask = "([names, typed, recent]) => import('/chooser.js').then((m) => m.matches(names, typed, recent))"
    found = one.page.evaluate(ask, [names, "cat", []])
    assert [names[k] for k in found] == ["cat", "cattle", "Catfish", "house cat", "concatenate", "c-a-t"]
    assert one.page.evaluate(ask, [names, "", [5, 2]]) == [5, 2, 0, 1, 3, 4, 6]
    assert one.page.evaluate(ask, [names, "zebra", []]) == []


def test_pictures_are_there_before_they_are_asked_for(folder: RunFolder, serve: Serve, tab: Callable[..., Tab]) -> None:
    one = tab(serve(folder))
    shown(one)
    one.page.wait_for_load_state("networkidle")
    asked = {url for url in one.requests if "/api/pictures/" in url}
    assert len(asked) >= 6
    one.page.keyboard.press("ArrowRight")
    one.until("document.getElementById('rank').innerText.startsWith('2 of')")
    one.page.wait_for_load_state("networkidle")
    index = one.page.evaluate("document.getElementById('picture').src")
    assert index.startswith("blob:")
    again = [url for url in one.requests if "/api/pictures/" in url]
    assert len(again) == len(set(again)), "no picture is fetched twice"


def test_two_tabs_do_not_overwrite_each_other(
    folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]
) -> None:
    url = serve(folder)
    one, other = tab(url), None
    other = one.another()
    other.page.set_default_timeout(PATIENCE)
    other.page.goto(url.split("#")[0])  # the token is the window's
    name = shown(one)
    assert shown(other) == name
    other.page.route("**/api/changes*", lambda route: route.abort())  # so that it does not hear of it
    press(one, "k")
    other.page.keyboard.press("a")
    other.page.wait_for_selector("#conflict[open]")
    said = other.page.inner_text("#conflict-text")
    assert f"kept {SHAPES[planted.given[planted.ids.index(name)]]}" in said and "not saved" in said
    assert by_id(folder, planted)[name] == ("keep", None)
    other.page.keyboard.press("Enter")  # the safe answer is in focus
    other.page.wait_for_selector("#conflict", state="hidden")
    assert by_id(folder, planted)[name] == ("keep", None)
    assert other.page.inner_text("#state").startswith("kept")
    other.page.reload()

    # Again, and now mine replaces it.
    name = shown(one)
    assert shown(other) == name
    suggestion = other.page.inner_text("#suggested")
    press(one, "x")
    other.page.keyboard.press("a")
    other.page.click("#replace")
    other.until("(id) => document.getElementById('id').innerText !== id", name)
    assert by_id(folder, planted)[name] == ("accept", suggestion)
    # Undo is of one's own: the first tab cannot take that back.
    one.page.keyboard.press("u")
    one.page.wait_for_selector("#notice.lasting")
    assert "in another tab" in one.page.inner_text("#notice")
    assert by_id(folder, planted)[name] == ("accept", suggestion)


def test_a_tab_hears_of_what_others_decide(folder: RunFolder, serve: Serve, tab: Callable[..., Tab]) -> None:
    url = serve(folder)
    one, other = tab(url), tab(url)
    shown(one), shown(other)
    press(one, "k")
    other.until("document.getElementById('count').innerText.startsWith('1 of')")
    assert other.page.inner_text("#state").startswith("kept")


def test_the_grid(folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]) -> None:
    one = tab(serve(folder))
    shown(one)
    one.page.keyboard.press("g")
    one.until("document.querySelectorAll('.card img[src]').length > 5")
    for key in ("Space", "ArrowRight", "ArrowRight", "Space", "ArrowDown", "Space"):
        one.page.keyboard.press(key)
    assert one.page.inner_text("#grid-count") == "3 instances selected"
    chosen = one.page.evaluate(
        "[...document.querySelectorAll('.card.selected')].map((card) => Number(card.dataset.index))"
    )
    press(one, "x")
    assert by_id(folder, planted) == {planted.ids[index]: ("aside", None) for index in chosen}
    press(one, "u")
    assert by_id(folder, planted) == {}
    # Without a selection a key is for the one in focus; Enter looks at it.
    one.page.keyboard.press("ArrowRight")
    focus = one.page.evaluate("Number(document.activeElement.dataset.index)")
    press(one, "k")
    assert by_id(folder, planted) == {planted.ids[focus]: ("keep", None)}
    now = one.page.evaluate("Number(document.activeElement.dataset.index)")
    one.page.keyboard.press("Enter")
    one.until("(id) => document.getElementById('id').innerText === id", planted.ids[now])
    # All of a page, at once.
    one.page.keyboard.press("g")
    one.page.click("#select-all")
    press(one, "a")
    assert {action for action, _ in by_id(folder, planted).values()} == {"accept", "keep"}
    assert one.page.inner_text("#done-title").startswith("All ")
    assert one.errors == []


def test_filters(folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]) -> None:
    one = tab(serve(folder))
    shown(one)
    one.page.keyboard.press("f")
    first = one.page.locator("#pairs button").first
    first.wait_for()  # the pairs are asked for when the filter opens, and the next line waits for nothing
    given, suggested = first.locator(".label").all_inner_texts()
    expected = int(first.locator(".n").inner_text())
    first.click()
    one.until(f"document.getElementById('matching').innerText.startsWith('{expected} instance')")
    one.page.keyboard.press("Escape")
    one.page.reload()  # the filter is kept
    for _ in range(expected):
        shown(one)
        assert (one.page.inner_text("#given"), one.page.inner_text("#suggested")) == (given, suggested)
        press(one, "a")
    assert one.page.inner_text("#done-title") == "Nothing is left in this filter"
    one.page.click("#again")
    shown(one)
    one.until("!document.getElementById('open-filter').classList.contains('on')")
    one.page.keyboard.press("f")
    one.page.select_option("#f-state", "accept")
    one.until(f"document.getElementById('matching').innerText.startsWith('{expected} instance')")
    one.page.evaluate(
        "slider = document.getElementById('f-low'); slider.value = 100; slider.dispatchEvent(new Event('change'))"
    )
    one.until("document.getElementById('matching').innerText.startsWith('0 instances')")
    assert one.errors == []


def test_names_cannot_become_part_of_the_page(
    tmp_path: Path, planted: Planted, serve: Serve, tab: Callable[..., Tab]
) -> None:
    hostile = [f"<img src=x onerror=alert(3)>{k}.png" for k in range(len(planted.ids))]
    folder = write_cleaned(tmp_path / "run<b>'x", planted.given, planted.truth, hostile, HOSTILE)
    one = tab(serve(folder, Rows()))
    one.until("document.getElementById('fields').children.length > 0")
    assert one.page.inner_text("#id").startswith("<img src=x")
    assert "<b>red</b>" in one.page.inner_text("#fields")
    one.page.keyboard.press("c")
    assert HOSTILE[1] in one.page.inner_text("#options")
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("f")
    one.page.wait_for_selector("#pairs button")
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("g")
    one.page.wait_for_selector(".card .some")
    assert one.page.evaluate("document.querySelectorAll('main script, img[src=x], main b').length") == 0
    assert one.errors == []


def test_where_nothing_is_listed_the_export_is_next(folder: RunFolder, serve: Serve, tab: Callable[..., Tab]) -> None:
    columns = folder.instances()
    folder.write_instances({**columns, "flagged": np.zeros(len(columns["index"]), dtype=bool)})
    one = tab(serve(folder))
    one.page.wait_for_selector("#done:not([hidden])")
    assert one.page.inner_text("#done-title") == "There are no suspects"
    assert one.page.is_visible("#command")


def test_without_the_token_the_page_stays_shut(folder: RunFolder, serve: Serve, tab: Callable[..., Tab]) -> None:
    url = serve(folder)
    one = tab(url.split("#")[0] + "#token=wrong")
    one.page.wait_for_selector("#locked")
    assert one.page.is_hidden("#actions")
    one.page.goto(url)  # only the fragment differs
    assert shown(one)


def test_when_the_server_is_gone_it_is_said(
    folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]
) -> None:
    one = tab(serve(folder))
    name = shown(one)
    serve.stop()  # type: ignore[attr-defined]
    one.page.keyboard.press("k")
    one.page.wait_for_selector("#notice.lasting")
    assert "does not answer" in one.page.inner_text("#notice")
    assert one.page.inner_text("#id") == name, "it does not go on as if it were saved"
    assert by_id(folder, planted) == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab], scheme: str) -> None:
    one = tab(serve(folder), PHONE, scheme)
    name = shown(one)
    assert one.fits()
    for button in ("keep", "accept", "choose", "aside", "undo", "previous", "next"):
        box = one.page.locator(f"#{button}").bounding_box()
        assert box["width"] >= 40 and box["height"] >= 40 and box["y"] + box["height"] <= PHONE[1], button
    one.page.tap("#accept")
    one.until("(id) => document.getElementById('id').innerText !== id", name)
    assert by_id(folder, planted)[name][0] == "accept"
    for opened in ("open-filter", "open-help"):
        one.page.tap(f"#{opened}")
        assert one.fits()
        one.page.keyboard.press("Escape")
    one.page.tap("#toggle-view")
    one.page.wait_for_selector(".card img[src]")
    assert one.fits() and one.errors == []


# ------------------------------------------------------------ what a designer would wince at

LONG = tuple(
    f"Canis_lupus_familiaris/{kind}_{'x' * 40}, photographed_in_the_wild"
    for kind in ("dachshund", "كلب كبير", "כלב", "鳥の写真", "Straße", "e", "f", "g", "h", "i")
)


@pytest.fixture
def long_names(tmp_path: Path, planted: Planted) -> RunFolder:
    ids = [f"a/very/long/path/{'y' * 60}/station_{k:08d}_v2.final.png" for k in range(len(planted.ids))]
    return write_cleaned(tmp_path / "long", planted.given, planted.truth, ids, LONG)


class SomeGone(Pictures):
    def picture(self, index: int, largest: int = 512) -> bytes | None:
        return None if index % 2 else super().picture(index, largest)


def test_what_is_wrong_is_seen(tmp_path: Path, tab: Callable[..., Tab]) -> None:
    """The checks below, on a page that fails all of them."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><meta name=viewport content='width=device-width'><h1>a</h1><h3>b</h3>"
        "<button style='width:20px;height:20px'></button><p style='color:#888'>grey</p>"
        "<div style='background:#000'><p style='color:rgb(0 0 0 / 50%)'>dark</p></div><hr style='width:900px'>"
    )
    one = tab(page.as_uri(), PHONE)
    assert not one.fits() and nameless(one) == ["button"] and skipped(one) == ["h1 h3"] and len(small(one)) == 1
    assert faint(one) == ["grey: 3.54", "dark: 1.00"]


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", [Pictures, SomeGone, Rows])
def test_the_report_can_be_read_by_everybody(
    long_names: RunFolder,
    planted: Planted,
    tab: Callable[..., Tab],
    size: tuple[int, int],
    scheme: str,
    kind: Any,
) -> None:
    path = write_page(long_names, instances=Rows() if kind is Rows else kind(planted))  # type: ignore[arg-type]
    one = tab(path.as_uri(), size, scheme, offline=True)
    assert one.fits()
    assert nameless(one) == [] and faint(one) == [] and skipped(one) == []
    assert size == LAPTOP or small(one, 40) == []
    told = one.page.evaluate(
        "[...document.querySelectorAll('svg.chart:not(.interval)')].map((c) => c.querySelectorAll('.name').length)"
    )
    assert told and set(told) == {2}, "both axes of every chart have a name"
    gone = one.page.locator(".card .picture p").count()
    assert (gone > 0) == (kind is SomeGone), "a picture that is gone leaves its place"


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_review_can_be_used_by_everybody(
    long_names: RunFolder,
    planted: Planted,
    serve: Serve,
    tab: Callable[..., Tab],
    size: tuple[int, int],
    scheme: str,
) -> None:
    one = tab(serve(long_names, SomeGone(planted)), size, scheme)

    def check(where: str) -> None:
        assert one.fits(), where
        assert nameless(one) == [] and faint(one) == [] and skipped(one) == [], where
        assert size == LAPTOP or small(one) == [], where

    one.until("document.getElementById('margins').children.length > 0")
    check("one by one")
    for key, opened in (("c", "chooser"), ("f", "filter"), ("?", "help")):
        one.page.keyboard.press(key)
        one.page.wait_for_selector(f"#{opened}[open]")
        check(opened)
        one.page.keyboard.press("Escape")
    one.page.keyboard.press("g")
    one.page.wait_for_selector(".card .id")
    one.page.keyboard.press("Space")
    check("grid")
    one.page.click("#select-all")
    press(one, "x")
    check("done")
    assert one.errors == []


def boxes(tab: Tab, *ids: str) -> list[dict[str, float]]:
    return [tab.page.locator(f"#{name}").bounding_box() for name in ids]


def test_buttons_stay_where_they_are(tmp_path: Path, planted: Planted, serve: Serve, tab: Callable[..., Tab]) -> None:
    """Whatever names are on them: who clicks a thousand times must not have to aim."""
    names = ("a", "a name that is long enough for two lines", *SHAPES[2:])
    folder = write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids, names)
    one = tab(serve(folder))
    shown(one)
    ids = ("keep", "accept", "choose", "aside", "undo", "next")
    first, seen = boxes(one, *ids), set()
    for _ in range(12):
        seen.add(one.page.inner_text("#keep"))
        press(one, "a")
        assert boxes(one, *ids) == first
        notice = one.page.locator("#notice").bounding_box()
        assert notice["y"] + notice["height"] <= first[0]["y"], "what is said covers no button"
    assert len(seen) > 2


def test_no_picture_stands_beside_the_labels_of_another(
    folder: RunFolder, serve: Serve, tab: Callable[..., Tab]
) -> None:
    one = tab(serve(folder))
    held: list[Any] = []
    one.page.route("**/api/pictures/*", lambda route: held.append(route))  # pictures that take their time
    one.page.reload()
    one.until("document.getElementById('given').innerText !== ''")
    one.until("document.getElementById('stage').classList.contains('waiting')")
    assert one.page.evaluate("getComputedStyle(document.getElementById('picture')).visibility") == "hidden"
    for route in held:
        route.continue_()
    one.page.unroute("**/api/pictures/*")
    assert shown(one)
    one.until("!document.getElementById('stage').classList.contains('waiting')")


def test_rows_of_a_table_have_room_in_the_grid(folder: RunFolder, serve: Serve, tab: Callable[..., Tab]) -> None:
    one = tab(serve(folder, Rows()))
    one.until("document.getElementById('fields').children.length > 0")
    one.page.keyboard.press("g")
    one.page.wait_for_selector(".cards.rows .some")
    cut = "[...document.querySelectorAll('.some dt')].filter((dt) => dt.scrollWidth > dt.clientWidth).length"
    assert one.page.evaluate(cut) == 0
    assert one.page.locator(".card").first.bounding_box()["width"] >= 280


def test_tiny_pictures_keep_their_pixels(
    folder: RunFolder, planted: Planted, serve: Serve, tab: Callable[..., Tab]
) -> None:
    """They are of 32 pixels; a thumbnail made smooth is a blur."""
    rendering = "(image) => getComputedStyle(image).imageRendering"
    report = tab(write_page(folder, instances=Pictures(planted)).as_uri())  # type: ignore[arg-type]
    assert set(report.page.locator(".card img").evaluate_all(f"(all) => all.map({rendering})")) == {"pixelated"}
    one = tab(serve(folder))
    shown(one)
    one.page.keyboard.press("g")
    one.page.wait_for_selector(".card img.sharp")
    assert one.page.locator(".card img.sharp").first.evaluate(rendering) == "pixelated"


def test_the_grid_fetches_ahead(tmp_path: Path, planted: Planted, serve: Serve, tab: Callable[..., Tab]) -> None:
    """What lies below is there before it is scrolled to, and all of it can be decided at once."""
    n = 3000
    truth = np.arange(n) % len(SHAPES)
    given = np.where(np.arange(n) % 4 == 0, (truth + 1) % len(SHAPES), truth)
    folder = write_cleaned(tmp_path / "run", given, truth, [f"{k}.png" for k in range(n)])
    content = (planted.folder / planted.ids[0]).read_bytes()

    class Same(Pictures):
        def picture(self, index: int, largest: int = 512) -> bytes | None:
            return content

    one = tab(serve(folder, Same(planted)))
    shown(one)
    one.page.keyboard.press("g")
    one.until("document.querySelectorAll('.card').length === 60")
    below = one.page.evaluate(
        "document.getElementById('main').scrollTo(0, 800),"
        " document.getElementById('more').getBoundingClientRect().top - innerHeight"
    )
    assert below > 300
    one.until("document.querySelectorAll('.card').length > 60")
    listed = int(one.page.get_attribute("#track", "aria-valuemax"))
    assert listed > 600
    for _ in range(200):
        one.page.evaluate("document.getElementById('main').scrollTo(0, 1e9)")
        one.page.wait_for_timeout(50)
        if one.page.locator(".card").count() == listed:
            break
    one.page.click("#select-all")
    press(one, "a")
    assert one.page.inner_text("#done-title") == f"All {listed} suspects are decided"
    assert len(read_decisions(folder.decisions_file)) == listed
    assert one.errors == []
