"""The grids of experiments/ are the paper's: every cell of its authors once, with the settings its appendix gives."""

import json
import re
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from marvel.config import Config, as_plain, config_from
from marvel.cost import seconds
from marvel.experiment import Cell, Experiment
from marvel.experiment.finding import inside, load
from marvel.paper import BINARY, CIFAR, beside, paper_number
from marvel.report.compared import NOT_TUNED
from marvel.results import identity

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS: dict[str, Experiment] = {name: load(path) for name, path in inside(ROOT / "experiments").items()}
TABLES = (
    *("binary-symmetric", "binary-asymmetric", "cifar-symmetric", "cifar-asymmetric"),
    *("resnet34", "real-world", "warmup", "wait"),
)

# The appendix, written down once more: network, epochs, learning rate, drops, MARVEL's drops, warm-up.
BINARY_SCHEDULES = {
    "boot-sneaker": ("cnn4", 70, 0.01, (50, 60), (50, 60), 10),
    "truck-car": ("resnet18", 100, 0.01, (75, 90), (75, 90), 15),
    "cat-dog": ("resnet18", 100, 0.01, (75, 90), (75, 90), 20),
    "aquatic-fish": ("resnet18", 100, 0.01, (75, 90), (75, 90), 15),
}
CIFAR_SCHEDULES = {
    "cifar10": ("resnet32", 120, 0.1, (40, 80), (80, 100), 30),
    "cifar100": ("resnet32", 150, 0.1, (80, 120), (100, 130), 40),
}
SCHEDULES = {
    "binary-symmetric": BINARY_SCHEDULES,
    "binary-asymmetric": BINARY_SCHEDULES,
    "cifar-symmetric": CIFAR_SCHEDULES,
    "cifar-asymmetric": CIFAR_SCHEDULES,
    "resnet34": {"cifar10": ("resnet34", 120, 0.1, (40, 80), (80, 100), 40)},
    "real-world": {
        "webvision50": ("resnet50", 160, 0.1, (80, 120), (120, 140), 50),
        "clothing100k": ("resnet50", 160, 0.1, (80, 120), (120, 140), 70),
    },
}


def authors_cells() -> list[list[Any]]:
    """(table, dataset, column, method, mean) of the accuracies the authors measured."""
    rows = json.loads((ROOT / "src" / "marvel" / "paper.json").read_text())["rows"]
    return [row[:5] for row in rows if row[0] in TABLES and row[6] == "authors"]


def test_every_table_of_the_paper_has_its_experiment() -> None:
    assert {*TABLES, "precision-recall", "human-noise", "control", "boot-network", "binary-batch"} <= set(EXPERIMENTS)
    assert all(name == found.name for name, found in EXPERIMENTS.items())


def test_every_cell_of_the_authors_has_exactly_one_setting() -> None:
    expected = Counter(tuple(row[:4]) for row in authors_cells())
    assert len(expected) == 328 and set(expected.values()) == {1}
    found = Counter(
        cell.paper
        for table in TABLES
        for cell in EXPERIMENTS[table].cells
        if cell.paper is not None and cell.theirs is not None and cell.theirs.source == "authors"
    )
    assert found == expected


def test_every_cell_taken_from_pleiss_has_exactly_one_setting_too() -> None:
    rows = json.loads((ROOT / "src" / "marvel" / "paper.json").read_text())["rows"]
    expected = {tuple(row[:4]) for row in rows if row[6] == "pleiss" and row[0].startswith("cifar")}
    found = [
        cell.paper
        for table in ("cifar-symmetric", "cifar-asymmetric")
        for cell in EXPERIMENTS[table].cells
        if cell.theirs is not None and cell.theirs.source == "pleiss"
    ]
    assert len(found) == len(set(found)) and set(found) == expected


def test_settings_within_a_table_differ() -> None:
    for experiment in EXPERIMENTS.values():
        runs = [identity(cell.config) for cell in experiment.cells]
        assert len(set(runs)) == len(runs), experiment.name


def test_the_papers_numbers_are_those_of_the_reference(shared_data: Path) -> None:
    reference = json.loads((shared_data.parent / "reference" / "paper_tables.json").read_text())
    known = {(r["table"], r["dataset"], r["column"], r["method"]): r for r in reference}
    for table in TABLES:
        for cell in EXPERIMENTS[table].cells:
            if cell.paper is not None:
                assert cell.theirs is not None
                assert (cell.theirs.mean, cell.theirs.sd) == (known[cell.paper]["mean"], known[cell.paper].get("sd"))


def test_schedules_warm_ups_and_protocols_are_the_appendixs() -> None:
    for table, schedules in SCHEDULES.items():
        for cell in EXPERIMENTS[table].cells:
            if cell.paper is None or cell.theirs is None or cell.theirs.source != "authors":
                continue
            config = cell.resolved
            network, epochs, lr, drops, marvel_drops, warmup = schedules[config.data]
            if config.method.startswith("marvel"):
                drops = marvel_drops
                assert config.options["warmup"] == warmup
            if config.method == "npcl" and config.data != "boot-sneaker":
                epochs, drops = 200, (150, 180)
            assert (config.network, config.epochs, config.lr, config.drops) == (network, epochs, lr, drops), cell
            assert (config.momentum, config.weight_decay, config.nesterov) == (0.9, 2e-4, False)
            assert config.batch == (256 if table == "real-world" else 128)
            held = 0.1 if table == "resnet34" else 0.0
            judged = {"resnet34": "final" if config.method == "ce" else "validation", "real-world": "last10"}
            assert (config.hold_out, config.protocol) == (held, judged.get(table, "final"))


def test_waits_are_those_of_the_papers_tables() -> None:
    """experiments/ and marvel.paper each have them from the appendix."""
    checked = 0
    for table in TABLES[:5]:
        for cell in EXPERIMENTS[table].cells:
            assert cell.paper is not None or cell.config.method in ("gce", "elr")
            if cell.config.method.startswith("marvel"):
                number = paper_number(f"{table}-waits", *cell.paper[1:])  # type: ignore[index]
                assert number is not None and cell.config.options["wait"] == number.mean, cell
                checked += 1
    assert checked == 2 * (16 + 16 + 8 + 4 + 8)
    assert [c.config.options["wait"] for c in EXPERIMENTS["real-world"].cells if c.config.options] == [62, 44]


def test_waits_are_those_printed_in_the_paper(shared_data: Path) -> None:
    """The same once more, from the paper's own source."""
    text = (shared_data.parent / "reference" / "paper.tex").read_text()
    for label, table in {
        "table-binary-sym-wait": "binary-symmetric",
        "table-binary-asym-wait": "binary-asymmetric",
        "table-cifar-sym-wait": "cifar-symmetric",
        "table-cifar-asym-wait": "cifar-asymmetric",
        "table-resnet34-wait": "resnet34",
    }.items():
        body = text[text.index(f"\\label{{{label}}}") :].partition("\\end{table}")[0]
        for method, start in (("marvel", r"\\name\s"), ("marvel+", r"\\name\+\s")):
            lines = re.findall(rf"^{start}[^\n]*", body, re.MULTILINE)
            printed = [int(number) for line in lines for number in re.findall(r"&\s*(\d+)", line)]
            ours = [c.config.options["wait"] for c in EXPERIMENTS[table].cells if c.config.method == method]
            assert ours == printed and ours, (table, method)


@pytest.mark.parametrize("table", TABLES[:5])
def test_a_run_stands_beside_the_number_its_cell_names(table: str) -> None:
    """`marvel.paper` decides by the settings alone, the cell by its place."""
    for cell in EXPERIMENTS[table].cells:
        found = beside(as_plain(cell.resolved.facts()))
        assert found == cell.theirs or (cell.theirs is None and cell.config.method in ("gce", "elr")), cell


def test_noise_is_as_the_column_says() -> None:
    kinds = {
        "binary-symmetric": {"symmetric"},
        "binary-asymmetric": {"pair"},
        "cifar-symmetric": {"symmetric"},
        "cifar-asymmetric": {"circular"},
        "resnet34": {"symmetric", "class-dependent"},
    }
    for table, noises in kinds.items():
        for cell in EXPERIMENTS[table].cells:
            config = cell.config
            assert config.noise in noises
            rates = config.rates or (config.rate,)
            said = ",".join(f"{100 * rate:g}%" for rate in rates)
            assert cell.column == (f"({said})" if config.noise == "pair" else said)
            assert cell.group in (BINARY | CIFAR).get(config.data, "") or table == "resnet34"
            if config.noise == "class-dependent":
                assert cell.group == "Class-Dependent"


def test_who_must_be_told_the_rate_is_told_it() -> None:
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells:
            if cell.config.method in ("npcl", "co-teaching"):
                assert cell.config.oracle_rate or cell.config.options["noise_rate"] == cell.config.rate


def test_sensitivity_varies_one_thing() -> None:
    for name in ("warmup", "wait"):
        for cell in EXPERIMENTS[name].cells:
            data = "cifar10" if cell.group.startswith("CIFAR-10 ") else "cifar100"
            noise, column = ("circular", "asymmetric") if "Asym" in cell.group else ("symmetric", "symmetric")
            rate = re.search(r"(\d+)%", cell.group)
            assert rate is not None
            usual = paper_number(f"cifar-{column}-waits", CIFAR[data], rate[0], "marvel")
            assert usual is not None
            expected = {"warmup": 30 if data == "cifar10" else 40, "wait": usual.mean} | {name: int(cell.column)}
            config = cell.resolved
            assert (config.data, config.noise, config.rate) == (data, noise, int(rate[1]) / 100)
            assert dict(config.options) == expected


def test_the_tables_share_what_is_the_same_run() -> None:
    """A run is done once, however many tables it is in."""
    runs = {name: {identity(cell.config) for cell in found.cells} for name, found in EXPERIMENTS.items()}
    cifar = runs["cifar-symmetric"] | runs["cifar-asymmetric"]
    assert runs["precision-recall"] <= cifar
    assert len(runs["warmup"] & cifar) == len(runs["wait"] & cifar) == 4
    assert len(runs["control"] - cifar) == 12
    binary = runs["binary-symmetric"] | runs["binary-asymmetric"]
    assert len(runs["boot-network"] & binary) == 48
    assert len(runs["binary-batch"]) == 4 * 96 and len(runs["binary-batch"] & binary) == 96
    assert len(runs["binary-rate"]) == 3 * 32 and len(runs["binary-rate"] & binary) == 32
    assert len(runs["oracle-steps"]) == 2 * 12 and len(runs["oracle-steps"] & cifar) == 12
    assert len(runs["defaults"]) == 2 * 2 * 44 and len(runs["defaults"] & (cifar | binary)) == 2 * 44


def test_the_control_is_cross_entropy_on_marvels_schedule() -> None:
    cells = EXPERIMENTS["control"].cells
    for ce, late, marvel in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
        assert (ce.config.method, late.config.method, marvel.config.method) == ("ce", "ce", "marvel")
        assert late.resolved.drops == marvel.resolved.drops != ce.resolved.drops
        assert late.resolved.but(drops=ce.resolved.drops) == ce.resolved
        assert (ce.group, ce.column) == (late.group, late.column) == (marvel.group, marvel.column)
        assert late.paper is None and ce.theirs is not None and marvel.theirs is not None


def test_settings_at_40_percent_are_those_of_the_baselines() -> None:
    """`experiments/baselines.py` has one row or more for each method; the first is that of the paper's table."""
    for noise, table in (("symmetric", "cifar-symmetric"), ("circular", "cifar-asymmetric")):
        theirs: dict[str, str] = {}
        for cell in EXPERIMENTS["baselines"].cells:
            if cell.column == noise:
                theirs.setdefault(cell.config.method, identity(cell.config))
        ours = {c.config.method: identity(c.config) for c in _at_40(EXPERIMENTS[table])}
        assert len(ours) >= 14 and {method: theirs[method] for method in ours} == ours


def _at_40(experiment: Experiment) -> list[Cell]:
    return [cell for cell in experiment.cells if cell.group == "CIFAR-10" and cell.column == "40%"]


# ------------------------------------------------------------ tuned parameters, missing data, costs


def test_what_was_tuned_enters_the_grid_and_what_was_not_is_marked(tmp_path: Path) -> None:
    for cell in EXPERIMENTS["binary-symmetric"].cells:
        assert (cell.note is not None) == (cell.config.method in ("gce", "sce"))
        assert (cell.note == NOT_TUNED) == (cell.note is not None and not cell.config.options)
    package = next(name.rpartition(".")[0] for name in sys.modules if name.endswith(".binary_symmetric"))
    module = vars(sys.modules[f"{package}.tuned"])
    tuned, note = module["tuned"], module["note"]
    problem = Config(data="cat-dog", noise="pair", rates=(0.4, 0.1))
    file = tmp_path / "tuned.json"
    assert tuned(problem, "gce", [file]) is None
    entry = {"data": "cat-dog", "noise": "pair", "rates": [0.4, 0.1], "method": "gce", "options": {"q": 0.3}}
    file.write_text(json.dumps([entry | {"rates": [0.4, 0.0], "options": {"q": 0.9}}, entry]))
    assert tuned(problem, "gce", [file]) == entry
    assert (note(None), note(entry), note(entry | {"folds": 1})) == (NOT_TUNED, "q 0.3", "q 0.3, one fold")
    assert tuned(problem, "sce", [file]) is None
    assert tuned(problem.but(data="truck-car"), "gce", [file]) is None


def test_the_commands_that_tune_name_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = runpy.run_path(str(ROOT / "experiments" / "tune_binary.py"))
    assert len(program["left"](5)) == 64  # none has all folds
    left = program["left"](1)
    untuned = [c for name in TABLES[:2] for c in EXPERIMENTS[name].cells if c.note == NOT_TUNED]
    assert [identity(config) for config in left] == [identity(cell.config) for cell in untuned]
    for config in left:
        words = program["command"](config, 1)
        assert words[:2] == ["marvel", "tune"] and "--resume" not in words
        told = dict(zip(words[2::2], words[3::2], strict=True))
        assert (told.pop("--folds"), told.pop("--save")) == ("1", "results/tuned.json")
        Path(told.pop("--out")).mkdir(parents=True)  # each its own
        assert config_from(told) == config
        assert program["command"](config, 1)[-1] == "--resume"


def test_data_that_cannot_be_read_yet_says_so() -> None:
    assert all(cell.missing is None for cell in EXPERIMENTS["human-noise"].cells)
    for cell in EXPERIMENTS["real-world"].cells:
        assert cell.missing in (None, f"no dataset '{cell.config.data}' here")


def test_costs_by_arithmetic() -> None:
    assert seconds(Config(data="cifar10", method="ce")) == pytest.approx(120 * 50_000 / 120_000)
    assert seconds(Config(data="cat-dog", method="marvel")) == pytest.approx(100 * 10_000 / 50_000)
    oracle = Config(data="cifar10", noise="symmetric", rate=0.8, method="oracle")
    assert seconds(oracle) == pytest.approx(10)
    assert seconds(Config(data="cifar10", method="ce", epochs=12)) == pytest.approx(5)
    assert seconds(Config(data="mine.npz", method="ce", network="resnet18", epochs=9)) is None
    for experiment in EXPERIMENTS.values():
        assert all((seconds(cell.config) or 0) > 0 for cell in experiment.cells), experiment.name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_cost_a_file_names_is_the_one_computed(name: str) -> None:
    """`--seeds 0     about 24 minutes`: of the runs that no table before it has, within a fifth."""
    path = inside(ROOT / "experiments")[name]
    experiment, text = EXPERIMENTS[name], path.read_text(encoding="utf-8")
    assert f"marvel bench {name}" in text and f"marvel report {name}" in text
    lines = re.findall(rf"marvel bench {name}( --only \S+)?[^\n]*?about ([\d.]+) (minutes|hours)", text)
    assert lines or "no runs of its own" in text
    for only, number, unit in lines:
        methods = only.partition("method=")[2].split(",") if only else None
        shared = {identity(c.config) for other in _before(name) for c in EXPERIMENTS[other].cells}
        runs = {identity(cell.config): cell.config for cell in experiment.cells}
        left = [config for run, config in runs.items() if run not in shared]
        cost = sum(seconds(config) or 0 for config in left if methods is None or config.method in methods)
        assert float(number) * (60 if unit == "minutes" else 3600) == pytest.approx(cost, rel=0.2), cost / 60


def _before(name: str) -> tuple[str, ...]:
    return {
        "warmup": ("cifar-symmetric", "cifar-asymmetric"),
        "wait": ("cifar-symmetric", "cifar-asymmetric"),
        "control": ("cifar-symmetric", "cifar-asymmetric"),
        "boot-network": ("binary-symmetric", "binary-asymmetric"),
        "binary-rate": ("binary-symmetric", "binary-asymmetric"),
        "binary-batch": ("binary-symmetric", "binary-asymmetric"),
        "oracle-steps": ("cifar-symmetric", "cifar-asymmetric"),
        "defaults": ("binary-symmetric", "binary-asymmetric", "cifar-symmetric", "cifar-asymmetric"),
    }.get(name, ())
