"""Draw every figure, the paper's and our own, for which there are runs.

python -m marvel.report.figures results --out docs/figures
python -m marvel.report.figures results --out docs/figures --check      write nothing; say which are old
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from marvel.errors import MarvelError
from marvel.report.cells import Runs, read_results
from marvel.report.figures.all import EVERY, out_of_date
from marvel.report.figures.sheet import write


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="marvel.report.figures", description="Draw the figures of the paper, and our own."
    )
    parser.add_argument("results", nargs="+", type=Path, help="files of records, or folders of them")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"), help="the folder for the pictures")
    parser.add_argument("--only", choices=[figure.name for figure in EVERY], help="one of them")
    parser.add_argument("--check", action="store_true", help="draw nothing, and fail where a picture is out of date")
    asked = parser.parse_args(arguments)
    try:
        runs = Runs(read_results(asked.results))
    except (MarvelError, OSError) as error:
        parser.error(str(error))
    if asked.check:
        late = out_of_date(runs, asked.out)
        for figure in late:
            print(f"{asked.out / figure.name}.svg is out of date")
        return 1 if late else 0
    for figure in EVERY:
        if asked.only not in (None, figure.name):
            continue
        lacking = figure.lacks(runs)
        if figure.can_be_drawn(runs):
            print(f"{figure.number}: {write(figure, runs, asked.out)[0]}")
        else:
            print(f"{figure.number}: {figure.name} cannot be drawn yet")
        for cell in lacking:
            print(f"    lacks {cell}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
