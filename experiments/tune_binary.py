"""GCE's q, and SCE's A and alpha, for every cell of the binary tables, by the paper's grids: into results/tuned.json.

    python experiments/tune_binary.py                one fold of five: about 1.4 hours of one H200
    python experiments/tune_binary.py --folds 5      the paper's protocol: about 7 hours
    python experiments/tune_binary.py --show         the commands, and run nothing

One `marvel tune` after another; cells that are in the file already are left out, so it goes on where it was. Then
`marvel bench binary-symmetric` runs GCE and SCE with what was found.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from marvel.config import Config
from marvel.experiment.finding import find

FILE = Path("results/tuned.json")


def left(folds: int) -> list[Config]:
    """The settings nobody has tuned yet, or on fewer folds."""
    here = Path(__file__).parent
    cells = [cell for name in ("symmetric", "asymmetric") for cell in find(str(here / f"binary_{name}.py")).cells]
    fewer = ("not tuned",) if folds == 1 else ("not tuned", "one fold")
    return [cell.config for cell in cells if cell.note is not None and cell.note.endswith(fewer)]


def command(config: Config, folds: int) -> list[str]:
    noise = ["--rates", ",".join(map(str, config.rates))] if config.rates else ["--rate", str(config.rate)]
    rates = "-".join(map(str, config.rates or (config.rate,)))
    folder = Path("runs") / "tune" / f"{config.data}-{config.noise}-{rates}-{config.method}-{folds}"
    words = ["marvel", "tune", "--data", config.data, "--noise", config.noise, *noise, "--method", config.method]
    words += ["--folds", str(folds), "--out", str(folder), "--save", str(FILE)]
    return [*words, "--resume"] if folder.exists() else words


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=1, help="5: the paper's")
    parser.add_argument("--show", action="store_true", help="print the commands, and run nothing")
    args, others = parser.parse_known_args(arguments)  # --compile, --root and the like are handed on
    for config in left(args.folds):
        words = [*command(config, args.folds), *others]
        print(" ".join(words), flush=True)
        if not args.show and (code := subprocess.run([sys.executable, "-m", *words], check=False).returncode):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
