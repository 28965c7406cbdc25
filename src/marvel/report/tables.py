"""What runs came to, as Markdown tables, and the documents that hold them.

    python -m marvel.report.tables README.md docs/*.md           from the root of the repository
    python -m marvel.report.tables --check README.md docs/*.md   write nothing; say which are out of date

A section between `<!-- made: accuracy results/core.jsonl -->` and `<!-- end -->` is written anew from the records of
that file; `SECTIONS` says what there is to make. So no measured number in a document is typed by hand.
"""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from marvel.config import HOW
from marvel.errors import DataError, InvalidInput, MarvelError, pick
from marvel.experiment import Experiment
from marvel.experiment.finding import load
from marvel.paper import beside, verdict
from marvel.report.ablation import ablation, controls
from marvel.report.aims import aims
from marvel.report.cells import NAMES, Record, Runs, read_results, set_by_hand
from marvel.report.compared import compare, sheet
from marvel.report.confident import confident
from marvel.report.doubted import doubted
from marvel.report.judged import agreement, by_problem, by_reading, outside
from marvel.report.progress import progress
from marvel.report.schedule import schedule
from marvel.report.sheet import markdown_table as table
from marvel.report.thorough import thorough
from marvel.report.times import times
from marvel.report.words import NOTHING, judgement, mean, paper_mean
from marvel.results import by_run
from marvel.runs import write_atomically

MADE = re.compile(r"^<!-- made: (\S+)(?: (\S+))? -->$\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)

DETECTION = {
    "memorisation_ratio": "memorisation ratio",
    "label_precision": "label precision",
    "label_recall": "label recall",
    "detection_auroc": "detection AUROC",
    "detection_best_f1": "best detection F1",
}
CLAIMS = {
    "detection_precision": "detection precision",
    "detection_recall": "detection recall",
    "detection_f1": "detection F1",
    "detection_best_f1": "best detection F1",
    "detection_ap": "detection AP",
    "suggestion_accuracy": "suggestions right",
}
DEMO = {
    "test_accuracy": "test accuracy",
    "memorisation_ratio": "memorisation ratio",
    "label_precision": "label precision",
    "label_recall": "label recall",
    "detection_f1": "detection F1",
}


def accuracy(records: Sequence[Record]) -> str:
    """Test accuracy beside the paper's: one row for each setting, the mean over its seeds."""
    rows = []
    for group, name in _named(records):
        ours = [100 * record["final"]["test_accuracy"] for record in group]
        theirs = beside(group[0]["config"])
        judged = None if theirs is None else verdict(ours, theirs)
        rows.append([*_setting(group[0]), name, mean(ours), paper_mean(theirs), *judgement(ours, theirs, judged)])
    return table(["problem", "noise", "method", "ours", "paper", "difference", "verdict"], rows)


def detection(records: Sequence[Record]) -> str:
    """Memorisation, the kept set, and how well the wrong labels were found: the means over the seeds, in percent."""
    rows = []
    for group, name in _named(records):
        wrong = fmean(record["noise"]["realised_rate"] for record in group)
        numbers = [_percent([record["final"].get(key) for record in group]) for key in DETECTION]
        rows.append([*_setting(group[0]), f"{100 * wrong:.1f}", name, *numbers])
    return table(["problem", "noise", "wrong labels", "method", *DETECTION.values()], rows)


def calibration(records: Sequence[Record]) -> str:
    """What `marvel clean` claimed beside the truth: one row for each noise, the means over its seeds."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record["config"][key] for key in ("data", "noise", "rate")), []).append(record)
    rows = []
    for (data, noise, rate), group in sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))):
        claimed = [record for record in group if record["estimate"] is not None]
        if not claimed:
            continue
        truth = [record["final"]["wrong_labels"] for record in claimed]
        wrong = [record["estimate"]["wrong"] for record in claimed]
        covered = sum(one["low"] <= t <= one["high"] for one, t in zip(wrong, truth, strict=True))
        final = [record["final"] for record in claimed]
        rows.append(
            [
                " ".join([data, *([noise, f"{100 * rate:g} %"] if noise != "none" else ["as it is"])]),
                f"{fmean(truth):.0f}",
                f"{fmean(one['value'] for one in wrong):.0f}",
                f"{fmean(one['low'] for one in wrong):.0f} to {fmean(one['high'] for one in wrong):.0f}",
                f"{covered} of {len(claimed)}",
                _percent([record["estimate"]["precision"] for record in claimed]),
                *(_percent([one[key] for one in final]) for key in CLAIMS),
            ]
        )
    headings = ["labels", "wrong", "estimate", "interval", "intervals that cover", "expected precision"]
    return table([*headings, *CLAIMS.values()], rows)


def provenance(records: Sequence[Record]) -> str:
    """What the runs were made with and on."""
    said: dict[str, list[str]] = {}
    for record in records:
        found = {key: record["environment"][key] or "not recorded" for key in ("device", "marvel", "commit", "torch")}
        found |= {"seeds": str(record["config"]["seed"]), "precision": record["config"]["precision"]}
        found["commit"] = found["commit"] if found["commit"] == "not recorded" else found["commit"][:7]
        found["epoch that counts"] = record["final"]["protocol"]
        for key, value in found.items():
            said.setdefault(key, []).append(value)
    rows = [[key, ", ".join(dict.fromkeys(values))] for key, values in said.items()]
    longest = max(record["seconds"] for record in records)
    rows += [["runs", str(len(records))], ["longest run, s; runs share the device", f"{longest:.0f}"]]
    return table(["what", "which"], rows)


def experiment(path: Path | None) -> str:
    """The cells of an experiment that have been run, beside the paper's."""
    found, records = _measured(path)
    shown = sheet(found, compare(found, records), only_run=True)
    below = "\n\n".join(shown.notes[1:])  # how to read it is said once a page
    return f"{table(shown.headings, shown.rows)}\n\n{below}" if shown.rows else below


def _measured(path: Path | None) -> tuple[Experiment, list[Record]]:
    """An experiment of a checkout, and all that was measured there."""
    if path is None:
        raise InvalidInput("this section is made from an experiment: <!-- made: experiment experiments/wait.py -->")
    return load(path), _by_run(path.parent.parent / "results")


def _all(path: Path | None) -> tuple[Path, list[Record]]:
    """The experiments of a checkout, and all that was measured there."""
    if path is None or not path.is_dir():
        raise InvalidInput("this section is made from the folder: <!-- made: progress experiments -->")
    return path, _by_run(path.parent / "results")


@cache  # until the next document: most sections of one are made from the same records
def _by_run(folder: Path) -> list[Record]:
    return list(by_run(folder).values())


@cache
def _runs(path: Path | None) -> Runs:
    return Runs(read_results([_named_file(path)]))


def demo(shown: Record) -> str:
    """The table `marvel demo` prints, from what `marvel demo --json` does."""
    rows = [[NAMES[name], *(_percent([row[key]]) for key in DEMO)] for name, row in shown["methods"].items()]
    return table(["%", *DEMO.values()], rows)


def methods() -> str:
    """What `marvel methods` prints."""
    from marvel.catalogue import catalogue

    rows = []
    for one in catalogue():
        parameters = [p["name"] if p["required"] else f"{p['name']}={p['default']}" for p in one["parameters"]]
        rows.append(
            [
                f"`{one['key']}`",
                f"`{one['class']}`",
                one["paper"],
                " ".join(f"`{parameter}`" for parameter in parameters),
                ", ".join(one["needs"]) or "nothing",
                " ".join(f"`{level}`" for level in one["overrides"]) or "nothing",
                one["works_in"],
            ]
        )
    return table(["method", "class", "paper", "parameters", "must be told", "overrides", "works in"], rows)


def figures(path: Path | None) -> str:
    """The figures of the paper, from all records of a folder; `python -m marvel.report.figures` draws the pictures."""
    from marvel.report.figures.all import page

    return page(_runs(path))


def how_it_went(path: Path | None) -> str:
    """The figure of removing and returning, and its numbers at four epochs, from all records of a folder."""
    from marvel.report.course import course
    from marvel.report.figures.all import shown
    from marvel.report.figures.course import FIGURE

    runs = _runs(path)
    return f"{shown(FIGURE, runs)}\n\n{course(runs)}"


def claims(path: Path | None) -> str:
    """The claims of the paper's prose, judged by all records of a folder."""
    from marvel.report.claims import page

    return page(_runs(path))


def warmups(path: Path | None) -> str:
    """The warm-up read off the recorded runs of cross entropy that are the paper's, beside its own choice."""
    from marvel.report.claims.settings import BINARY, CIFAR
    from marvel.report.warmups import row

    runs = _runs(path)
    rows = [row(found) for at in (*BINARY, *CIFAR) if (found := runs.of(at.by("ce")))]
    return table(["problem", "noise", "seeds", "auto", "knee", "peak", "the paper"], rows)


def method_pages() -> str:
    """A section for each file of methods, from its docstrings: paper, equation, departures, parameters."""
    from marvel.methods import METHODS

    files: dict[str, list[str]] = {}
    for key, kind in METHODS.items():
        files.setdefault(kind.__module__, []).append(key)
    sections = []
    for module, keys in files.items():
        parts = [f"## {', '.join(f'`{key}`' for key in keys)}", inspect.cleandoc(sys.modules[module].__doc__ or "")]
        for key in keys:
            said = inspect.cleandoc(METHODS[key].__doc__ or "")
            parts.append(f"**`{METHODS[key].__name__}`.** {said}")
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


SECTIONS: dict[str, Callable[[Path | None], str]] = {
    "accuracy": lambda path: accuracy(read_records(path)),
    "detection": lambda path: detection(read_records(path)),
    "calibration": lambda path: calibration(read_records(path)),
    "confident": lambda path: confident(read_records(path)),
    "thorough": lambda path: thorough(read_records(path)),
    "provenance": lambda path: provenance(read_records(path)),
    "demo": lambda path: demo(_json(path, _text(path))),
    "experiment": lambda path: experiment(path),
    "ablation": lambda path: ablation(*_measured(path)),
    "aims": lambda path: aims(*_measured(path)),
    "controls": lambda path: controls(read_records(path)),
    "course": how_it_went,
    "doubted": lambda path: doubted(read_records(path)),
    "times": lambda path: times(_runs(path).records),
    "progress": lambda path: progress(*_all(path)),
    "agreement": lambda path: agreement(*_all(path)),
    "by-problem": lambda path: by_problem(*_all(path)),
    "by-reading": lambda path: by_reading(*_measured(path)),
    "outside": lambda path: outside(*_all(path)),
    "schedule": lambda path: schedule(*_measured(path)),
    "figures": figures,
    "claims": claims,
    "warmups": warmups,
    "methods": lambda path: methods(),
    "method-pages": lambda path: method_pages(),
}
"""What can stand in a marked section, given the file its marker names."""


# ------------------------------------------------------------ documents


def rewritten(document: str, root: Path = Path()) -> str:
    """The document with every marked section made anew; files are named from `root`."""
    _by_run.cache_clear()
    _runs.cache_clear()

    def anew(found: re.Match[str]) -> str:
        what, file = found[1], found[2]
        made = pick("section", what, SECTIONS)(None if file is None else root / file)
        return f"<!-- made: {what}{'' if file is None else ' ' + file} -->\n\n{made}\n\n<!-- end -->"

    new, count = MADE.subn(anew, document)
    if count != document.count("<!-- made:"):
        raise InvalidInput("a section stands between lines '<!-- made: WHAT [FILE] -->' and '<!-- end -->'")
    return new


def read_records(path: Path | None) -> list[Record]:
    """The records of a file, one a line; or of all files of a folder."""
    if path is not None and path.is_dir():
        found = _by_run(path)
    else:
        found = [_json(path, line) for line in _text(path).splitlines()]
    if not found:
        raise DataError(f"{path} holds no records")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="marvel.report.tables", description="Write the made sections of documents.")
    parser.add_argument("documents", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where one is out of date")
    asked = parser.parse_args(arguments)
    late = 0
    for path in asked.documents:
        try:
            old = path.read_text(encoding="utf-8")
            new = rewritten(old)
        except (MarvelError, OSError) as error:
            parser.error(f"{path}: {error}")
        if new != old:
            late += 1
            if not asked.check:
                write_atomically(path, new.encode())
            print(f"{path} {'is out of date' if asked.check else 'written'}")
    return 1 if asked.check and late else 0


# ------------------------------------------------------------ records


def _named(records: Sequence[Record]) -> list[tuple[list[Record], str]]:
    """The records of each setting, whatever the seed, and its method with the parameters that tell it from others,
    where they are not at their defaults."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        told = {key: value for key, value in record["config"].items() if key not in HOW | {"seed"}}
        groups.setdefault(json.dumps(told, sort_keys=True), []).append(record)
    found = []
    for group in groups.values():
        here = group[0]["config"]
        alike = [other[0]["config"] for other in groups.values() if _place(other[0]["config"]) == _place(here)]
        own = {
            key: value
            for key, value in set_by_hand(here).items()
            if any(key not in other["options"] or other["options"][key] != value for other in alike)
        }
        said = ", ".join(f"{key} {value}" for key, value in own.items())
        name = NAMES.get(here["method"], here["method"])
        found.append((group, f"{name} ({said})" if said else name))
    return found


def _place(config: Record) -> tuple[object, ...]:
    return (*(config[key] for key in ("data", "network", "noise", "rate", "method")), tuple(config["rates"]))


def _setting(record: Record) -> list[str]:
    """Problem and noise, as a reader names them."""
    config = record["config"]
    rates = config["rates"] or ([config["rate"]] if config["rate"] else [])
    return [f"{config['data']}, {config['network']}", " ".join([config["noise"], _rates(rates)]).strip()]


def _rates(rates: Sequence[float]) -> str:
    said = ", ".join(f"{100 * rate:g} %" for rate in rates)
    return f"({said})" if len(rates) > 1 else said


def _percent(values: Sequence[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    return f"{fmean(known):.1f}" if known else NOTHING


def _text(path: Path | None) -> str:
    return _named_file(path).read_text(encoding="utf-8")


def _named_file(path: Path | None) -> Path:
    if path is None:
        raise InvalidInput("this section is made from a file: <!-- made: accuracy results/core.jsonl -->")
    return path


def _json(path: Path | None, text: str) -> Record:
    try:
        facts: Record = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    return facts


if __name__ == "__main__":
    sys.exit(main())
