"""Figures are made from records alone."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from marvel.errors import InvalidInput
from marvel.report.figures import style
from marvel.report.figures.curves import curves, names

PNG = b"\x89PNG\r\n\x1a\n"


def record(method: str = "marvel", seed: int = 0, drops: tuple[int, ...] = (), **lines: Any) -> dict[str, Any]:
    default = {"test_accuracy": [0.1, 0.5, 0.9, 0.8], "memorisation_ratio": [0.1, 0.0, None, 1.0]}
    return {
        "config": {"method": method, "seed": seed, "drops": list(drops), "schedule": "drops"},
        "chosen": {} if method == "ce" else {"wait": 2, "warmup": 2},
        "curves": lines or default,
    }


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    saved: list[Figure] = []
    save = style.save

    def keep(figure: Figure, path: Path) -> None:
        saved.append(figure)
        save(figure, path)

    monkeypatch.setattr(style, "save", keep)
    return saved


def test_curves_is_a_picture_with_a_line_a_record(tmp_path: Path, drawn: list[Figure]) -> None:
    path = tmp_path / "new" / "curves.png"
    curves([record("ce"), record("marvel"), record("marvel+")], path)
    assert path.read_bytes().startswith(PNG)
    accuracy, memorisation = drawn[0].axes
    lines = {line.get_label(): line for line in accuracy.get_lines() if len(line.get_xdata()) > 0}  # type: ignore[arg-type]
    assert list(lines) == ["Cross entropy", "MARVEL", "MARVEL+"]
    assert list(lines["MARVEL"].get_xdata()) == [1, 2, 3, 4]  # type: ignore[arg-type]
    assert list(lines["MARVEL"].get_ydata()) == [10, 50, 90, 80]  # type: ignore[arg-type]
    assert [axes.get_title(loc="left") for axes in (accuracy, memorisation)] == ["Test accuracy", "Memorisation ratio"]


def test_colours_differ_and_so_do_dashes(tmp_path: Path, drawn: list[Figure]) -> None:
    curves([record("ce"), record("marvel"), record("marvel+")], tmp_path / "curves.png")
    lines = [line for line in drawn[0].axes[0].get_lines() if line.get_marker() == "None"]
    assert len({line.get_color() for line in lines}) == len({str(line._dash_pattern) for line in lines}) == 3  # type: ignore[attr-defined]


def test_drops_of_the_learning_rate_are_marked(tmp_path: Path, drawn: list[Figure]) -> None:
    curves([record("ce"), record("marvel", drops=(3, 99))], tmp_path / "curves.png")
    marks = [list(line.get_xdata()) for line in drawn[0].axes[0].get_lines() if line.get_marker() == "v"]  # type: ignore[arg-type]
    assert marks == [[3]]
    assert "learning rate falls" in [text.get_text() for text in drawn[0].legends[0].get_texts()]


def test_without_drops_there_is_no_word_of_them(tmp_path: Path, drawn: list[Figure]) -> None:
    constant = record("marvel", drops=(2,))
    constant["config"]["schedule"] = "constant"
    curves([constant], tmp_path / "curves.png")
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["MARVEL"]


def test_only_the_panels_there_is_something_for(tmp_path: Path, drawn: list[Figure]) -> None:
    curves([record("ce", test_accuracy=[0.5, 0.6])], tmp_path / "curves.png")
    assert len(drawn[0].axes) == 1
    with pytest.raises(InvalidInput, match="nothing to draw"):
        curves([record("ce", train_accuracy=[0.5])], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_names_tell_records_apart() -> None:
    assert names([record("ce"), record("sce")]) == ["Cross entropy", "SCE"]
    assert names([record("ce"), record("ce", seed=1)]) == ["Cross entropy, seed 0", "Cross entropy, seed 1"]


def test_the_style_does_not_leak(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    curves([record()], tmp_path / "curves.png")
    assert dict(matplotlib.rcParams) == before
