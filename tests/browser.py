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
        """Whether nothing sticks out to the right."""
        wide, inner = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        return bool(wide <= inner)

    def close(self) -> None:
        self.context.close()
