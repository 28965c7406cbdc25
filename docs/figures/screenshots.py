"""The pictures of the report and of the review page, from a real run on drawn shapes with planted errors.

    python docs/figures/screenshots.py        from the root of the repository; needs Chromium, takes a few minutes

Draws a folder of shapes in which some lie in the wrong class folder, runs `marvel clean` on it, and writes report.png,
review.png and review-grid.png beside this file, each with a twin for the dark.
"""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests"))

from browser import Tab, chromium  # noqa: E402
from shapes import plant  # noqa: E402

SIZE, TALL = (1200, 700), (1200, 900)
SCHEMES = {"light": "", "dark": "-dark"}
"""What is added to the name of a picture."""


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plant(folder / "shapes", 2000, 0.08, size=48, noise=0)
        words = ["clean", "shapes", "--out", "runs/shapes"]
        subprocess.run([sys.executable, "-m", "marvel", *words], cwd=folder, check=True)
        take(folder / "runs" / "shapes", folder)


def take(run: Path, inside: Path) -> None:
    """The report and the review of a run; `inside` is the folder to be in, so that its path is short."""
    with chromium() as browser:
        for scheme, added in SCHEMES.items():
            tab = Tab(browser, TALL, scheme, offline=True)
            tab.page.goto((run / "report.html").as_uri())
            save(tab, f"report{added}.png")
            tab.close()
        words = ["review", str(run.relative_to(inside)), "--no-open"]
        process = subprocess.Popen(
            [sys.executable, "-m", "marvel", *words], cwd=inside, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        try:
            decide(Tab(browser, SIZE), address[0])
            for scheme, added in SCHEMES.items():
                review(Tab(browser, SIZE, scheme), address[0], added)
        finally:
            process.terminate()
            process.wait()


def decide(tab: Tab, address: str) -> None:
    """About the first eight."""
    tab.page.goto(address)
    for k, key in enumerate("aakaaxaa"):
        tab.until("(n) => document.getElementById('count').innerText.startsWith(`${n} of`)", k)
        tab.until("document.getElementById('picture').naturalWidth > 0")
        tab.page.keyboard.press(key)
    tab.until("document.getElementById('count').innerText.startsWith('8 of')")
    tab.close()


def review(tab: Tab, address: str, added: str) -> None:
    tab.page.goto(address)
    tab.until("document.getElementById('count').innerText.startsWith('8 of')")
    tab.until("document.getElementById('picture').naturalWidth > 0")
    save(tab, f"review{added}.png")
    tab.page.click("#open-filter")
    tab.page.select_option("#f-state", "any")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("g")
    tab.page.wait_for_timeout(2000)
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space", "ArrowRight", "Space"):
        tab.page.keyboard.press(key)
    save(tab, f"review-grid{added}.png")
    tab.close()


def save(tab: Tab, name: str) -> None:
    picture = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    # A third of the size; of the ways to choose the colours, the one that keeps rare ones.
    few = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(HERE / name, optimize=True)
    print(f"{HERE / name}: {(HERE / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
