"""Corrected labels read back: what they say happens, and what does not fit gets one clear line."""

import csv
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marvel import data as datasets
from marvel.config import Config
from marvel.data.corrections import correct
from marvel.data.csv_text import guarded, line_of, unguarded
from marvel.errors import DataError, InvalidInput, UnknownName
from marvel.run import read, train


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "a", "label"])
        for k in range(40):
            writer.writerow([f"i{k}", round(float(rng.normal(k % 2)), 3), "" if k == 5 else ["no", "yes"][k % 2]])
    return path


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_labels_are_corrected_and_instances_left_out(table: Path, tmp_path: Path) -> None:
    lines = ["id,row,given,corrected,action", "i3,3,yes,no,accept", "i4,4,no,,aside", "i6,6,no,no,keep", "i5,5,,,aside"]
    path = written(tmp_path / "corrections.csv", lines)
    before = datasets.load(str(table), id="name")
    after = read(Config(data=str(table), id="name", corrections=str(path)))
    assert after.ids == tuple(id for id in before.ids or () if id != "i4")
    names = dict(zip(after.ids or (), (after.classes[y] for y in after.y)))
    assert names["i3"] == "no" and names["i6"] == "no" and names["i7"] == "yes"
    assert [(one.id, one.row, one.reason) for one in after.set_aside] == [
        ("i5", 5, "no label"), ("i4", 4, "set aside in corrections.csv"),
    ]  # fmt: skip
    assert "corrections.csv: 1 label is corrected and 1 instance left out" in after.notes
    assert after.fingerprint() != before.fingerprint()


def test_by_row_and_without_the_other_columns(table: Path, tmp_path: Path) -> None:
    data = datasets.load(str(table), id="name")
    after = correct(data, written(tmp_path / "c.csv", ["row,corrected", "3,no", "0,yes"]))
    assert [(a, b) for a, b in zip(data.y.tolist(), after.y.tolist()) if a != b] == [(0, 1), (1, 0)]
    pyarrow.parquet.write_table(pyarrow.table({"row": [3, 0], "corrected": ["no", "yes"]}), tmp_path / "c.parquet")
    assert correct(data, tmp_path / "c.parquet").y.tolist() == after.y.tolist()


def test_a_dataset_by_name_is_corrected_by_index(tmp_path: Path) -> None:
    data = datasets.load("digits")
    path = written(tmp_path / "c.csv", ["row,given,corrected,action", f"7,{int(data.y[7])},3,", "9,,,aside"])
    after = correct(data, path)
    assert len(after) == len(data) - 1 and int(after.y[7]) == 3 and int(after.y[9]) == int(data.y[10])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id,label", "i3,no"], "needs the column corrected, and id or row; it has id, label"),
        (["name,corrected", "i3,no"], "needs the column corrected, and id or row"),
        (["id,corrected", "i99,no", "i98,no"], "corrects 2 instances that are not in t, e.g. 'i99'"),
        (["id,corrected", "i3,mabye"], "no class of t 'mabye'"),
        (["id,corrected", "i3,yess"], "did you mean 'yes'"),
        (["id,given,corrected", "i3,no,yes"], "was made for other labels: 'i3' was 'no' and is 'yes'"),
        (["id,corrected", "i3,no", "i3,yes"], "corrects 'i3' twice"),
        (["id,corrected,action", "i3,,keep"], r"row 0 \(i3\) says no label"),
        (["id,corrected", ",no"], "row 0 has no id"),
        (["id,corrected", "i99,no"], "give the --id with which the ids were written"),
        (["row,corrected", "99,no"], "rows are counted from 0"),
        (["row,corrected,action", *(f"{row},,aside" for row in range(40))], "leaves out every instance of t"),
    ],
)
def test_corrections_that_do_not_fit_get_one_clear_line(
    table: Path, tmp_path: Path, lines: list[str], message: str
) -> None:
    path = written(tmp_path / "c.csv", lines)
    with pytest.raises(InvalidInput, match=message) as caught:
        correct(datasets.load(str(table), id="name"), path)
    assert "\n" not in str(caught.value) and str(caught.value)


def test_labels_for_what_was_set_aside_are_not_passed_over_in_silence(table: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "c.csv", ["id,corrected,action", "i5,no,choose", "i6,yes,choose"])
    after = correct(datasets.load(str(table), id="name"), path)
    assert "1 label is corrected and 0 instances left out; 1 label is of instances" in after.notes[-1]


def test_corrections_that_leave_one_class_are_refused(table: Path, tmp_path: Path) -> None:
    lines = [f"{row},,aside" for row in range(1, 40, 2)]
    with pytest.raises(DataError, match="t after c.csv: all 20 instances are labelled 'no'"):
        correct(datasets.load(str(table)), written(tmp_path / "c.csv", ["row,corrected,action", *lines]))


def test_files_that_are_no_corrections(tmp_path: Path) -> None:
    data = datasets.load("digits")
    with pytest.raises(InvalidInput, match="no file of corrections at"):
        correct(data, tmp_path / "no.csv")
    (tmp_path / "c.txt").write_text("")
    with pytest.raises(InvalidInput, match="come from a .csv"):
        correct(data, tmp_path / "c.txt")
    with pytest.raises(UnknownName, match="no class of digits 'x'"):
        correct(data, written(tmp_path / "c.csv", ["row,corrected", "1,x"]))


def test_a_run_with_corrections_is_another_run(table: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "c.csv", ["id,corrected,action", "i3,no,", "i4,,aside"])
    run = train(Config(data=str(table), id="name", corrections=str(path), epochs=2, device="cpu"), tmp_path / "run")
    assert run.folder is not None and run.folder.config is not None
    assert run.folder.config["config"]["corrections"] == str(path)
    found = run.folder.instances()
    assert run.data.classes[found["given"][found["id"].tolist().index("i3")]] == "no"
    assert "i4" not in found["id"].tolist()


@given(st.text(st.one_of(st.sampled_from("'=+-@\t\r0123456789."), st.characters()), max_size=6))
def test_formulas_are_guarded_and_come_back(cell: str) -> None:
    safe = guarded(cell)
    assert unguarded(safe) == cell
    number = cell.startswith("-") and cell[1:].replace(".", "", 1).isdigit()
    assert safe[:1] not in ("=", "+", "@", "\t", "\r") and (number or safe[:1] != "-")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=2, max_size=4))
def test_a_written_line_is_read_back_by_the_csv_module(cells: list[str]) -> None:
    for delimiter in ",;\t":
        assert list(csv.reader([line_of(cells, delimiter)], delimiter=delimiter)) == [cells]
