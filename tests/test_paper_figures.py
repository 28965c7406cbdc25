"""The figures, of the paper and our own, show what the records hold and say what they lack; those kept are of them."""

import math
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from marvel.report.cells import Cell, Runs, read_results
from marvel.report.course import course as course_table
from marvel.report.figures import (
    course,
    kept_labels,
    margin_distribution,
    margin_quantiles,
    memorisation,
    phases,
    positive_margins,
    remaining,
    style,
    warmup,
    weight_function,
)
from marvel.report.figures.__main__ import main
from marvel.report.figures.all import EVERY, FIGURES, out_of_date, page, shown
from marvel.report.figures.sheet import PaperFigure, write
from paper_records import flat, paper_record

ROOT = Path(__file__).resolve().parent.parent


def picture(figure: PaperFigure, records: list[dict[str, Any]]) -> Figure:
    with matplotlib.rc_context(style.style()):
        return figure.picture(Runs(records))


def line(figure: Figure, place: int, label: str) -> tuple[list[float], list[float]]:
    found = {one.get_label(): one for one in figure.axes[place].get_lines()}[label]
    return list(found.get_xdata()), list(found.get_ydata())  # type: ignore[arg-type]


def texts(figure: Figure, place: int) -> list[str]:
    return [text.get_text() for text in figure.axes[place].texts]


def test_they_are_all_there() -> None:
    told = ["1", "2", "3", "4 (a)", "4 (b)", "5", "6", "7", "8", "9"]
    assert [figure.number for figure in FIGURES] == [f"Figure {number}" for number in told]
    assert len({figure.name for figure in EVERY}) == len(EVERY) == len(FIGURES) + 1


def test_curves_are_means_and_bands_over_the_seeds() -> None:
    records = [
        paper_record(
            cell, seed, curves={key: flat(value + 0.1 * seed, 100) for key in ("test_accuracy", "memorisation_ratio")}
        )
        for cell, value in zip(phases.CELLS, (0.5, 0.7))
        for seed in range(3)
    ]
    figure = picture(phases.FIGURE, records)
    x, y = line(figure, 0, "Cross entropy")
    assert x == list(range(1, 101)) and y == pytest.approx([60.0] * 100)
    band = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (min(band), max(band)) == pytest.approx((50.0, 70.0))  # the standard deviation of 50, 60, 70 is 10
    dashed = [one.get_xdata()[0] for one in figure.axes[0].get_lines() if len(set(one.get_xdata())) == 1]  # type: ignore[index,arg-type]
    assert dashed == [75, 90]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Cross entropy", "MARVEL+"]


def test_one_run_has_no_band() -> None:
    curves = {key: flat(0.5, 100) for key in ("test_accuracy", "memorisation_ratio")}
    figure = picture(phases.FIGURE, [paper_record(cell, curves=curves) for cell in phases.CELLS])
    assert not figure.axes[0].collections


def test_what_is_lacking_is_said_on_the_panel() -> None:
    curves = {"memorisation_ratio": flat(0.5, 100)}
    figure = picture(
        memorisation.BINARY_FIGURE, [paper_record(Cell("cat-dog", "symmetric", (0.2,), "ce"), curves=curves)]
    )
    assert "not run: GCE, SCE, NPCL, MARVEL+" in texts(figure, 2)
    assert any("Not run yet:\nCross entropy\nGCE" in text for text in texts(figure, 0))
    assert not figure.axes[0].axison


def test_npcl_is_shown_by_every_second_epoch() -> None:
    cell = Cell("truck-car", "symmetric", (0.2,), "npcl")
    figure = picture(
        memorisation.BINARY_FIGURE,
        [
            paper_record(cell, curves={"memorisation_ratio": [k / 400 for k in range(1, 201)]}),
            paper_record(cell.by("ce"), curves={"memorisation_ratio": [k / 400 for k in range(1, 101)]}),
        ],
    )
    x, y = line(figure, 0, "NPCL")
    assert x == list(range(1, 101)) and y == pytest.approx([100 * 2 * k / 400 for k in x])
    assert line(figure, 0, "Cross entropy")[1] == pytest.approx([100 * k / 400 for k in x])
    assert figure.axes[0].get_xlim() == (0, 100)


def test_drops_are_marks_where_methods_differ_in_them() -> None:
    cell = Cell("cifar10", "symmetric", (0.4,), "ce")
    curves = {"memorisation_ratio": [k / 200 for k in range(1, 121)]}
    figure = picture(memorisation.MULTI_FIGURE, [paper_record(one, curves=curves) for one in (cell, cell.by("marvel"))])
    marks = [
        (list(one.get_xdata()), list(one.get_ydata())) for one in figure.axes[0].get_lines() if one.get_marker() == "v"
    ]  # type: ignore[arg-type]
    assert [x for x, _ in marks] == [[40, 80], [80, 100], []]
    assert marks[0][1] == pytest.approx([20, 40])


def test_panels_of_memorisation_have_one_scale() -> None:
    low, high = Cell("cifar10", "symmetric", (0.4,), "ce"), Cell("cifar10", "circular", (0.4,), "ce")
    records = [paper_record(cell, curves={"memorisation_ratio": flat(v, 120)}) for cell, v in ((low, 0.1), (high, 0.7))]
    figure = picture(memorisation.MULTI_FIGURE, records)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim() and figure.axes[0].get_ylim()[1] > 80


def test_positive_margins_are_shares_of_each_kind() -> None:
    cell = Cell("truck-car", "symmetric", (0.2,), "marvel")
    apex = [
        {"noisy": [60, 20, 10, 5, 5, 0], "clean": [0, 0, 0, 0, 100, 300]},
        {"noisy": [80, 0, 10, 5, 5, 0], "clean": [0, 0, 0, 0, 0, 400]},
    ]
    figure = picture(positive_margins.FIGURE, [paper_record(cell, seed, apex=one) for seed, one in enumerate(apex)])
    heights = [bar.get_height() for bar in figure.axes[0].patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx([70, 10, 10, 5, 5, 0, 0, 0, 0, 0, 12.5, 87.5])


def test_remaining_begins_with_all_of_them() -> None:
    cell = Cell("cat-dog", "pair", (0.4, 0.0), "marvel+")
    curves = {"noisy_remaining": [200] * 50 + [100] * 50, "clean_remaining": [800] * 60 + [700] * 40}
    figure = picture(remaining.FIGURE, [paper_record(cell, curves=curves)])
    assert line(figure, 1, "wrong labels")[1] == [100] * 50 + [50] * 50
    assert line(figure, 1, "right labels")[1][-1] == 87.5
    assert {"50 %", "88 %"} <= set(texts(figure, 1))


def test_the_weight_function_is_the_papers() -> None:
    margins = np.linspace(-4, 8, 50)
    expected = [math.exp(-((m - 2) ** 2) / 6) if m <= 2 else math.exp(-0.5) for m in margins]
    assert weight_function.weight(margins) == pytest.approx(expected)
    assert weight_function.FIGURE.can_be_drawn(Runs([]))
    assert len(picture(weight_function.FIGURE, []).axes) == 1


def test_quantiles_are_of_the_survivors() -> None:
    survivors = [[-1.0, 0.0, k / 10, 2.0, 3.0] for k in range(100)]
    curves = {"margin_survivors": survivors, "margin_quantiles": flat([9.0] * 5, 100)}
    figure = picture(margin_quantiles.FIGURE, [paper_record(margin_quantiles.PLUS, curves=curves)])
    assert line(figure, 0, "MARVEL+, median")[1] == pytest.approx([k / 10 for k in range(100)])
    assert line(figure, 0, "MARVEL+, 5 % quantile")[1] == [-1.0] * 100
    assert "not run: Cross entropy" in texts(figure, 0)


def test_the_distribution_has_area_one_and_marks_median_and_deviation() -> None:
    kept = {"survivors": [10, 30, 40, 20], "range": [-2.0, 6.0], "moments": {"survivors": [2.4, 1.5]}}
    record = paper_record(
        margin_distribution.PLUS,
        histograms={"25": kept, "75": kept},
        curves={"margin_survivors": flat([-1.0, 1.0, 2.0, 4.0, 5.0], 100)},
    )
    figure = picture(margin_distribution.FIGURE, [record])
    values, edges, _ = figure.axes[0].patches[0].get_data()  # type: ignore[attr-defined]
    assert list(edges) == [-2, 0, 2, 4, 6] and list(values) == pytest.approx([0.05, 0.15, 0.2, 0.1])
    dashed = [one.get_xdata()[0] for one in figure.axes[0].get_lines() if len(one.get_xdata()) == 2]  # type: ignore[index,arg-type]
    assert dashed == pytest.approx([0.5, 2.0, 3.5])


def test_a_record_without_moments_gives_them_from_its_histogram() -> None:
    """As the first records have them: 64 bins from -16 to 16, and nothing else."""
    counts = [0] * 64
    counts[32], counts[36] = 50, 50  # around 0.25 and 2.25
    found = margin_distribution.moments({"histograms": {"25": {"survivors": counts}}}, "25")
    assert found == pytest.approx((1.25, 1.0))


def test_the_warmup_is_read_off_three_curves() -> None:
    cell = Cell("cifar100", "symmetric", (0.6,), "ce")
    curves = {
        key: flat(value, 150)
        for key, value in (("train_accuracy", 0.3), ("test_accuracy", 0.5), ("memorisation_ratio", 0.1))
    }
    figure = picture(warmup.FIGURE, [paper_record(cell, curves=curves)])
    assert line(figure, 1, "training accuracy, given labels")[1] == [30.0] * 150
    assert line(figure, 1, "test accuracy, clean labels")[1] == [50.0] * 150
    assert line(figure, 1, "memorisation ratio")[1] == [10.0] * 150


def test_kept_labels_by_noise() -> None:
    records = [
        paper_record(
            Cell("cifar10", "symmetric", (rate,), "marvel"),
            seed,
            final={"label_precision": p + 0.1 * seed, "label_recall": 0.5},
        )
        for rate, p in ((0.2, 0.8), (0.6, 0.6))
        for seed in range(2)
    ]
    figure = picture(kept_labels.FIGURE, records)
    assert line(figure, 0, "CIFAR-10, symmetric") == ([20.0, 60.0], pytest.approx([85.0, 65.0]))
    assert line(figure, 1, "CIFAR-10, symmetric")[1] == [50.0, 50.0]
    assert len(figure.axes[0].collections) == 1 and not figure.axes[1].collections  # whiskers where there is a spread
    assert "not run: 10 of 12" in texts(figure, 0)


def test_a_few_missing_runs_with_long_names_leave_the_panels_their_room() -> None:
    """Named one by one they would be wider than the panel, and the layout is given up with a warning."""
    final = {"label_precision": 0.9, "label_recall": 0.8}
    records = [paper_record(cell, 0, final=final) for cell in kept_labels.CELLS if cell.data == "cifar10"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = picture(kept_labels.FIGURE, records)
    assert "not run: 6 of 12" in texts(figure, 0)
    one = picture(kept_labels.FIGURE, [paper_record(cell, 0, final=final) for cell in kept_labels.CELLS[1:]])
    assert "not run: cifar10, 20 % symmetric" in texts(one, 0)


CIFAR, WORST, DIGITS = course.SHOWN


def semi_record(cell: Cell, seed: int = 0, **config: Any) -> dict[str, Any]:
    """Ten instances, seven of them wrong: six are removed in the second epoch, one comes back in the fourth."""
    told = {"network": cell.network, "epochs": cell.epochs, "seed": seed, "options": {"wait": 3, **dict(cell.options)}}
    return {
        "config": {**cell.config(), **told, **config},
        "data": {"name": cell.data, "n": 10},
        "chosen": {"warmup": 1},
        "final": {},
        "curves": {
            "clean_remaining": [3, 2, 2, 3],
            "noisy_remaining": [7, 2, 2, 2],
            "returned": [0, 0, 0, 1],
            "suggestion_accuracy": [None, 0.4, 0.6, 0.8],
            "test_accuracy": [0.2, 0.3, 0.5, 0.75],
        },
    }


def test_the_course_of_a_run_that_removes_and_returns() -> None:
    figure = picture(course.FIGURE, [semi_record(DIGITS)])
    assert len(figure.axes) == 2  # what was not run is left out
    assert line(figure, 0, "kept, label right") == ([1, 2, 3, 4], pytest.approx([30, 20, 20, 30]))
    assert line(figure, 0, "kept, label wrong")[1] == pytest.approx([70, 20, 20, 20])
    assert line(figure, 0, "removed")[1] == pytest.approx([0, 60, 60, 50])
    assert line(figure, 0, "returned")[1] == pytest.approx([0, 0, 0, 10])
    assert line(figure, 1, "guesses right")[1] == pytest.approx([math.nan, 40, 60, 80], nan_ok=True)
    assert line(figure, 1, "test accuracy")[1] == pytest.approx([20, 30, 50, 75])
    assert "warm-up ends" in texts(figure, 1)
    assert figure.axes[0].get_title(loc="left") == "(a) digits"


def test_the_course_is_of_one_run_and_its_lines_differ_also_in_grey() -> None:
    other = semi_record(DIGITS, seed=1)
    other["curves"] = {key: flat(0, 4) for key in other["curves"]}
    figure = picture(course.FIGURE, [other, semi_record(DIGITS)])
    assert line(figure, 0, "kept, label right")[1] == pytest.approx([30, 20, 20, 30])
    looks = [*course.LEDGER.values(), *course.GUESSES.values()]
    assert len({colour for _, colour, _ in looks}) == len(looks)
    assert all(
        len({str(dash) for _, _, dash in part.values()}) == len(part) for part in (course.LEDGER, course.GUESSES)
    )


def test_cifar_comes_first_where_it_was_run() -> None:
    figure = picture(course.FIGURE, [semi_record(cell) for cell in (DIGITS, WORST, CIFAR)])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[::2] == ["(a) CIFAR-10", "(c) CIFAR-10N", "(e) digits"]


@pytest.mark.parametrize(
    "config", [{"options": {"back": None}}, {"options": {"warmup": 5}}, {"epochs": 300}, {"network": "resnet32"}]
)
def test_controls_and_other_budgets_are_not_the_course(config: dict[str, Any]) -> None:
    for cell in (CIFAR, DIGITS):
        assert not course.FIGURE.can_be_drawn(Runs([semi_record(cell, **config)]))
        assert course.FIGURE.can_be_drawn(Runs([semi_record(cell)]))


def test_the_numbers_below_the_course() -> None:
    runs = Runs([semi_record(CIFAR)])
    assert course_table(runs).splitlines()[2:] == [
        "| cifar10, 80 % symmetric, resnet18 | 1 | 3 | 7 | 0 | 0 | – | 20.0 |",
        "| cifar10, 80 % symmetric, resnet18 | 2 | 2 | 2 | 6 | 0 | 40.0 | 30.0 |",
        "| cifar10, 80 % symmetric, resnet18 | 3 | 2 | 2 | 6 | 0 | 60.0 | 50.0 |",
        "| cifar10, 80 % symmetric, resnet18 | 4 | 3 | 2 | 5 | 1 | 80.0 | 75.0 |",
    ]
    assert course_table(Runs([])) == "Not run yet."
    assert "Lacking: MARVEL-semi on cifar10n-worst, resnet18; MARVEL-semi on digits" in shown(course.FIGURE, runs)


def test_methods_look_different_also_in_grey() -> None:
    looks = {(str(look["linestyle"]), look["linewidth"]) for look in style.LOOKS.values()}
    assert len(looks) == len({look["color"] for look in style.LOOKS.values()}) == len(style.LOOKS)


# ---------------------------------------------------------------- files


def some() -> list[dict[str, Any]]:
    curves = {key: flat(0.5, 100) for key in ("test_accuracy", "memorisation_ratio")}
    return [paper_record(cell, curves=curves) for cell in phases.CELLS]


def test_the_same_runs_make_the_same_file_and_others_another(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(phases.FIGURE, Runs(some()), tmp_path / folder)
    assert (tmp_path / "a" / "phases.svg").read_bytes() == (tmp_path / "b" / "phases.svg").read_bytes()
    assert (tmp_path / "a" / "phases.png").read_bytes().startswith(b"\x89PNG")
    assert phases.FIGURE not in out_of_date(Runs(some()), tmp_path / "a")
    more = [*some(), *(record | {"config": record["config"] | {"seed": 1}} for record in some())]
    assert phases.FIGURE in out_of_date(Runs(more), tmp_path / "a")
    assert phases.FIGURE in out_of_date(Runs(some()), tmp_path / "nowhere")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = [str(ROOT / "results" / "core.jsonl"), "--out", str(tmp_path)]
    assert main([*results, "--check"]) == 1
    assert f"{tmp_path}/phases.svg is out of date" in capsys.readouterr().out
    assert main([*results, "--only", "weight-function"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weight-function.png", "weight-function.svg"]
    assert main([*results, "--only", "remaining"]) == 0
    said = capsys.readouterr().out
    assert "remaining cannot be drawn yet\n    lacks MARVEL+ on truck-car, 20 % symmetric" in said
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path / "nothing.jsonl")])
    assert stopped.value.code == 2 and "nothing.jsonl" in capsys.readouterr().err


def test_the_page_shows_what_can_be_drawn_and_names_the_rest() -> None:
    shown = page(Runs(some()))
    assert "[![Figure 1](figures/phases.png)](figures/phases.svg)" in shown
    assert "figures/remaining.png" not in shown
    assert "Lacking: MARVEL+ on truck-car, 20 % symmetric; MARVEL+ on cat-dog, (40 %, 0 %)." in shown


def test_the_pictures_are_those_of_the_records() -> None:
    late = out_of_date(Runs(read_results([ROOT / "results"])), ROOT / "docs" / "figures")
    assert [figure.name for figure in late] == [], "run: python -m marvel.report.figures results"
