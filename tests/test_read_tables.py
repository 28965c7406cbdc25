"""CSV and Parquet tables: cells against pandas, features against formulas, one clear line for what cannot be meant."""

import codecs
import csv
import gzip
import io
import json
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marvel import data as datasets
from marvel.config import Config
from marvel.data.classes import class_name, number_labels
from marvel.data.columns import MOST_VALUES, TEXT, read_kinds
from marvel.data.csv_text import CsvText, read_csv
from marvel.errors import DataError, InvalidInput, MarvelError, UnknownName
from marvel.run import train

# Text as people type it: quotes, delimiters, line ends, letters of all kinds. No lone surrogates, which no file holds;
# no carriage return by itself either: pandas takes it for a line end even inside quotes.
ODD = st.text(
    st.one_of(st.sampled_from(",;\t|\"'\n \u00e9\u4f60=+-@#"), st.characters(exclude_categories=["Cs", "Cc"])),
    max_size=8,
)
NAMES = st.lists(
    st.text(string.ascii_letters + " _-", min_size=1, max_size=6).map(str.strip).filter(bool),
    min_size=2,
    max_size=5,
    unique=True,
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], str, dict[str, Any]]:
    names = draw(NAMES)
    rows = draw(st.lists(st.lists(ODD, min_size=len(names), max_size=len(names)), min_size=1, max_size=6))
    form = {
        "delimiter": draw(st.sampled_from(",;\t|")),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])),
        "lineterminator": draw(st.sampled_from(["\n", "\r\n"])),
    }
    return names, rows, draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), form


def written(path: Path, names: list[str], rows: list[list[str]], encoding: str = "utf-8", **form: Any) -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, **form)
        writer.writerow(names)
        writer.writerows(rows)
    return path


@settings(max_examples=150, deadline=None)
@given(tables())
def test_cells_are_those_that_were_written_and_those_that_pandas_reads(tmp_path_factory: Any, table: Any) -> None:
    names, rows, encoding, form = table
    path = written(tmp_path_factory.mktemp("csv") / "t.csv", names, rows, encoding, **form)
    found = read_csv(path)
    assert found.delimiter == form["delimiter"]
    ours = found.table()
    assert ours.column_names == names
    assert [list(row.values()) for row in ours.to_pylist()] == rows
    theirs = pandas.read_csv(
        path,
        sep=form["delimiter"],
        encoding=encoding,
        dtype=str,
        keep_default_na=False,
        index_col=False,
        skip_blank_lines=False,
    )
    assert theirs.to_numpy().tolist() == rows


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_text_of_the_records_is_the_file(tmp_path_factory: Any, table: Any) -> None:
    names, rows, encoding, form = table
    path = written(tmp_path_factory.mktemp("csv") / "t.csv", names, rows, encoding, **form)
    found = read_csv(path)
    again = "".join(record.text for record in found.records())
    assert found.mark + again.encode(found.encoding) == path.read_bytes()


def test_blank_lines_are_no_rows_and_a_last_line_needs_no_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\na,b\n\n1,2\r\n\n3,4")
    assert read_csv(path).table().to_pylist() == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,label\n", "has no rows; its columns are a, label"),
        (b'a,label\n1,"x\n2,y\n', "line 2: a quotation mark is never closed"),
        (b'a,label\n1,x\n"2"0,y\n', "line 3: .*in a quoted cell a quotation mark is written twice"),
        (b"a,label\n1,x\n2,y,z\n", "row 1 has 3 cells and the heading 2: '2,y,z'"),
        (b"a,label\n1,x\n2\n", "row 1 has 1 cells and the heading 2"),
        (b"# of 2024\na,label\n1,x\n", "the heading is taken to be '# of 2024'; delete what stands above it"),
        (b"a,label\n1,caf\xe9\n", "not UTF-8: byte 0xe9 in line 2; save the table as UTF-8"),
        (b"PK\x03\x04\x00\x00", "not a text file"),
    ],
)
def test_a_file_that_is_no_table_gets_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        datasets.load(str(path))
    assert "\n" not in str(caught.value)


def test_parquet_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        datasets.load(str(path))
    table = pyarrow.Table.from_arrays([pyarrow.array([1, 2]), pyarrow.array([1, 2])], names=["a", "a"])
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(DataError, match="several columns called 'a'"):
        datasets.load(str(path))


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    path = written(tmp_path / "t.csv", ["a", "label"], [["x" * 300_000, "p"], ["y", "q"]])
    assert len(read_csv(path).table()["a"][0].as_py()) == 300_000
    assert csv.field_size_limit() == limit


# ---------------------------------------------------------------------------------------------- the label


def flowers(n: int = 60) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    kind = np.arange(n) % 3
    return {
        "length": [round(float(v), 4) for v in rng.normal(kind, 0.3)],
        "colour": [str(c) for c in np.array(["red", "blue", "white"])[rng.integers(0, 3, n)]],
        "species": [str(s) for s in np.array(["ash", "birch", "cedar"])[kind]],
    }


def as_csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    rows = [["" if value is None else value for value in row] for row in zip(*columns.values())]
    return written(path, list(columns), rows)


def as_parquet(path: Path, columns: dict[str, Any]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize("name", ["label", "Target", "CLASS", "y"])
def test_the_usual_names_of_labels_are_found(tmp_path: Path, name: str) -> None:
    columns = flowers()
    path = as_csv(tmp_path / "t.csv", {name: columns.pop("species"), **columns})
    data = datasets.load(str(path))
    assert data.origin is not None and data.origin.label == name
    assert data.classes == ("ash", "birch", "cedar") and data.y.tolist() == [0, 1, 2] * 20


def test_a_label_that_is_not_there_says_the_columns(tmp_path: Path) -> None:
    path = str(as_csv(tmp_path / "t.csv", flowers()))
    with pytest.raises(InvalidInput, match="add --label and one of length, colour, species"):
        datasets.load(path)
    with pytest.raises(
        InvalidInput, match="no column 'specis'; did you mean 'species'. It has length, colour, species"
    ):
        datasets.load(path, label="specis")
    with pytest.raises(InvalidInput, match="did you mean 'species'"):
        datasets.load(path, label="SPECIES")
    with pytest.raises(InvalidInput, match="no column 'code'"):
        datasets.load(path, label="species", id="code")


def test_two_usual_names_are_settled_and_said(tmp_path: Path) -> None:
    columns = flowers()
    path = as_csv(
        tmp_path / "t.csv", {"y": columns["colour"], "label": columns["species"], "length": columns["length"]}
    )
    data = datasets.load(str(path))
    assert data.origin is not None and data.origin.label == "label"
    assert any("--label y takes the others" in note for note in data.notes)


@pytest.mark.parametrize("missing", ["", "  ", "NaN", "null", "N/A", "NA"])
def test_missing_labels_are_set_aside_and_said(tmp_path: Path, missing: str) -> None:
    columns = flowers()
    columns["species"][7] = missing
    data = datasets.load(str(as_csv(tmp_path / "t.csv", columns)), label="species")
    assert [(one.id, one.reason) for one in data.set_aside] == [("7", "no label")]
    assert data.origin is not None and 7 not in data.origin.rows and len(data) == 59
    assert data.ids is not None and data.ids[7] == "8" and data.origin.rows[7] == 8


def test_missing_labels_of_parquet_are_null_and_nan(tmp_path: Path) -> None:
    columns: dict[str, Any] = flowers()
    numbers = [float(k % 3) for k in range(60)]
    numbers[4] = float("nan")
    columns["species"] = pyarrow.array([None if k == 9 else v for k, v in enumerate(numbers)], from_pandas=False)
    data = datasets.load(str(as_parquet(tmp_path / "t.parquet", columns)), label="species")
    assert [one.id for one in data.set_aside] == ["4", "9"] and data.classes == ("0", "1", "2")


def by_datasets(path: Path, said: Any, numbers: Any = None) -> Path:
    """A table as Hugging Face `datasets` writes it: `said` is what it notes of the column `kind`."""
    columns: dict[str, Any] = flowers()
    del columns["species"]
    columns["kind"] = numbers or pyarrow.array([None if k == 4 else -1 if k == 9 else k % 3 for k in range(60)])
    columns["other"] = [(k + 1) % 3 - 1 for k in range(60)]
    note = said if isinstance(said, bytes) else json.dumps({"info": {"features": {"kind": said}}}).encode()
    table = pyarrow.table(columns).replace_schema_metadata({b"huggingface": note})
    pyarrow.parquet.write_table(table, path)
    return path


TREES = {"names": ["oak", "elm", "NA", "fir"], "_type": "ClassLabel"}


def test_parquet_of_datasets_has_the_names_of_its_classes(tmp_path: Path) -> None:
    path = by_datasets(tmp_path / "t.parquet", TREES)
    data = datasets.load(str(path), label="kind")
    assert data.classes == ("oak", "elm", "NA", "fir")  # in their order, and that of which there is no instance
    assert data.y.tolist() == [k % 3 for k in range(60) if k not in (4, 9)]
    assert [(one.id, one.reason) for one in data.set_aside] == [("4", "no label"), ("9", "no label")]
    assert datasets.load(str(path), label="other").classes == ("-1", "0", "1")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 2)))
    pair = datasets.load(str(tmp_path / "x.npy"), labels=str(path), label="kind")
    assert pair.classes[pair.y[0]] == "oak" and "4" in [one.id for one in pair.set_aside]


def test_a_run_on_parquet_of_datasets_says_names(tmp_path: Path) -> None:
    path = by_datasets(tmp_path / "t.parquet", TREES)
    config = Config(data=str(path), label="kind", epochs=2, drops=(), options={"warmup": 1}, device="cpu")
    (tmp_path / "c.csv").write_text("row,given,corrected\n0,oak,fir\n", encoding="utf-8")
    run = train(config.but(corrections=str(tmp_path / "c.csv")))
    assert run.data.classes[run.data.y[0]] == "fir" and run.record is not None
    assert run.record["data"]["classes"] == ["oak", "elm", "NA", "fir"]


@pytest.mark.parametrize(
    "said",
    [
        b"{", b"\xff", b"[]", b'{"info": null}', b"[" * 100_000, {"dtype": "int64", "_type": "Value"}, None,
        {"_type": "ClassLabel"}, {"names": "abc", "_type": "ClassLabel"}, {"names": [None] * 3, "_type": "ClassLabel"},
        {"names": ["a", "a", "b"], "_type": "ClassLabel"}, {"names": ["a", "b"], "_type": "ClassLabel"},
    ],
    ids=lambda said: str(said)[:40],
)  # fmt: skip
def test_names_that_do_not_fit_the_column_are_ignored(tmp_path: Path, said: Any) -> None:
    data = datasets.load(str(by_datasets(tmp_path / "t.parquet", said)), label="kind")
    assert data.classes == ("-1", "0", "1", "2") and [one.id for one in data.set_aside] == ["4"]


def test_a_column_of_names_needs_none(tmp_path: Path) -> None:
    data = datasets.load(str(by_datasets(tmp_path / "t.parquet", TREES, ["oak", "elm"] * 30)), label="kind")
    assert data.classes == ("elm", "oak")


def test_classes_are_in_the_order_of_numbers_or_of_the_alphabet() -> None:
    assert number_labels(["10", "9", "-1", "9"]).classes == ("-1", "9", "10")
    assert number_labels(["b", "a", None, "B"]).classes == ("B", "a", "b")
    assert number_labels([1.0, 2.0, float("nan")]).y.tolist() == [0, 1, -1]
    assert number_labels(["x", "1e3", "inf", "7"]).classes == ("7", "1e3", "inf", "x")
    assert [class_name(v) for v in (" cat ", b"cat", 3, 3.0, 2.5, True, None, "None")] == [
        "cat", "cat", "3", "3", "2.5", "True", None, "None",
    ]  # fmt: skip


@given(st.lists(st.one_of(st.none(), st.text(max_size=4), st.integers(-5, 5), st.floats()), max_size=30))
def test_a_numbered_label_names_the_value_it_came_from(values: list[Any]) -> None:
    labels = number_labels(values)
    names = [labels.classes[y] if y >= 0 else None for y in labels.y]
    assert names == [class_name(value) for value in values]
    assert len(set(labels.classes)) == len(labels.classes)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 60, "all 60 instances are labelled 'a'; there must be at least two classes"),
        (
            [f"{k}.5" for k in range(60)],
            "60 different labels for 60 instances are no classes; merge them, or --label names",
        ),
        ([""] * 60, "no row has a label"),
    ],
)
def test_labels_that_are_no_classes_are_refused(tmp_path: Path, labels: list[str], message: str) -> None:
    path = as_csv(tmp_path / "t.csv", {**flowers(), "species": labels})
    with pytest.raises(DataError, match=message):
        datasets.load(str(path), label="species")


def test_many_classes_and_single_instances_are_warned_about_and_trained_on(tmp_path: Path) -> None:
    columns = flowers()
    columns["species"] = [f"kind {k % 8}" for k in range(59)] + ["only one"]
    path = str(as_csv(tmp_path / "t.csv", columns))
    data = datasets.load(path, label="species")
    said = " ".join(data.notes)
    assert "9 classes for 60 instances are few" in said and "one instance of only one" in said
    run = train(Config(data=path, label="species", epochs=2, device="cpu"))
    assert run.record is not None


# ---------------------------------------------------------------------------------------------- features


def load_columns(tmp_path: Path, table: dict[str, Any], **options: Any) -> datasets.Data:
    table = {**table, "label": [["p", "q"][k // 2 % 2] for k in range(len(next(iter(table.values()))))]}
    return datasets.load(str(as_parquet(tmp_path / "t.parquet", table)), **options)


def test_numbers_are_standardised_and_what_is_missing_is_the_mean_with_a_mark(tmp_path: Path) -> None:
    numbers = [float(v) for v in np.random.default_rng(0).normal(1e9, 5.0, 40)]
    holes: list[float | None] = [None if k in (3, 11) else v for k, v in enumerate(numbers)]
    data = load_columns(tmp_path, {"a": numbers, "b": holes})
    x = data.x.numpy()
    assert x.shape == (40, 3) and data.mean == (0, 0, 0) and data.std == (1, 1, 1)
    a = np.array(numbers)
    np.testing.assert_allclose(x[:, 0], (a - a.mean()) / a.std(), rtol=1e-5)
    there = np.array([v for v in holes if v is not None])
    expected = [0.0 if v is None else (v - there.mean()) / there.std() for v in holes]
    np.testing.assert_allclose(x[:, 1], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x[:, 2], (np.array([v is None for v in holes]) - 0.05) / 0.5, rtol=1e-5)


def test_text_cells_of_a_csv_are_numbers_where_they_read_as_such(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.csv",
        ["a", "b", "label"],
        [[["1.5", " 2", "-3e2", "", "inf"][k % 5], "5" if k != 7 else "about 5", "pq"[k // 3 % 2]] for k in range(40)],
    )
    data = datasets.load(str(path), columns="a=number,b=number")
    a = np.array([[1.5, 2, -300, np.nan, np.nan][k % 5] for k in range(40)])
    np.testing.assert_allclose(data.x[:, 0], np.nan_to_num((a - np.nanmean(a)) / np.nanstd(a)), rtol=1e-5)
    assert data.shape == (4,)
    assert any("'b' holds numbers but for 1 cell, taken as missing: 'about 5' in row 7" in note for note in data.notes)


def test_a_comma_divides_numbers_where_semicolons_divide_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;label\n" + "".join(f"{k},5;{'pq'[k // 3 % 2]}\n" for k in range(20, 0, -1)))
    data = datasets.load(str(path))
    a = np.arange(20, 0, -1) + 0.5
    np.testing.assert_allclose(data.x[:, 0], (a - a.mean()) / a.std(), rtol=1e-5)


def test_categories_get_a_column_each_and_the_rare_ones_share_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    few = [str(v) for v in np.array(["x", "y", "z"])[rng.integers(0, 3, 400)]]
    many = [f"v{int(v)}" for v in rng.geometric(0.02, 400)]
    data = load_columns(tmp_path, {"few": few, "many": many})
    x = data.x.numpy()
    assert x.shape == (400, 3 + MOST_VALUES + 1)
    order = sorted(set(few), key=lambda value: (-few.count(value), value))
    for column, value in enumerate(order):
        hot = np.array([v == value for v in few])
        np.testing.assert_allclose(x[:, column], (hot - hot.mean()) / 0.5, atol=1e-6)
    counts = pandas.Series(many).value_counts()
    common = sorted(counts.index, key=lambda value: (-counts[value], value))[:MOST_VALUES]
    rest = np.array([v not in common for v in many])
    np.testing.assert_allclose(x[:, -1], (rest - rest.mean()) / 0.5, atol=1e-6)


def test_texts_are_hashed_alike_where_they_are_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    about = [["boats sail the wide sea", "engines drive fast cars"][k // 2 % 2] for k in range(60)]
    texts = [f"{text} number {rng.integers(10_000)} of {rng.integers(10_000)}" for text in about]
    data = load_columns(tmp_path, {"text": texts})
    assert 1 < data.shape[0] <= TEXT
    x = torch.nn.functional.normalize(data.x)
    alike = (x @ x.T).numpy()
    same = np.equal.outer(about, about) & ~np.eye(60, dtype=bool)
    assert alike[same].min() > alike[~same & ~np.eye(60, dtype=bool)].max()
    assert float(data.x.double().pow(2).mean()) == pytest.approx(1, rel=1e-4)


def test_texts_without_spaces_are_taken_by_their_letters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [
        [["猫在桌子上睡觉", "火车开得很快"][k // 2 % 2], *rng.choice(list("甲乙丙丁戊己庚辛"), 4)] for k in range(60)
    ]
    data = load_columns(tmp_path, {"text": ["".join(parts) for parts in words]})
    x = torch.nn.functional.normalize(data.x)
    assert float((x[0] * x[1]).sum()) > float((x[0] * x[2]).sum()) + 0.3


def test_embeddings_come_as_lists(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(3, 2, (40, 6))
    data = load_columns(tmp_path, {"embedding": list(map(list, vectors))})
    np.testing.assert_allclose(data.x, (vectors - vectors.mean(0)) / vectors.std(0), rtol=1e-4, atol=1e-5)
    ragged = [list(row[: 3 + k % 2]) for k, row in enumerate(vectors)]
    with pytest.raises(DataError, match="'embedding': list<.*> cells cannot be taken"):
        load_columns(tmp_path, {"embedding": ragged})


def test_what_says_nothing_or_everything_is_left_out(tmp_path: Path) -> None:
    n = 40
    columns: dict[str, Any] = {
        "": list(range(n)),
        "uuid": [f"{k:08x}" for k in np.random.default_rng(0).permutation(n)],
        "one": ["same"] * n,
        "none": pyarrow.array([None] * n, pyarrow.string()),
        "code": [["P1", "Q1"][k // 2 % 2] for k in range(n)],
        "real": [float(v) for v in np.random.default_rng(0).normal(size=n)],
        "label_corrected": ["p"] * n,
    }
    data = load_columns(tmp_path, columns, label="label")
    assert data.shape == (1,)
    said = next(note for note in data.notes if "left out" in note)
    for name, why in (("", "numbers the rows"), ("uuid", "names the rows"), ("one", "same in every row")):
        assert f"'{name}' (" in said and why in said
    assert "'none' (empty)" in said and "'code' (says the same as the label)" in said and "label_corrected" not in said
    assert load_columns(tmp_path, columns, label="label", columns="code=category,uuid=leave").shape == (3,)


@pytest.mark.parametrize("written", ["csv", "csv twice", "parquet", "parquet with a name", "datasets"])
def test_the_index_of_a_frame_is_no_feature(written: str, tmp_path: Path) -> None:
    """Rows that were sorted by label, and then chosen from: their numbers give the label away."""
    rng, rows = np.random.default_rng(0), np.arange(40) * 3 + 100
    frame = pandas.DataFrame({"real": rng.normal(size=40), "label": ["p"] * 20 + ["q"] * 20}, index=rows)
    frame = frame.sample(frac=1, random_state=0)
    path = tmp_path / ("table.csv" if written.startswith("csv") else "table.parquet")
    if written == "parquet with a name":
        frame.rename_axis("customer").to_parquet(path)
    elif written == "parquet":
        frame.to_parquet(path)
    elif written == "datasets":  # which keeps the column, and not what pandas says of it
        named = pyarrow.Table.from_pandas(frame).replace_schema_metadata(None)
        pyarrow.parquet.write_table(named, path)
    else:
        frame.to_csv(path)
        if written == "csv twice":
            pandas.read_csv(path).to_csv(path, index=False)
    data = datasets.load(str(path))
    assert data.shape == (1,)
    assert any("the index of a DataFrame" in note for note in data.notes)
    name = {"csv": "", "csv twice": "Unnamed: 0", "parquet with a name": "customer"}.get(written, "__index_level_0__")
    assert datasets.load(str(path), columns=f"{name}=number").shape == (2,)


@pytest.mark.parametrize("said", [b"", b"[", b"[]", b"{}", b'{"index_columns": 3}', b"[" * 100_000])
def test_whatever_a_file_says_of_its_index(said: bytes, tmp_path: Path) -> None:
    table = pyarrow.table({"real": np.random.default_rng(0).normal(size=40), "label": ["p", "q"] * 20})
    pyarrow.parquet.write_table(table.replace_schema_metadata({b"pandas": said}), tmp_path / "table.parquet")
    assert datasets.load(str(tmp_path / "table.parquet")).shape == (1,)


def test_a_table_in_memory_is_no_path() -> None:
    with pytest.raises(InvalidInput, match=r"name or a path, got DataFrame: from_arrays\(x, y\)"):
        datasets.load(pandas.DataFrame({"a": [1]}))  # type: ignore[arg-type]


def test_dates_booleans_and_small_types_are_numbers(tmp_path: Path) -> None:
    days = pandas.date_range("2024-01-01", periods=40, freq="7h")
    columns = {"at": pyarrow.array(days), "day": pyarrow.array(days.date), "yes": [k % 3 == 0 for k in range(40)]}
    data = load_columns(tmp_path, columns)
    at = days.astype("int64").to_numpy().astype(float)
    np.testing.assert_allclose(data.x[:, 0], (at - at.mean()) / at.std(), atol=1e-5)
    assert data.shape == (3,)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ"])
def test_dates_of_a_csv_are_numbers_as_in_parquet(tmp_path: Path, form: str) -> None:
    days = [pandas.Timestamp("2024-01-01") + pandas.Timedelta(days=(k * 37) % 400) for k in range(40)]
    cells = [day.strftime(form) if k != 5 else "" for k, day in enumerate(days)]
    columns = {"when": cells, "label": ["pq"[k // 2 % 2] for k in range(40)]}
    data = datasets.load(str(as_csv(tmp_path / "t.csv", columns)))
    assert any("'when' as number" in note for note in data.notes)
    at = np.array([np.nan if k == 5 else day.value for k, day in enumerate(days)], dtype=float)
    expected = np.nan_to_num((at - np.nanmean(at)) / np.nanstd(at))
    np.testing.assert_allclose(data.x[:, 0], expected, atol=1e-5)


def test_classes_that_differ_in_spelling_are_said(tmp_path: Path) -> None:
    for labels, said in (
        (["True", "TRUE", "no"], "'TRUE' and 'True' differ in spelling only"),
        (["1", "1.0", "2"], "'1' and '1.0' differ in spelling only"),
        (["caf\u00e9", "cafe\u0301", "tea"], "differ in spelling only"),
        (["a b", "a  B", "c"], "differ in spelling only"),
        (["1", "10", "one"], None),
    ):
        columns = {"a": [float(k * k % 7) for k in range(60)], "label": [labels[k // 2 % 3] for k in range(60)]}
        notes = " ".join(datasets.load(str(as_csv(tmp_path / "t.csv", columns))).notes)
        assert (said in notes) if said else "spelling" not in notes


def test_a_packed_table_is_to_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,label\n1,x\n"))
    with pytest.raises(DataError, match="is packed: unpack it first"):
        datasets.load(str(tmp_path / "t.csv.gz"))


def test_kinds_can_be_said(tmp_path: Path) -> None:
    columns = {"zip": [str(10_000 + k % 7) for k in range(40)], "b": [float(k % 5) for k in range(40)]}
    assert load_columns(tmp_path, columns).shape == (2,)
    assert load_columns(tmp_path, columns, columns="zip=category").shape == (8,)
    assert load_columns(tmp_path, columns, columns="zip=text, b=leave").shape == (7,)
    with pytest.raises(UnknownName, match="no column of t.parquet 'zp'; did you mean 'zip'"):
        load_columns(tmp_path, columns, columns="zp=category")
    with pytest.raises(UnknownName, match="no kind of column 'categry'; did you mean 'category'"):
        read_kinds("zip=categry")
    with pytest.raises(InvalidInput, match="name=kind"):
        read_kinds("zip")
    assert read_kinds("a=b=number, x y=leave,") == {"a=b": "number", "x y": "leave"}


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "t.csv", {"label": ["a", "b"] * 20})
    with pytest.raises(DataError, match="no column to learn from"):
        datasets.load(str(path))


def test_huge_numbers_stay_finite(tmp_path: Path) -> None:
    data = load_columns(tmp_path, {"a": [1e308 * (-1) ** k for k in range(40)], "b": [1e-320 * k for k in range(40)]})
    assert torch.isfinite(data.x).all() and data.x[:, 0].abs().mean() == pytest.approx(1)


def test_a_split_column_gives_a_test_set_that_nothing_is_learned_from(tmp_path: Path) -> None:
    a = [float(v) for v in np.random.default_rng(0).normal(size=40)]
    split = ["test" if k >= 30 else "val" if k >= 28 else "train" for k in range(40)]
    columns: dict[str, Any] = {"a": a, "split": split, "c": ["new" if k >= 30 else "ab"[k % 2] for k in range(40)]}
    data = load_columns(tmp_path, columns)
    known = np.array(a[:28])
    np.testing.assert_allclose(data.x[:, 0], (known - known.mean()) / known.std(), rtol=1e-4)
    assert data.test_x is not None and len(data.test_x) == 10 and data.shape == (3,)
    np.testing.assert_allclose(data.test_x[:, 0], (np.array(a[30:]) - known.mean()) / known.std(), rtol=1e-4)
    assert any("28 rows are trained on, 10 are the test set" in note for note in data.notes)
    assert datasets.load(str(tmp_path / "t.parquet"), columns="c=leave").shape == (1,)
    columns["split"] = ["a", "b"] * 20
    assert load_columns(tmp_path, columns).test_x is None


# ---------------------------------------------------------------------------------------------- ids and origin


def test_rows_and_ids_say_where_an_instance_is(tmp_path: Path) -> None:
    columns = {**flowers(), "name": [f"f{k}" for k in range(60)]}
    path = as_csv(tmp_path / "t.csv", columns)
    data = datasets.load(str(path), label="species", id="name")
    assert data.origin is not None and data.ids is not None
    assert data.origin.facts() == {
        "kind": "table", "path": str(path.resolve()), "label": "species", "paths": None, "id": "name", "labels": None,
        "part": None,
    }  # fmt: skip
    assert data.ids == tuple(columns["name"]) and data.origin.rows.tolist() == list(range(60))
    part = data.take([5, 2])
    assert part.ids == ("f5", "f2") and part.origin is not None and part.origin.rows.tolist() == [5, 2]
    only = data.only((0, 2))
    assert only.ids is not None and only.origin is not None
    assert [f"f{row}" for row in only.origin.rows] == list(only.ids) and len(only.ids) == 40
    rest, _, _ = data.hold_out(0.2, np.random.default_rng(0))
    assert rest.ids is not None and rest.origin is not None and [f"f{r}" for r in rest.origin.rows] == list(rest.ids)


def test_ids_that_cannot_tell_instances_apart_are_refused(tmp_path: Path) -> None:
    columns = {**flowers(), "name": [f"f{k % 59}" for k in range(60)]}
    path = as_csv(tmp_path / "t.csv", columns)
    with pytest.raises(DataError, match="'f0' is in rows 0 and 59"):
        datasets.load(str(path), label="species", id="name")
    columns["name"][3] = ""
    with pytest.raises(DataError, match="empty in row 3"):
        datasets.load(str(as_csv(path, columns)), label="species", id="name")


def test_a_run_says_where_its_instances_came_from(tmp_path: Path) -> None:
    columns = flowers()
    columns["species"][7] = ""
    path = as_csv(tmp_path / "t.csv", columns)
    run = train(Config(data=str(path), label="species", epochs=2, device="cpu"), tmp_path / "run")
    assert run.folder is not None and run.folder.config is not None
    facts = run.folder.config["data"]
    assert datasets.Origin.of(facts["origin"]) == run.data.origin
    assert facts["set_aside"] == [{"id": "7", "reason": "no label", "row": 7}] and len(facts["notes"]) == 1
    written = run.folder.instances()
    assert written["id"].tolist() == list(run.data.ids or ()) and written["row"].tolist() == [*range(7), *range(8, 60)]
    given = [run.data.classes[y] for y in written["given"]]
    assert given == [columns["species"][row] for row in written["row"]]


@pytest.mark.parametrize("settings", [{"labels": "y.npy"}, {"label": "y", "paths": "x"}])
def test_settings_a_format_has_no_use_for_are_refused(tmp_path: Path, settings: dict[str, str]) -> None:
    for name in ("digits", str(tmp_path)):
        with pytest.raises(MarvelError, match=f"no use for {next(iter(settings))}"):
            datasets.load(name, **settings)


def test_columns_of_one_name_are_told_apart(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.csv", ["a", "a", "label"], [[str(k % 7), str(k % 5), "pq"[k // 2 % 2]] for k in range(40)]
    )
    assert datasets.load(str(path)).shape == (2,) and read_csv(path).heading == ["a", "a.2", "label"]


def test_the_reader_asks_for_no_line_too_many() -> None:
    """Records are cut where the csv module ends them: within quotes a line end belongs to the cell."""
    text = 'a,b\n"1\n\n2",3\r\n4,"5\r\n"'
    found = CsvText(Path("t"), codecs.BOM_UTF8, "utf-8", text, ",")
    assert [record.text for record in found.records()] == ["a,b\n", '"1\n\n2",3\r\n', '4,"5\r\n"']
    assert [record.cells for record in found.records()] == list(csv.reader(io.StringIO(text, newline="")))


def test_texts_are_told_apart_by_the_words_they_share(tmp_path: Path) -> None:
    """Wrong labels of texts are found: a label is suspect where nearest texts have another."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(400)])
    topic = np.arange(200) % 4
    weight = np.where(np.arange(400) // 100 == topic[:, None], 8.0, 1.0)
    texts = [" ".join(rng.choice(words, 25, p=row / row.sum())) for row in weight]
    path = written(tmp_path / "t.csv", ["text", "label"], [[text, f"t{k}"] for text, k in zip(texts, topic)])
    x = torch.nn.functional.normalize(datasets.load(str(path)).x)
    nearest = (x @ x.T - 2 * torch.eye(200)).topk(5).indices.numpy()
    assert (topic[nearest] == topic[:, None]).mean() > 0.9


def test_the_fingerprint_of_texts_is_of_the_texts(tmp_path: Path) -> None:
    def data(change: str = "", label: str = "p") -> datasets.Data:
        rows = [[f"some words here {k * k} {change if k == 7 else ''}", "pq"[k // 2 % 2]] for k in range(30)]
        rows[0][1] = label
        return datasets.load(str(written(tmp_path / "t.csv", ["text", "label"], rows)))

    first = data()
    assert first.fingerprint() == data().fingerprint()
    nudged = replace(first, x=first.x * (1 + 1e-6))
    assert nudged.fingerprint() == first.fingerprint()
    prints = {d.fingerprint() for d in (first, data("more"), data(label="q"), first.take(range(29)))}
    assert len(prints) == 4


def test_texts_without_words_or_without_company(tmp_path: Path) -> None:
    rows = [[text, "pq"[k // 2 % 2]] for k, text in enumerate(["!?", "...", "one of its own kind", ""] * 5)]
    data = datasets.load(str(written(tmp_path / "t.csv", ["text", "label"], rows)), columns="text=text")
    assert torch.isfinite(data.x).all()
    rows = [["!?", "p"], ["...", "q"]] * 8
    data = datasets.load(str(written(tmp_path / "t.csv", ["text", "label"], rows)), columns="text=text")
    assert data.shape == (1,) and not data.x.any()
