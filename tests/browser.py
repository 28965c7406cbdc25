"""A real browser for the tests: Debian's Chromium through Playwright."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = os.environ.get("MARVEL_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LAPTOP, PHONE = (1366, 800), (390, 844)


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; skips where there is none (.ci/run installs it)."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"no browser at {CHROMIUM}; another can be named by MARVEL_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page that remembers what went wrong in it and what it asked for."""

    def __init__(self, browser: Any, size: tuple[int, int] = LAPTOP, scheme: str = "light", **options: Any) -> None:
        width, height = size
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            is_mobile=size == PHONE,
            has_touch=size == PHONE,
            **options,
        )
        self.watch(self.context.new_page())

    def watch(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))

    def another(self) -> "Tab":
        """A second tab of the same browser window: the same storage, another page."""
        other = object.__new__(Tab)
        other.context = self.context
        other.watch(self.context.new_page())
        return other

    def until(self, expression: str, argument: Any = None, seconds: float = 20) -> None:
        """Waits until the expression holds. Playwright's own waiting needs eval, which our pages forbid."""
        end = time.monotonic() + seconds
        while not self.holds(expression, argument):
            assert time.monotonic() < end, f"still not so after {seconds} s: {expression} {argument}"
            self.page.wait_for_timeout(20)

    def holds(self, expression: str, argument: Any) -> bool:
        from playwright.sync_api import Error

        try:
            return bool(self.page.evaluate(expression, argument))
        except Error as error:
            if "navigation" in str(error):
                return False
            raise

    def fits(self) -> bool:
        """Whether nothing sticks out to the right. (A phone zooms out for what does, and `innerWidth` with it.)"""
        page = "document.documentElement"
        wide, inner = self.page.evaluate(f"[{page}.scrollWidth, {page}.clientWidth]")
        return bool(wide <= inner)

    def close(self) -> None:
        self.context.close()


NAMELESS = ("button", "checkbox", "combobox", "image", "link", "listbox", "option", "region", "slider", "textbox")
"""Roles that say nothing without a name."""

FAINT = """() => {
  const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colour = (css) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = css;
    paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.unshift(getComputedStyle(at).backgroundColor);
    return chain.reduce((back, css) => over(colour(css), back), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest(':disabled, .decided .thumb, .notice:not(.shown), .none')) continue;
    const back = behind(element);
    const ink = over(colour(element.closest('svg') ? style.fill : style.color), back);
    const [low, high] = [luminance(ink), luminance(back)].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < needed) found.push(`${text.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""


def nameless(tab: Tab) -> list[str]:
    """What a screen reader would call just "button" and the like, by the browser's own accessibility tree."""
    session = tab.context.new_cdp_session(tab.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    told = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    assert any(role in NAMELESS for role, _ in told), "there is a page to be read"
    return [role for role, name in told if role in NAMELESS and not name.strip()]


def faint(tab: Tab) -> list[str]:
    """Texts with less contrast to what is behind them than WCAG's AA asks for; what is disabled or decided may fade."""
    found: list[str] = tab.page.evaluate(FAINT)
    return found


def small(tab: Tab, least: int = 44) -> list[str]:
    """What can be tapped but is smaller than a fingertip, and in sight."""
    found: list[str] = tab.page.evaluate(
        "(least) => [...document.querySelectorAll('button, select, input, nav a, [role=option]')]"
        ".filter((one) => one.checkVisibility() && !one.closest('label.check'))"
        ".map((one) => [one.id || one.textContent, one.getBoundingClientRect()])"
        ".filter(([, box]) => box.width && (box.height < least - 0.5 || box.width < 40))"
        ".map(([name, box]) => `${name} ${box.width.toFixed()}x${box.height.toFixed()}`)",
        least,
    )
    return found


def skipped(tab: Tab) -> list[str]:
    """Headings that lie more than one level below the one before; the first is an h1."""
    levels: list[int] = tab.page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].filter((one) => one.checkVisibility())"
        ".map((one) => Number(one.tagName[1]))"
    )
    return [f"h{a} h{b}" for a, b in zip([0, *levels], levels, strict=False) if b > a + 1]
