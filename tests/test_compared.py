"""The report of an experiment: its numbers against a plain recomputation, and its forms."""

import json
import math
import random
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from marvel.config import Config, as_plain, filled
from marvel.experiment import Cell, Experiment
from marvel.paper import paper_number
from marvel.presets import PRESETS
from marvel.report import compared, sheet
from marvel.report.judged import agreement, by_problem, by_reading, outside
from marvel.report.progress import duration, progress
from marvel.report.schedule import schedule

PLACE = ("cifar-symmetric", "CIFAR-10", "40%")
PROBLEM = Config(data="cifar10", noise="symmetric", rate=0.4)


def record(config: Config, **final: Any) -> dict[str, Any]:
    resolved = filled(config, PRESETS[config.data])
    return {"asked": as_plain(config.facts()), "config": as_plain(resolved.facts()), "final": final}


def cell(method: str, beside: bool = True, **changes: Any) -> Cell:
    config = PROBLEM.but(method=method, **changes)
    return Cell("CIFAR-10", "40%", method.upper(), config, (*PLACE, method) if beside else None)


CE, MARVEL, AUM = cell("ce"), cell("marvel", options={"wait": 8}), cell("aum")
ELR = cell("elr", beside=False)
TABLE = Experiment("x", "A table", (CE, MARVEL, AUM, ELR), measures=("test_accuracy", "label_recall"))


def test_numbers_are_those_of_a_plain_recomputation() -> None:
    rng = random.Random(0)
    records, plain = [], {}
    for one, runs in ((CE, 5), (MARVEL, 2), (AUM, 4)):
        accuracies = [rng.uniform(0.7, 0.9) for _ in range(runs)]
        plain[one.config.method] = accuracies
        records += [
            record(one.config.but(seed=s), test_accuracy=a, label_recall=a / 2) for s, a in enumerate(accuracies)
        ]
    rng.shuffle(records)
    records.append(record(CE.config.but(seed=9, lr=0.05), test_accuracy=0.1))  # another setting: not of this table
    lines = {line.cell.config.method: line for line in compared.compare(TABLE, records)}
    for method, accuracies in plain.items():
        n = len(accuracies)
        mean = 100 * sum(accuracies) / n
        sd = math.sqrt(sum((100 * a - mean) ** 2 for a in accuracies) / (n - 1))
        line = lines[method]
        assert line.seeds == tuple(range(n))
        assert line.values["test_accuracy"] == pytest.approx([100 * a for a in accuracies])
        assert line.values["label_recall"] == pytest.approx([50 * a for a in accuracies])
        theirs = paper_number(*PLACE, method)
        assert theirs is not None and theirs.mean is not None and theirs.sd is not None
        if method == "aum":
            assert line.judged is None  # Pleiss et al.'s
            continue
        assert theirs.runs is not None and line.judged is not None
        own = sd if n >= 3 else theirs.sd
        bound = max(1.0, 2 * math.sqrt(theirs.sd**2 / theirs.runs + own**2 / n))
        assert line.judged.difference == pytest.approx(mean - theirs.mean)
        assert line.judged.bound == pytest.approx(bound)
        assert line.judged.agrees == (abs(mean - theirs.mean) <= bound)
        row = next(row for row in compared.sheet(TABLE, lines.values()).rows if row[2] == method.upper())
        assert row[3] == f"{mean:.1f} ({sd:.1f}, {n})" and row[5] == f"{mean - theirs.mean:+.1f}"
    assert lines["elr"].seeds == () and lines["elr"].values["test_accuracy"] == []


def test_what_the_table_says() -> None:
    records = [record(CE.config, test_accuracy=0.9, label_recall=1.0), record(AUM.config, test_accuracy=0.875)]
    failed = [{"run": json.dumps(_plain_identity(MARVEL.config)), "error": "no & memory"}]
    shown = compared.sheet(TABLE, compared.compare(TABLE, records, failed))
    assert list(shown.headings) == [
        *("problem", "noise", "method", "ours: test accuracy", "paper", "difference", "verdict", "label recall"),
    ]
    assert list(map(list, shown.rows)) == [
        ["CIFAR-10", "40%", "CE", "90.0 (–, 1)", "72.2 (0.7, 5)", "+17.8", "differs (bound 1.5)", "100.0 (–, 1)"],
        ["CIFAR-10", "40%", "MARVEL", "failed", "88.4 (0.2, 5)", "–", "–", "–"],
        ["CIFAR-10", "40%", "AUM", "87.5 (–, 1)", "87.5 (0.1, –) †", "+0.0", "none", "–"],
        ["CIFAR-10", "40%", "ELR", "not run", "–", "–", "–", "–"],
    ]
    assert shown.notes == [
        "Percent: mean (standard deviation, runs). † taken by the paper from Pleiss et al.: no verdict.",
        "Within the bound: CE 0 of 1.",
        "2 of 4 cells have not been run.",
        "1 of them: no & memory.",
    ]
    brief = compared.sheet(TABLE, compared.compare(TABLE, records), only_run=True)
    assert [row[2] for row in brief.rows] == ["CE", "AUM"] and brief.notes[2] == "2 of 4 cells have not been run."


def _plain_identity(config: Config) -> Any:
    from marvel.results import identity

    return json.loads(identity(config))


def test_without_numbers_of_the_paper_there_is_no_column_for_them() -> None:
    table = Experiment("x", "Mine", (ELR,))
    shown = compared.sheet(table, compared.compare(table, [record(ELR.config, test_accuracy=None)]))
    assert list(shown.headings) == ["problem", "noise", "method", "ours: test accuracy"]
    assert shown.rows[0][3] == "–" and "Every cell has been run." in shown.notes


def test_runs_without_a_test_set_say_why_there_is_no_number() -> None:
    records = [record(ELR.config, test_accuracy=None, detection_f1=0.5)]
    alone = Experiment("x", "A table", (ELR,))
    shown = compared.sheet(alone, compared.compare(alone, records))
    assert shown.rows[0][3] == "–" and shown.notes[-1].startswith("1 cell that was run has no test accuracy, for want")
    other = Experiment("x", "A table", (ELR,), measures=("detection_f1",))
    assert compared.sheet(other, compared.compare(other, records)).notes[-1] == "Every cell has been run."


def test_facts_are_json() -> None:
    records = [record(CE.config.but(seed=s), test_accuracy=a) for s, a in enumerate((0.72, 0.73))]
    facts = json.loads(json.dumps(compared.facts(TABLE, compared.compare(TABLE, records)), allow_nan=False))
    ce = facts["cells"][0]
    assert ce["ours"]["test_accuracy"]["mean"] == pytest.approx(72.5) and ce["ours"]["test_accuracy"]["runs"] == 2
    assert ce["paper"]["mean"] == 72.2 and ce["verdict"]["agrees"] is True and ce["seeds"] == [0, 1]
    assert ce["settings"]["epochs"] == 120 and facts["cells"][3]["paper"] is None
    assert facts["cells"][1]["verdict"] is None and facts["cells"][1]["ours"]["test_accuracy"]["mean"] is None


# ------------------------------------------------------------ forms

NASTY = r"50% & _x_ {a} #1 $2 ^3 ~4 \5 <b>|</b> – † " + "'\""
SHEET = sheet.Sheet(NASTY, ["method", NASTY], [["CE", NASTY], ["MARVEL", "differs (bound 1.0)"]], [NASTY])


def test_markdown_keeps_its_columns() -> None:
    lines = sheet.markdown(SHEET).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    for line in table:
        assert len(line.replace("\\|", "").strip("|").split("|")) == 2


class Cells(HTMLParser):
    """The text of the cells, as a browser reads it, and the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] and self.tags[-1] in ("td", "th") and data.strip():
            self.rows[-1][-1] += data


def test_html_says_what_was_said() -> None:
    page = sheet.html(SHEET)
    read = Cells()
    read.feed(page)
    assert [row for row in read.rows if row] == [["method", NASTY], ["CE", NASTY], ["MARVEL", "differs (bound 1.0)"]]
    assert "b" not in read.tags and "http" not in page and 'class="differs"' in page


def test_latex_escapes_what_tex_takes_for_itself() -> None:
    text = sheet.latex(SHEET)
    row = next(line for line in text.splitlines() if line.startswith("CE"))
    assert row == (
        r"CE & 50\% \& \_x\_ \{a\} \#1 \$2 \textasciicircum{}3 \textasciitilde{}4 \textbackslash{}5 "
        r"\textless{}b\textgreater{}\textbar{}\textless{}/b\textgreater{} -- $^{\dagger}$ '" + '" \\\\'
    )
    # Beside what is escaped, and the table's own, no special sign is left.
    assert text.count("&") - text.count(r"\&") == 3 and text.count(r"\begin") == text.count(r"\end{") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_latex_compiles(tmp_path: Path) -> None:
    before = r"\documentclass{article}\usepackage{booktabs,longtable}\begin{document}"
    (tmp_path / "t.tex").write_text(f"{before}\n{sheet.latex(SHEET)}\n\\end{{document}}")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "t.tex"], cwd=tmp_path, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stdout[-2000:]


# ------------------------------------------------------------ sections of the documents


def test_the_share_of_the_schedule() -> None:
    late = CE.config.but(drops=(80, 100))
    cells = (CE, Cell(CE.group, CE.column, "CE, late", late), MARVEL)
    control = Experiment("control", "", cells)
    records = [record(CE.config, test_accuracy=0.70), record(late, test_accuracy=0.75)]
    assert schedule(control, records) == "Not run yet."
    records.append(record(MARVEL.config, test_accuracy=0.90))
    row = schedule(control, records).splitlines()[-1]
    assert row.strip("| ").split(" | ")[-3:] == ["+5.0", "+20.0", "25 %"]


def test_progress_counts_runs_and_costs(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "from marvel.config import Config\nfrom marvel.experiment import Cell, Experiment\n"
        "P = Config(data='cifar10', noise='symmetric', rate=0.4)\n"
        "CELLS = tuple(Cell('', '', method, P.but(method=method)) for method in ('ce', 'sce'))\n"
        "EXPERIMENT = Experiment('two', 'Two', CELLS, (0, 1))\n"
    )
    row = progress(tmp_path, [record(PROBLEM.but(method="ce"))]).splitlines()[-1]
    assert row == "| `two` | 2 | 1 | 1 of 4 | 50 s | 2 min |"
    assert [duration(s) for s in (0, 50, 100, 5000, 9000)] == ["–", "50 s", "2 min", "83 min", "2.5 h"]


def test_cells_that_agree_are_counted_and_those_outside_listed_once(tmp_path: Path) -> None:
    text = (
        "from marvel.config import Config\nfrom marvel.experiment import Cell, Experiment\n"
        "P = Config(data='cifar10', noise='symmetric', rate=0.4)\n"
        "PLACE = ('cifar-symmetric', 'CIFAR-10', '40%')\n"
        "OPTIONS = {'ce': {}, 'sce': {}, 'marvel': {'wait': 8}, 'marvel+': {'wait': 7}}\n"
        "CELLS = tuple(Cell('C', '40%', m, P.but(method=m, options=o), (*PLACE, m)) for m, o in OPTIONS.items())\n"
    )
    (tmp_path / "a.py").write_text(f"{text}EXPERIMENT = Experiment('a', 'A', CELLS)\n")
    (tmp_path / "b.py").write_text(f"{text}EXPERIMENT = Experiment('b', 'B', CELLS)\n")
    (tmp_path / "c.py").write_text(
        f"{text}OTHER = Cell('C', '40%', 'ce', P.but(method='ce', batch=64), (*PLACE, 'ce'))\n"
        "EXPERIMENT = Experiment('c', 'C', (OTHER,), readings=True)\n"
    )
    assert outside(tmp_path, []) == agreement(tmp_path, []) == by_problem(tmp_path, []) == "Nothing has been run."
    ce = PROBLEM.but(method="ce")
    records = [record(ce, test_accuracy=0.5), record(ce.but(batch=64), test_accuracy=0.1)]
    assert outside(tmp_path, records).splitlines()[0] == "1 of 1:"
    assert outside(tmp_path, records).splitlines()[-1] == (
        "| `a` | C | 40% | ce | 50.0 (–, 1) | 72.2 (0.7, 5) | -22.2 | differs (bound 1.5) |"
    )
    records.append(record(PROBLEM.but(method="sce"), test_accuracy=0.862))
    assert outside(tmp_path, records).splitlines()[0] == "1 of 2:"
    assert outside(tmp_path, records[2:]) == "None of 1."
    records.append(record(ce.but(seed=1), test_accuracy=0.7))  # the mean is 60.0
    assert agreement(tmp_path, records).splitlines()[2:] == [
        "| CE | 1 | 0 (0%) | 0 (0%) | -12.2 | -12.2 | -12.2 |",
        "| SCE | 1 | 1 (100%) | 1 (100%) | +0.0 | +0.0 | +0.0 |",
    ]
    for method, wait in (("marvel", 8), ("marvel+", 7)):  # the paper's: 88.4 both
        records.append(record(PROBLEM.but(method=method, options={"wait": wait}), test_accuracy=0.894))
    together = agreement(tmp_path, records).splitlines()[-1]
    assert together == "| CE, MARVEL, MARVEL+ | 3 | 2 (67%) | 2 (67%) | -3.4 | -12.2 | +1.0 |"
    records += [record(ce.but(seed=seed), test_accuracy=accuracy) for seed, accuracy in ((2, 0.9), (3, 0.79))]
    assert agreement(tmp_path, records).splitlines()[2] == "| CE | 1 | 1 (100%) | 0 (0%) | +0.0 | +0.0 | +0.0 |"
    assert agreement(tmp_path, records[3:4]).splitlines()[2] == "| CE | 1 | 0 (0%) | – | -2.2 | -2.2 | -2.2 |"


def test_how_much_agrees_by_problem(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from marvel.config import Config\nfrom marvel.experiment import Cell, Experiment\n"
        "def cell(data, name, rate, method):\n"
        "    config = Config(data=data, noise='symmetric', rate=rate, method=method)\n"
        "    return Cell('any', 'any', 'any', config, ('binary-symmetric', name, f'{rate:.0%}', method))\n"
        "CELLS = [cell('truck-car', 'Truck', rate, m) for rate in (0.1, 0.2) for m in ('marvel', 'ce')]\n"
        "CELLS.append(cell('cat-dog', 'Cat', 0.1, 'ce'))\n"
        "EXPERIMENT = Experiment('a', 'A', tuple(CELLS))\n"
    )
    truck = Config(data="truck-car", noise="symmetric", rate=0.1, method="ce")  # the paper: 89.8 and 81.2
    records = [record(truck, test_accuracy=0.898), record(truck.but(rate=0.2), test_accuracy=0.712)]
    assert by_problem(tmp_path, records).splitlines() == [
        "| method | Truck |",
        "| --- | --- |",
        "| CE | 1 of 2 (-5.0) |",
    ]
    records.append(record(truck.but(data="cat-dog"), test_accuracy=0.83))  # 82.0
    records.append(record(truck.but(method="marvel"), test_accuracy=0.952))  # 95.0
    assert by_problem(tmp_path, records).splitlines() == [
        "| method | Truck | Cat |",
        "| --- | --- | --- |",
        "| CE | 1 of 2 (-5.0) | 1 of 1 (+1.0) |",
        "| MARVEL | 1 of 1 (+0.2) | – |",
    ]


def test_how_much_agrees_by_reading() -> None:
    ce = Config(data="truck-car", noise="symmetric", rate=0.1, method="ce")  # the paper: 89.8, and MARVEL 95.0
    cells = [
        Cell(f"batch {batch}", "10%", method, ce.but(method=method, batch=batch), (*place, method))
        for batch in (128, 64, 32)
        for method in ("marvel", "ce")
        for place in [("binary-symmetric", "Truck", "10%")]
    ]
    experiment = Experiment("a", "A", tuple(cells), headings=("batch", "noise", "method"), readings=True)
    assert by_reading(experiment, []) == "Nothing has been run."
    records = [record(ce, test_accuracy=0.798), record(ce.but(batch=32), test_accuracy=0.9)]
    records.append(record(ce.but(batch=32, method="marvel"), test_accuracy=0.95))
    assert by_reading(experiment, records).splitlines() == [
        "| batch | CE | MARVEL |",
        "| --- | --- | --- |",
        "| batch 128 | 0 of 1 (-10.0) | – |",
        "| batch 32 | 1 of 1 (+0.2) | 1 of 1 (+0.0) |",
    ]
