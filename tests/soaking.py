"""How much a test tries: a little in the ordinary suite, hundreds under `make soak`, which writes down what was tried.

python tests/soaking.py NOTES    what the tests noted -> results/reliability.json, and from it docs/reliability.md
python tests/soaking.py          docs/reliability.md again
"""

import json
import os
import platform
import random
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "results" / "reliability.json", ROOT / "docs" / "reliability.md"
NOTES = os.environ.get("MARVEL_SOAK")
"""Where `make soak` has its tests write what they tried."""
FIGURES = re.compile(r"(?<=<!-- figures: made by `make soak` -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


SHARE = float(os.environ.get("MARVEL_SOAK_SHARE", 1))
"""How much of the whole `make soak` tries, where there is less time."""


def times(ordinary: int, soak: int) -> int:
    """How many trials."""
    return ordinary if NOTES is None else max(ordinary, round(SHARE * soak))


def seed() -> int:
    """Of what is tried at random: MARVEL_SEED, else 0; under `make soak` another each time, and noted."""
    if "MARVEL_SEED" in os.environ:
        return int(os.environ["MARVEL_SEED"])
    return 0 if NOTES is None else random.SystemRandom().randrange(1 << 32)


def note(promise: str, **figures: Any) -> None:
    """Write down what was tried for a promise of docs/reliability.md; the figures of several tests are put together."""
    if NOTES is not None:
        with open(NOTES, "a", encoding="utf-8") as file:
            file.write(json.dumps({"promise": promise, **figures}) + "\n")


# ------------------------------------------------------------ the record and the page


def collect(notes: Path) -> dict[str, Any]:
    """Numbers are summed, of `slowest...` and `...at_once` the largest is taken; seeds are listed."""
    sys.path.insert(0, str(ROOT / "src"))
    import torch

    import marvel
    from marvel.run import commit

    found: dict[str, dict[str, Any]] = {}
    for line in notes.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        promise = found.setdefault(told.pop("promise"), {})
        for key, value in told.items():
            if key == "seed":
                promise.setdefault("seeds", []).append(value)
            elif key.startswith("slowest") or key.endswith("at_once"):
                promise[key] = max(value, promise.get(key, 0))
            else:
                promise[key] = value + promise.get(key, 0)
    environment = {"marvel": marvel.__version__, "commit": commit(), "python": platform.python_version()}
    environment |= {"torch": torch.__version__, "platform": platform.platform(), "cores": os.cpu_count()}
    # What a reader of the figures must know besides.
    return {"environment": environment, "remark": os.environ.get("MARVEL_SOAK_REMARK", ""), "promises": found}


def rendered(record: dict[str, Any]) -> str:
    """The table of figures."""
    where = record["environment"]
    lines = [
        f"\nMarvel {where['marvel']} at {where['commit'][:12]}, Python {where['python']}, torch {where['torch']}, "
        f"{where['cores']} cores ({where['platform'].split('-')[0]}). {record['remark']}".rstrip()
        + "\n",
        "| promise | what was tried |",
        "| --- | --- |",
    ]
    for promise, figures in sorted(record["promises"].items()):
        said = [f"{_number(value)} {key.replace('_', ' ')}" for key, value in figures.items() if key != "seeds"]
        seeds = [str(one) for one in figures.get("seeds", ())]
        told = f"; seed {', '.join(seeds)}" if seeds else ""
        lines.append(f"| {promise} | {', '.join(said)}{told} |")
    return "\n".join(lines) + "\n\n"


def _number(value: float) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:.3g}"


def page(text: str, record: dict[str, Any]) -> str:
    """The page with these figures."""
    return FIGURES.sub(lambda _: rendered(record), text)


if __name__ == "__main__":
    if sys.argv[1:]:
        RECORD.write_text(json.dumps(collect(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")
