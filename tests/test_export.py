"""Export: what was decided stands in the new data, all else is as it was, and nothing that is there is touched."""

import csv
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from marvel import data as datasets
from marvel.cli import main
from marvel.config import Config
from marvel.data.classes import class_name
from marvel.errors import FolderError, InvalidInput, MarvelError, UnknownName
from marvel.export import export
from marvel.export.place import folder_name
from marvel.review.decisions import Change, Decisions
from marvel.run import read, train
from marvel.runs import RunFolder

RNG = np.random.default_rng(0)


def run_on(path: Path, where: Path, **settings: Any) -> RunFolder:
    config = Config(data=str(path), epochs=1, device="cpu", network=settings.pop("network", None), **settings)
    run = train(config, where)
    assert run.folder is not None
    return run.folder


def decide(folder: RunFolder, **actions: tuple[str, str | None]) -> None:
    """`i3=("choose", "dog")`: by id, with class names."""
    config = folder.config
    assert config is not None
    ids, classes = folder.instances()["id"].tolist(), config["data"]["classes"]
    changes = [
        Change(ids.index(id), action, None if label is None else classes.index(label))
        for id, (action, label) in actions.items()
    ]
    with Decisions(folder.decisions_file) as decisions:
        decisions.decide(changes, "me")


def writable(folder: RunFolder) -> dict[str, Any]:
    return {name: column.copy() for name, column in folder.instances().items()}


def flag(folder: RunFolder, ids: Sequence[str], suggested: str, probability: Sequence[float | None]) -> None:
    """As `marvel clean` writes it: these are flagged, with one suggestion for all."""
    columns = writable(folder)
    config = folder.config
    assert config is not None
    known = columns["id"].tolist()
    where = [known.index(id) for id in ids]
    columns["flagged"] = np.isin(np.arange(len(known)), where)
    columns["suggested"][where] = config["data"]["classes"].index(suggested)
    wrong: list[float | None] = [None] * len(known)
    for index, value in zip(where, probability):
        wrong[index] = value
    folder.write_instances({**columns, "wrong_probability": pyarrow.array(wrong, pyarrow.float64())})


def state(path: Path) -> dict[str, str]:
    """Every file below, by its content; links by where they lead."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {
        str(file.relative_to(path)): os.readlink(file)
        if file.is_symlink()
        else hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_symlink() or file.is_file()
    }


def labels_of(data: datasets.Data) -> dict[str, str]:
    return {id: data.classes[y] for id, y in zip(data.ids or (), data.y.tolist())}


def lines(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


# ---------------------------------------------------------------------------------------------- tables


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Forty rows with all that a table may have: a mark, semicolons, quotes, line ends of both kinds, a blank line."""
    path = tmp_path / "in" / "mine.csv"
    path.parent.mkdir()
    text = 'name;a;"the ""kind""";notes\r\n'
    for k in range(40):
        kind = "" if k == 5 else [" cat ", "dog"][k % 2] if k != 7 else '"dog"'
        text += f'i{k};{RNG.normal(k % 2):.3f};{kind};"x ""{k}""\n;y"' + ("\n" if k % 3 else "\r\n") + "\n" * (k == 9)
    path.write_bytes(b"\xef\xbb\xbf" + text.rstrip("\n").encode())
    return path


SETTINGS = {"label": 'the "kind"', "id": "name", "columns": "notes=leave"}


def test_a_csv_gets_a_column_and_keeps_every_other_byte(table: Path, tmp_path: Path) -> None:
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    decide(folder, i3=("accept", "cat"), i4=("aside", None), i6=("keep", None), i8=("choose", "dog"))
    before = state(table.parent)
    done = export(folder, tmp_path / "out")
    assert state(table.parent) == before
    assert (done.changed, done.aside, done.written, done.label) == (2, 2, 38, 'the "kind"_corrected')
    ours, source = (tmp_path / "out" / "mine.csv").read_bytes(), table.read_bytes()
    assert ours.startswith(b"\xef\xbb\xbf")
    rows, old = lines_of(ours), lines_of(source)
    assert rows[0] == [*old[0], 'the "kind"_corrected']
    kept = [row for row in old[1:] if row[0] not in ("i4", "i5")]
    assert [row[:-1] for row in rows[1:]] == kept
    corrected = {row[0]: row[-1] for row in rows[1:]}
    assert corrected == {row[0]: {"i3": "cat", "i8": "dog"}.get(row[0], row[2].strip()) for row in kept}
    # Take the new cells away, and the rows that were left out from the source: the same bytes.
    for id, label in corrected.items():
        ours = cut(ours, f"{id};".encode(), f";{label}".encode())
    ours = ours.replace(b';"the ""kind""_corrected"', b"", 1)
    assert ours == without(source, ("i4", "i5"))


def lines_of(content: bytes) -> list[list[str]]:
    return [row for row in csv.reader(content.decode("utf-8-sig").splitlines(keepends=True), delimiter=";") if row]


def cut(content: bytes, start: bytes, cell: bytes) -> bytes:
    """Without the last cell of the record that begins so."""
    at = content.index(b"\n" + start) + 1
    end = content.index(b';y"', at) + 3
    assert content[end : end + len(cell)] == cell
    return content[:end] + content[end + len(cell) :]


def without(content: bytes, ids: Sequence[str]) -> bytes:
    for id in ids:
        at = content.index(b"\n" + f"{id};".encode()) + 1
        end = content.index(b';y"', at) + 3
        end += 2 if content[end : end + 2] == b"\r\n" else 1
        content = content[:at] + content[end:]
    return content


def test_a_table_may_have_the_name_of_the_decisions(table: Path, tmp_path: Path) -> None:
    named = table.rename(table.with_name("corrections.csv"))
    folder = run_on(named, tmp_path / "run", **SETTINGS)
    decide(folder, i3=("choose", "cat"))
    done = export(folder, tmp_path / "new")
    assert done.decisions == "corrections_2.csv"
    assert [line[0] for line in lines(tmp_path / "new" / done.decisions)] == ["id", "i3"]
    assert (
        labels_of(datasets.load(str(tmp_path / "new" / "corrections.csv"), id="name", columns="notes=leave"))["i3"]
        == "cat"
    )


def test_what_is_set_aside_can_be_kept_and_is_marked(table: Path, tmp_path: Path) -> None:
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    decide(folder, i4=("aside", None))
    done = export(folder, tmp_path / "out", keep_aside=True)
    corrected = {row[0]: row[-1] for row in lines_of((tmp_path / "out" / "mine.csv").read_bytes())[1:]}
    assert len(corrected) == 40 and [id for id, label in corrected.items() if not label] == ["i4", "i5"]
    assert (done.aside, done.written) == (2, 40)
    again = datasets.load(str(tmp_path / "out" / "mine.csv"), label=done.label, id="name", columns="notes=leave")
    assert {one.id for one in again.set_aside} == {"i4", "i5"}


def test_read_export_read(table: Path, tmp_path: Path) -> None:
    """What was exported reads as what was decided, by itself and as corrections of the source."""
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    decide(folder, i3=("accept", "cat"), i4=("aside", None), i8=("choose", "dog"))
    done = export(folder, tmp_path / "out")
    before = datasets.load(str(table), **SETTINGS)
    expected = {**labels_of(before), "i3": "cat", "i8": "dog"}
    del expected["i4"]
    after = datasets.load(str(tmp_path / "out" / "mine.csv"), label=done.label, id="name", columns="notes=leave")
    assert labels_of(after) == expected and after.shape == before.shape == (1,)
    corrected = read(Config(data=str(table), corrections=str(tmp_path / "out" / "corrections.csv"), **SETTINGS))
    assert labels_of(corrected) == expected
    # The column of the user's own name is found by the one beside it, and a second time round gets a number.
    folder = run_on(tmp_path / "out" / "mine.csv", tmp_path / "run2", id="name", columns="notes=leave")
    decide(folder, i3=("choose", "dog"))
    assert export(folder, tmp_path / "out2").label == 'the "kind"_corrected_2'
    last = datasets.load(str(tmp_path / "out2" / "mine.csv"), id="name", columns="notes=leave")
    assert labels_of(last) == {**expected, "i3": "dog"}


def test_a_run_with_corrections_is_exported_with_them(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("id,corrected,action\ni3,cat,\ni10,,aside\n")
    folder = run_on(table, tmp_path / "run", corrections=str(path), **SETTINGS)
    decide(folder, i8=("choose", "dog"))
    export(folder, tmp_path / "out")
    corrected = {row[0]: row[-1] for row in lines_of((tmp_path / "out" / "mine.csv").read_bytes())[1:]}
    assert corrected["i3"] == "cat" and corrected["i8"] == "dog" and "i10" not in corrected and corrected["i9"] == "dog"


def written(kind: str, folder: Path) -> Path:
    """24 instances, in turn an ash, an elm and an oak, as a file or folder of that kind."""
    names, x = ["ash", "elm", "oak"] * 8, RNG.normal(size=(24, 3))
    if kind == "photos":
        for i, name in enumerate(names):
            path = folder / kind / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(RNG.integers(0, 255, (8, 8, 3)).astype(np.uint8)).save(path)
    elif kind == "m.npz":
        np.savez(folder / kind, x=x, y=np.array(names))
    else:
        frame = pandas.DataFrame(x, columns=["a", "b", "c"]).assign(label=names)
        frame.to_csv(folder / kind, index=False) if kind == "m.csv" else frame.to_parquet(folder / kind)
    return folder / kind


@pytest.mark.parametrize("kind", ["m.csv", "m.parquet", "m.npz", "photos"])
def test_the_corrections_of_a_second_round_hold_those_of_the_first(kind: str, tmp_path: Path) -> None:
    """Applied to the source, one table says what the exported data says, and no label falls back to what it was."""
    source = written(kind, tmp_path)
    ids = [i for i in datasets.load(str(source)).ids or () if labels_of(datasets.load(str(source)))[i] == "ash"]
    first = tmp_path / "first.csv"
    told = [f"{ids[0]},elm,", f"{ids[1]},elm,", f"{ids[2]},,aside", f"{ids[3]},elm,", f"{ids[4]},ash,"]
    first.write_text("\n".join(["id,corrected,action", *told]) + "\n", encoding="utf-8")
    folder = run_on(source, tmp_path / "run", corrections=str(first))
    decide(folder, **{ids[1]: ("choose", "oak"), ids[3]: ("choose", "ash"), ids[5]: ("choose", "oak")})
    decide(folder, **{ids[6]: ("aside", None)})
    assert export(folder, tmp_path / "out").changed == 3
    given = labels_of(datasets.load(str(source)))
    expected = {id: label for id, label in given.items() if id not in (ids[2], ids[6])}
    expected |= {ids[0]: "elm", ids[1]: "oak", ids[5]: "oak"}
    again = read(Config(data=str(source), corrections=str(tmp_path / "out" / "corrections.csv")))
    assert labels_of(again) == expected
    new = tmp_path / "out" if kind == "photos" else tmp_path / "out" / kind
    assert sorted(labels_of(datasets.load(str(new))).values()) == sorted(expected.values())
    rows = {row[0]: row[2:] for row in lines(tmp_path / "out" / "corrections.csv")[1:]}
    assert rows[ids[0]] == ["ash", "elm", "earlier"] and rows[ids[1]] == ["ash", "oak", "choose"]
    assert rows[ids[2]] == ["ash", "", "aside"] and rows[ids[4]] == ["ash", "ash", "earlier"]


def test_what_was_decided_in_the_first_round_is_not_accepted_away_in_the_second(table: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.csv"
    first.write_text("id,corrected,action\ni1,dog,keep\ni3,dog,unreviewed\ni7,dog,\n")
    folder = run_on(table, tmp_path / "run", corrections=str(first), **SETTINGS)
    flag(folder, ["i1", "i3", "i7", "i9", "i11"], "cat", [0.99] * 5)
    decide(folder, i11=("keep", None))
    assert export(folder, tmp_path / "some").undecided == 2  # i3 and i9
    done = export(folder, tmp_path / "out", accept_all=True)
    found = {row[0]: (row[3], row[4]) for row in lines(tmp_path / "out" / "corrections.csv")[1:]}
    assert found == {
        "i1": ("dog", "earlier"),
        "i7": ("dog", "earlier"),
        "i11": ("dog", "keep"),
        "i3": ("cat", "unreviewed"),
        "i9": ("cat", "unreviewed"),
    }
    assert (done.undecided, done.unreviewed) == (0, 2)
    # A third round knows them too, and that nobody looked at the others.
    third = read(Config(data=str(table), corrections=str(tmp_path / "out" / "corrections.csv"), **SETTINGS))
    ids = dict(zip(datasets.load(str(table), **SETTINGS).origin.rows.tolist(), third.ids or (), strict=True))
    assert sorted(ids[row] for row in third.decided) == ["i1", "i11", "i7"]


def test_a_suggestion_accepted_unreviewed_stays_so(table: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.csv"
    first.write_text("id,corrected,action\ni3,cat,unreviewed\n")
    folder = run_on(table, tmp_path / "run", corrections=str(first), **SETTINGS)
    decide(folder, i9=("keep", None))
    export(folder, tmp_path / "out")
    found = {row[0]: row[2:] for row in lines(tmp_path / "out" / "corrections.csv")[1:]}
    assert found == {"i3": ["dog", "cat", "unreviewed"], "i9": ["dog", "dog", "keep"]}


def test_corrections_of_what_was_held_out_do_not_fall_back(tmp_path: Path) -> None:
    source, first = written("m.csv", tmp_path), tmp_path / "first.csv"
    ids = [i for i, label in labels_of(datasets.load(str(source))).items() if label == "ash"]
    first.write_text("\n".join(["id,corrected", *(f"{i},elm" for i in ids[:4])]) + "\n", encoding="utf-8")
    folder = run_on(source, tmp_path / "run", corrections=str(first), hold_out=0.3)
    with pytest.raises(FolderError, match="held out: run again without --hold-out"):
        export(folder, tmp_path / "out", accept_all=True)
    assert not (tmp_path / "out").exists()


def test_parquet_keeps_types_and_metadata(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {
            "a": RNG.normal(size=40).astype(np.float32),
            "when": pandas.date_range("2024-01-01", periods=40),
            "tags": [["x", "y"][: k % 3] for k in range(40)],
            "kind": pandas.Categorical(["cat", "dog"] * 20),
        },
        index=pandas.Index([f"r{k}" for k in range(40)], name="name"),
    )
    source = tmp_path / "mine.parquet"
    frame.to_parquet(source)
    folder = run_on(source, tmp_path / "run", label="kind", id="name")
    decide(folder, r3=("accept", "cat"), r4=("aside", None))
    export(folder, tmp_path / "out")
    old, new = (pyarrow.parquet.read_table(path) for path in (source, tmp_path / "out" / "mine.parquet"))
    assert new.schema.field("kind_corrected").type == old.schema.field("kind").type
    assert new.drop_columns(["kind_corrected"]).schema.equals(old.schema)
    note = json.loads(new.schema.metadata[b"pandas"])  # as it was, but for the new column
    note["columns"] = [column for column in note["columns"] if column["name"] != "kind_corrected"]
    assert note == json.loads(old.schema.metadata[b"pandas"]) and set(new.schema.metadata) == set(old.schema.metadata)
    rows = [k for k in range(40) if k != 4]
    assert new.drop_columns(["kind_corrected"]).equals(old.take(rows))
    read_back = pandas.read_parquet(tmp_path / "out" / "mine.parquet")
    expected = frame["kind"].astype(str).drop("r4")
    expected["r3"] = "cat"
    assert read_back["kind_corrected"].astype(str).tolist() == expected.tolist()
    assert labels_of(datasets.load(str(tmp_path / "out" / "mine.parquet"), id="name")) == expected.to_dict()


def test_categories_keep_their_order_in_parquet(tmp_path: Path) -> None:
    """Of an ordered categorical the order means something; it is not that in which the labels happen to come."""
    order = ["low", "middle", "high", "never"]
    said = pandas.Categorical(["high", "middle", "low"] * 8, categories=order, ordered=True)
    frame = pandas.DataFrame({"x": RNG.normal(size=24), "label": said})
    frame.to_parquet(tmp_path / "c.parquet", row_group_size=10)
    folder = run_on(tmp_path / "c.parquet", tmp_path / "run")
    decide(folder, **{"0": ("choose", "middle"), "5": ("aside", None)})
    export(folder, tmp_path / "out")
    new = pandas.read_parquet(tmp_path / "out" / "c.parquet")
    assert new["label_corrected"].dtype == frame["label"].dtype
    expected = ["middle", *frame["label"].tolist()[1:5], *frame["label"].tolist()[6:]]
    assert new["label_corrected"].tolist() == expected
    assert (new["label_corrected"] < "high").tolist() == [label in ("low", "middle") for label in expected]


@pytest.mark.parametrize("kind", ["Int64", "Int8", "int64", "float32", "string", "boolean", "int64[pyarrow]"])
def test_labels_are_what_pandas_made_of_them(tmp_path: Path, kind: str) -> None:
    """Also where a cell is empty, which NumPy's whole numbers cannot be."""
    labels = pandas.Series([0, 1] * 12).astype(kind)
    if kind not in ("int64", "float32"):
        labels[7] = None
    frame = pandas.DataFrame({"x": RNG.normal(size=24), "label": labels})
    frame.to_parquet(tmp_path / "p.parquet")
    folder = run_on(tmp_path / "p.parquet", tmp_path / "run")
    decide(folder, **{"5": ("aside", None)})
    export(folder, tmp_path / "out", keep_aside=kind not in ("int64", "float32"))
    new = pandas.read_parquet(tmp_path / "out" / "p.parquet")
    assert new["label_corrected"].dtype == frame["label"].dtype == new["label"].dtype


def test_a_label_that_stays_is_spelt_as_it_was(tmp_path: Path) -> None:
    """'a ' and 'a' are one class: nobody decided that the one becomes the other."""
    labels = [" a", "a", "b", "a ", "b"] * 4
    columns = {"x": RNG.normal(size=20), "label": labels}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "s.parquet")
    folder = run_on(tmp_path / "s.parquet", tmp_path / "run")
    decide(folder, **{"1": ("choose", "b"), "3": ("keep", None)})
    assert export(folder, tmp_path / "out").changed == 1
    new = pyarrow.parquet.read_table(tmp_path / "out" / "s.parquet")["label_corrected"].to_pylist()
    assert new == [labels[0], "b", *labels[2:]]


@pytest.mark.parametrize("aside", [(), ("0", "1"), ("3", "7", "8", "19")])
def test_parquet_with_views_of_strings_is_written_back(tmp_path: Path, aside: tuple[str, ...]) -> None:
    """Arrow takes no single cells of this type."""
    kind = pyarrow.string_view()
    columns = {
        "x": RNG.normal(size=20),
        "city": pyarrow.array([f"city {i % 3}" for i in range(20)], kind),
        "label": pyarrow.array(["a", None if aside else "b"] + ["a", "b"] * 9, kind),
    }
    source = pyarrow.table(columns)
    pyarrow.parquet.write_table(source, tmp_path / "v.parquet")
    folder = run_on(tmp_path / "v.parquet", tmp_path / "run")
    decide(folder, **{"2": ("choose", "b")}, **{id: ("aside", None) for id in aside if id != "1"})
    export(folder, tmp_path / "out")
    new = pyarrow.parquet.read_table(tmp_path / "out" / "v.parquet")
    kept = [row for row in range(20) if str(row) not in {*aside, *(["1"] if aside else [])}]
    rows = source.to_pylist()
    expected = [{**rows[row], "label_corrected": "b" if row == 2 else rows[row]["label"]} for row in kept]
    assert new.schema.types[1:] == [kind] * 3 and new.to_pylist() == expected


def test_parquet_of_numbers_stays_numbers(tmp_path: Path) -> None:
    columns = {
        "a": RNG.normal(size=40),
        "label": pyarrow.array([None if k == 2 else k % 3 for k in range(40)], pyarrow.int8()),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "n.parquet")
    folder = run_on(tmp_path / "n.parquet", tmp_path / "run")
    decide(folder, **{"3": ("choose", "2"), "4": ("aside", None)})
    export(folder, tmp_path / "out", keep_aside=True)
    new = pyarrow.parquet.read_table(tmp_path / "out" / "n.parquet")
    assert new.schema.field("label_corrected").type == pyarrow.int8()
    expected = [None if k in (2, 4) else 2 if k == 3 else k % 3 for k in range(40)]
    assert new["label_corrected"].to_pylist() == expected


ODD = st.text(st.one_of(st.sampled_from(",;\t|\"'\n =+-@"), st.characters(exclude_categories=["Cs", "Cc"])), max_size=6)


CLASSES = st.lists(ODD.filter(lambda text: class_name(text) == text), min_size=2, max_size=2, unique=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(st.tuples(ODD, ODD), min_size=12, max_size=12),
    names=CLASSES,
    form=st.sampled_from([(",", "\n"), (";", "\r\n"), ("\t", "\n")]),
)
def test_odd_cells_and_class_names_survive(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], names: list[str], form: tuple[str, str]
) -> None:
    where = tmp_path_factory.mktemp("odd")
    source = where / "in.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=form[0], lineterminator=form[1])
        writer.writerow(["number", "p", "q", "label"])
        writer.writerows([k * k % 7, *row, names[k // 2 % 2]] for k, row in enumerate(rows))
    folder = run_on(source, where / "run", columns="number=number,p=leave,q=leave", label="label")
    decide(folder, **{"3": ("choose", names[0]), "5": ("aside", None)})
    export(folder, where / "out")
    with (where / "out" / "in.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.reader(file, delimiter=form[0]))
    expected = [
        [str(k * k % 7), *row, names[k // 2 % 2], names[0] if k == 3 else names[k // 2 % 2]]
        for k, row in enumerate(rows)
        if k != 5
    ]
    assert found == [["number", "p", "q", "label", "label_corrected"], *expected]
    again = read(
        Config(
            data=str(source), label="label", columns="p=leave,q=leave", corrections=str(where / "out/corrections.csv")
        )
    )
    assert labels_of(again) == {str(k): row[-1] for k, row in zip([k for k in range(12) if k != 5], expected)}


# ---------------------------------------------------------------------------------------------- tables of paths


def test_images_come_along_with_a_table_and_stay_inside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "in" / "images").mkdir(parents=True)
    for k in range(6):
        Image.new("RGB", (8, 8), (40 * k, 0, 0)).save(home / "in" / "images" / f"{k}.png")
    Image.new("RGB", (8, 8), "blue").save(home / "outside.png")
    Image.new("RGB", (8, 8), "green").save(home / "absolute.png")
    names = [
        *(f"images/{k}.png" for k in range(6)),
        "../outside.png",
        str(home / "absolute.png"),
        "images/../images/0.png",
    ]
    source = home / "in" / "t.csv"
    source.write_text("file,label\n" + "".join(f"{name},{'pq'[k % 2]}\n" for k, name in enumerate(names)))
    folder = run_on(source, tmp_path / "run", network="cnn2", size=8)
    decide(folder, **{"images/1.png": ("choose", "p"), "images/2.png": ("aside", None)})
    before = state(home)
    done = export(folder, tmp_path / "new" / "out")
    assert state(home) == before and done.elsewhere == 1
    assert sorted(state(tmp_path / "new")) == [
        *("out/corrections.csv",), *(f"out/images/{k}.png" for k in (0, 1, 3, 4, 5)), "out/t.csv",
    ]  # fmt: skip
    again = datasets.load(str(tmp_path / "new" / "out" / "t.csv"))
    assert labels_of(again)["images/1.png"] == "p" and str(home / "absolute.png") in labels_of(again)


# ---------------------------------------------------------------------------------------------- class folders


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name / "more").mkdir(parents=True)
        for k in range(5):
            colour = (40 * k, 100 * (name == "cat"), 0)
            Image.new("RGB", (8, 8), colour).save(tmp_path / "photos" / name / f"{k}.png")
        Image.new("RGB", (8, 8), "red").save(tmp_path / "photos" / name / "more" / "x.png")
    (tmp_path / "photos" / "dog" / "broken.png").write_bytes(b"")
    return tmp_path / "photos"


def small(path: Path, where: Path, **more: Any) -> RunFolder:
    return run_on(path, where, network="cnn2", size=8, **more)


@pytest.mark.parametrize("link", ["copy", "hard", "symbolic"])
def test_images_move_to_the_folder_of_their_class(photos: Path, tmp_path: Path, link: str) -> None:
    folder = small(photos, tmp_path / "run")
    decide(
        folder, **{"cat/1.png": ("accept", "dog"), "dog/more/x.png": ("choose", "cat"), "dog/2.png": ("aside", None)}
    )
    before = state(photos)
    done = export(folder, tmp_path / "out", link=link)
    assert state(photos) == before
    assert done.renamed == {"cat/1.png": "dog/1 (cat).png", "dog/more/x.png": "cat/more/x (dog).png"}
    assert (done.changed, done.aside, done.written) == (2, 2, 11)
    expected = {
        *("cat/0.png", "cat/2.png", "cat/3.png", "cat/4.png", "cat/more/x.png", "cat/more/x (dog).png"),
        *("dog/0.png", "dog/1.png", "dog/1 (cat).png", "dog/3.png", "dog/4.png", "corrections.csv"),
    }
    assert set(state(tmp_path / "out")) == expected
    moved = tmp_path / "out" / "dog" / "1 (cat).png"
    assert moved.read_bytes() == (photos / "cat" / "1.png").read_bytes()
    assert moved.is_symlink() == (link == "symbolic")
    assert moved.samefile(photos / "cat" / "1.png") == (link != "copy")
    assert lines(tmp_path / "out" / "corrections.csv") == [
        ["id", "row", "given", "corrected", "action"],
        ["cat/1.png", "1", "cat", "dog", "accept"],
        ["dog/2.png", "8", "dog", "", "aside"],
        ["dog/more/x.png", "12", "dog", "cat", "choose"],
    ]
    after = datasets.load(str(tmp_path / "out"))
    assert labels_of(after)["dog/1 (cat).png"] == "dog" and len(after) == 11


def test_test_sets_come_along_and_what_is_aside_can_be_kept(photos: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(photos, home / "train")
    shutil.copytree(photos / "cat", home / "test" / "cat")
    folder = small(home, tmp_path / "run")
    decide(folder, **{"train/cat/1.png": ("accept", "dog"), "train/dog/2.png": ("aside", None)})
    assert export(folder, tmp_path / "out", keep_aside=True).written == 13
    found = set(state(tmp_path / "out"))
    assert {"train/dog/1 (cat).png", ".aside/dog/2.png", ".aside/dog/broken.png", "test/cat/0.png"} <= found
    assert "train/dog/2.png" not in found and len(found) == 13 + 6 + 1
    again = datasets.load(str(tmp_path / "out"))
    assert again.test_y is not None and len(again) == 11


def test_classes_of_folders_keep_their_names_in_all_parts(tmp_path: Path) -> None:
    names = ["a\u200cb", "c\\d", "dog"]
    for part in ("train", "test"):
        for number, name in enumerate(names):
            (tmp_path / "in" / part / name).mkdir(parents=True)
            for k in range(4):
                Image.new("RGB", (8, 8), (60 * k, 90 * number, 0)).save(tmp_path / "in" / part / name / f"{k}.png")
    folder = small(tmp_path / "in", tmp_path / "run")
    decide(folder, **{"train/dog/1.png": ("choose", names[0])})
    export(folder, tmp_path / "out")
    again = datasets.load(str(tmp_path / "out"))
    assert (
        set(again.classes) == set(names) and len(again) == 12 and again.test_y is not None and len(again.test_y) == 12
    )


def test_a_class_may_become_empty_and_new_files_stay(photos: Path, tmp_path: Path) -> None:
    folder = small(photos, tmp_path / "run")
    ids = [id for id in folder.instances()["id"].tolist() if id.startswith("dog/")]
    decide(folder, **dict.fromkeys(ids, ("choose", "cat")))
    Image.new("RGB", (8, 8)).save(photos / "cat" / "00.png")
    export(folder, tmp_path / "out")
    assert (tmp_path / "out" / "dog").is_dir() and not any((tmp_path / "out" / "dog").iterdir())
    assert (tmp_path / "out" / "cat" / "00.png").exists() and (tmp_path / "out" / "cat" / "4 (dog).png").exists()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=300), min_size=1, max_size=6, unique=True))
def test_any_class_name_is_a_folder_inside_and_one_of_its_own(names: list[str]) -> None:
    safe: list[str] = []
    for name in [*names, "..", ".", "a/b", "a_b", "/etc", "x\0y", "", "con\n"]:
        safe.append(folder_name(name, safe))
    assert len(set(safe)) == len(safe)
    for name in safe:
        assert Path("out", name).resolve().parent == Path("out").resolve()
        assert not name.startswith(".") and len(name.encode(errors="surrogatepass")) <= 255


def test_an_ordinary_class_name_stays() -> None:
    for name in ("cat", "Domestic cat (2)", "naïve", "猫", "a.b", "-x", " y"):
        assert folder_name(name) == name


def test_a_hostile_run_folder_does_not_write_elsewhere(photos: Path, tmp_path: Path) -> None:
    folder = small(photos, tmp_path / "run")
    decide(folder, **{"cat/1.png": ("accept", "dog")})
    config = folder.config
    assert config is not None
    config["data"]["classes"] = ["cat", "../../escaped"]
    config["config"]["corrections"] = "so that the changed name is not noticed"
    folder.config = config
    done = export(folder, tmp_path / "deep" / "er" / "out")
    assert done.renamed["../../escaped"] == "_._.._escaped"
    assert not list(tmp_path.glob("**/escaped")) and (tmp_path / "deep/er/out/_._.._escaped/1.png").exists()

    columns = writable(folder)
    columns["id"][0] = "../../../etc/passwd"
    folder.write_instances(columns)
    with pytest.raises(FolderError, match="has changed since the run"):
        export(folder, tmp_path / "other")
    config["data"]["origin"]["kind"] = "elsewhere"
    folder.config = config
    with pytest.raises(FolderError, match="damaged config.json"):
        export(folder, tmp_path / "other")
    assert not (tmp_path / "other").exists()


# ---------------------------------------------------------------------------------------------- arrays


def test_npz_keeps_its_arrays_and_gets_corrected_labels(tmp_path: Path) -> None:
    x = RNG.normal(size=(30, 4)).astype(np.float32)
    y = (np.arange(30) % 3).astype(np.uint8)
    arrays = {"x": x, "y": y, "x_test": x[:5], "y_test": y[:5], "clean": y, "classes": np.array(["a", "b", "c"])}
    np.savez_compressed(tmp_path / "m.npz", **arrays)
    folder = run_on(tmp_path / "m.npz", tmp_path / "run")
    decide(folder, **{"3": ("choose", "c"), "4": ("aside", None)})
    done = export(folder, tmp_path / "out")
    with np.load(tmp_path / "out" / "m.npz") as new:
        kept = np.delete(np.arange(30), 4)
        assert np.array_equal(new["x"], x[kept]) and new["y"].dtype == np.uint8
        expected = y.copy()
        expected[3] = 2
        assert np.array_equal(new["y"], expected[kept]) and np.array_equal(new["y_given"], y[kept])
        for name in ("x_test", "y_test", "classes"):
            assert np.array_equal(new[name], arrays[name])
    assert (done.changed, done.written, done.label) == (1, 29, "y")
    again = datasets.load(str(tmp_path / "out" / "m.npz"))
    assert again.classes == ("a", "b", "c") and again.y.tolist() == expected[kept].tolist()
    assert export(folder, tmp_path / "marked", keep_aside=True).written == 30
    marked = datasets.load(str(tmp_path / "marked" / "m.npz"))
    assert [one.id for one in marked.set_aside] == ["4"] and marked.y.tolist() == again.y.tolist()


@pytest.mark.parametrize(
    "y", [np.array([" ash", "oak", ""] * 10), np.array([1.0, 2.0, np.nan] * 10), np.arange(30) % 2 == 0]
)
def test_labels_of_every_type_keep_it(tmp_path: Path, y: Any) -> None:
    np.savez(tmp_path / "m.npz", x=RNG.normal(size=(30, 4)), y=y)
    folder = run_on(tmp_path / "m.npz", tmp_path / "run")
    other = datasets.load(str(tmp_path / "m.npz")).classes[1]
    decide(folder, **{"0": ("choose", other)})
    export(folder, tmp_path / "out", keep_aside=True)
    with np.load(tmp_path / "out" / "m.npz") as new:
        assert new["y"].dtype.kind == y.dtype.kind and len(new["y"]) == 30
        expected = y.copy()
        expected[0] = y[1] if y.dtype.kind != "b" else True
        assert np.array_equal(new["y"], expected, equal_nan=y.dtype.kind == "f")


def test_names_of_classes_and_instances_may_be_bytes(tmp_path: Path) -> None:
    """As they come out of HDF5; read as text, they are the same names when they are written."""
    y, names = np.arange(30) % 3, np.array([f"Müller {i}".encode() for i in range(30)])
    np.savez(tmp_path / "m.npz", x=RNG.normal(size=(30, 4)), y=y, classes=np.array([b"ash", b"elm", b"oak"]), who=names)
    folder = run_on(tmp_path / "m.npz", tmp_path / "run", id="who")
    assert folder.instances()["id"].tolist() == [f"Müller {i}" for i in range(30)]
    decide(folder, **{"Müller 3": ("choose", "oak"), "Müller 4": ("aside", None)})
    assert export(folder, tmp_path / "out").changed == 1
    with np.load(tmp_path / "out" / "m.npz") as new:
        kept = np.delete(np.arange(30), 4)
        assert np.array_equal(new["y"], np.where(np.arange(30) == 3, 2, y)[kept])
        assert np.array_equal(new["who"], names[kept])


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.txt", "y.csv", "bare.csv"])
def test_labels_in_another_file_keep_its_format(tmp_path: Path, name: str) -> None:
    x = RNG.normal(size=(30, 4))
    y = np.array(["ash", "oak"])[np.arange(30) % 2]
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "x.npy", x)
    np.save(tmp_path / "in" / "y.npy", y)
    np.savez(tmp_path / "in" / "y.npz", y=y)
    (tmp_path / "in" / "y.txt").write_text("\n".join(y))
    (tmp_path / "in" / "bare.csv").write_text("\n".join(y))
    (tmp_path / "in" / "y.csv").write_text("tree\n" + "\n".join(y))
    folder = run_on(tmp_path / "in" / "x.npy", tmp_path / "run", labels=str(tmp_path / "in" / name))
    decide(folder, **{"3": ("choose", "ash"), "4": ("aside", None)})
    export(folder, tmp_path / "out")
    again = datasets.load(str(tmp_path / "out" / "x.npy"), labels=str(tmp_path / "out" / name))
    kept = np.delete(np.arange(30), 4)
    assert np.array_equal(again.x, x[kept].astype(np.float32))
    assert [again.classes[k] for k in again.y] == np.where(np.arange(30) == 3, "ash", y)[kept].tolist()


def apart(tmp_path: Path, y: Any, name: str) -> Path:
    """Instances in in/x.npy, and thirty labels in a file of that name."""
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "x.npy", RNG.normal(size=(30, 4)))
    path = tmp_path / "in" / name
    if path.suffix == ".npz":
        np.savez(path, y=y, names=np.arange(30), more=np.zeros(3))
    elif path.suffix == ".npy":
        np.save(path, y)
    else:
        path.write_text("file,label\n" + "".join(f"f{k},{label}\n" for k, label in enumerate(y)))
    return path


def test_labels_in_a_table_of_several_columns(tmp_path: Path) -> None:
    labels = apart(tmp_path, np.array(["ash", "oak"])[np.arange(30) % 2], "y.csv")
    folder = run_on(tmp_path / "in" / "x.npy", tmp_path / "run", labels=str(labels))
    decide(folder, **{"3": ("choose", "ash")})
    export(folder, tmp_path / "out")
    assert lines(tmp_path / "out" / "y.csv")[0] == ["file", "label", "label_corrected"]
    assert lines(tmp_path / "out" / "y.csv")[4] == ["f3", "oak", "ash"]


def test_arrays_beside_the_labels_lose_the_same_instances(tmp_path: Path) -> None:
    labels = apart(tmp_path, np.array(["ash", "oak"])[np.arange(30) % 2], "y.npz")
    folder = run_on(tmp_path / "in" / "x.npy", tmp_path / "run", labels=str(labels))
    decide(folder, **{"4": ("aside", None)})
    export(folder, tmp_path / "out")
    with np.load(tmp_path / "out" / "y.npz") as new:
        assert new["names"].tolist() == [k for k in range(30) if k != 4] and len(new["y"]) == len(new["y_given"]) == 29
        assert len(new["more"]) == 3
    assert export(folder, tmp_path / "kept", keep_aside=True).written == 30
    again = datasets.load(str(tmp_path / "kept" / "x.npy"), labels=str(tmp_path / "kept" / "y.npz"))
    assert len(again) == 29 and [one.row for one in again.set_aside] == [4]


def test_numbers_cannot_be_marked_and_two_files_of_one_name_not_be_in_one_folder(tmp_path: Path) -> None:
    labels = apart(tmp_path, np.arange(30) % 2, "y.npy")
    folder = run_on(tmp_path / "in" / "x.npy", tmp_path / "run", labels=str(labels))
    decide(folder, **{"4": ("aside", None)})
    with pytest.raises(InvalidInput, match="cannot say that they are set aside"):
        export(folder, tmp_path / "out", keep_aside=True)
    (tmp_path / "labels").mkdir()
    shutil.copy(labels, tmp_path / "labels" / "x.npy")
    folder = run_on(tmp_path / "in" / "x.npy", tmp_path / "other", labels=str(tmp_path / "labels" / "x.npy"))
    decide(folder, **{"4": ("aside", None)})
    with pytest.raises(InvalidInput, match="have one name"):
        export(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------- Hugging Face


@pytest.mark.parametrize("splits", [False, True])
def test_huggingface_keeps_features_and_class_names(tmp_path: Path, splits: bool) -> None:
    hf: Any = pytest.importorskip("datasets")
    hf.disable_progress_bars()
    features = hf.Features(
        {"image": hf.Image(), "kind": hf.ClassLabel(names=["cat", "dog", "emu"]), "by": hf.Value("string")}
    )
    images = [Image.fromarray(RNG.integers(0, 255, (8, 8, 3), dtype=np.uint8)) for _ in range(12)]
    rows = {"image": images, "kind": [k % 2 for k in range(12)], "by": [f"me{k}" for k in range(12)]}
    train = hf.Dataset.from_dict(rows, features=features).shuffle(seed=0)
    whole = hf.DatasetDict({"train": train, "test": train.select(range(4))}) if splits else train
    whole.save_to_disk(tmp_path / "d")
    folder = small(tmp_path / "d", tmp_path / "run")
    before = state(tmp_path / "d")
    decide(folder, **{"3": ("choose", "emu"), "4": ("aside", None)})
    done = export(folder, tmp_path / "out")
    assert state(tmp_path / "d") == before and done.label == "kind_corrected"
    found = hf.load_from_disk(str(tmp_path / "out"))
    new = found["train"] if splits else found
    old = hf.load_from_disk(str(tmp_path / "d"))
    old = old["train"] if splits else old
    assert new.features == {**old.features, "kind_corrected": old.features["kind"]}
    kept = [k for k in range(12) if k != 4]
    assert new["by"] == [old["by"][k] for k in kept] and new["kind"] == [old["kind"][k] for k in kept]
    assert new["kind_corrected"] == [2 if k == 3 else old["kind"][k] for k in kept]
    assert all(np.array_equal(new[i]["image"], old[k]["image"]) for i, k in enumerate(kept))
    if splits:
        assert found["test"]["kind_corrected"] == found["test"]["kind"]
    again = datasets.load(str(tmp_path / "out"))
    assert [again.classes[y] for y in again.y] == [("cat", "dog", "emu")[k] for k in new["kind_corrected"]]
    marked = export(folder, tmp_path / "marked", keep_aside=True)
    assert (done.written, marked.written) == (11, 12) and hf.load_from_disk(str(tmp_path / "marked")) is not None
    assert [one.id for one in datasets.load(str(tmp_path / "marked")).set_aside] == ["4"]


def test_parquet_that_datasets_wrote_is_read_by_it_again(tmp_path: Path) -> None:
    hf: Any = pytest.importorskip("datasets")
    rows = {"a": RNG.normal(size=20).tolist(), "label": [-1 if k == 7 else k % 2 for k in range(20)]}
    features = hf.Features({"a": hf.Value("float64"), "label": hf.ClassLabel(names=["cat", "dog", "NA"])})
    hf.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "h.parquet")
    folder = run_on(tmp_path / "h.parquet", tmp_path / "run")
    decide(folder, **{"3": ("choose", "cat"), "4": ("choose", "NA")})  # of which there is no instance
    export(folder, tmp_path / "out", keep_aside=True)
    again = hf.Dataset.from_parquet(str(tmp_path / "out" / "h.parquet"), cache_dir=str(tmp_path / "cache"))
    assert again.features["label_corrected"].names == ["cat", "dog", "NA"] and again["label"] == rows["label"]
    assert again["label_corrected"] == [{3: 0, 4: 2, 7: None}.get(k, k % 2) for k in range(20)]
    read_back = datasets.load(str(tmp_path / "out" / "h.parquet"))
    assert labels_of(read_back)["4"] == "NA" and [one.id for one in read_back.set_aside] == ["7"]
    applied = read(Config(data=str(tmp_path / "h.parquet"), corrections=str(tmp_path / "out" / "corrections.csv")))
    assert labels_of(applied) == labels_of(read_back)


def test_labels_of_an_npy_file_in_parquet_of_datasets_are_written_back(tmp_path: Path) -> None:
    note = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    table = pyarrow.table({"label": [k % 2 for k in range(20)]})
    named = table.replace_schema_metadata({b"huggingface": json.dumps(note).encode()})
    pyarrow.parquet.write_table(named, tmp_path / "y.parquet")
    np.save(tmp_path / "x.npy", RNG.normal(size=(20, 3)))
    folder = run_on(tmp_path / "x.npy", tmp_path / "run", labels=str(tmp_path / "y.parquet"))
    decide(folder, **{"3": ("choose", "cat")})
    export(folder, tmp_path / "out")
    new = pyarrow.parquet.read_table(tmp_path / "out" / "y.parquet")["label_corrected"].to_pylist()
    assert new == [0 if k == 3 else k % 2 for k in range(20)]


# ---------------------------------------------------------------------------------------------- without a review


def test_suggestions_can_be_accepted_unreviewed(table: Path, tmp_path: Path) -> None:
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    flag(folder, ["i1", "i3", "i7", "i9"], "cat", [0.99, 0.8, None, 0.95])
    decide(folder, i9=("keep", None))

    def corrected(out: str, **how: Any) -> dict[str, tuple[str, str]]:
        done = export(folder, tmp_path / out, **how)
        found = lines(tmp_path / out / "corrections.csv")[1:]
        assert done.unreviewed == sum(row[4] == "unreviewed" for row in found)
        assert done.undecided == 4 - len(found)
        return {row[0]: (row[3], row[4]) for row in found}

    nine = {"i9": ("dog", "keep")}
    assert corrected("a") == nine
    assert corrected("b", accept_above=0.9) == {**nine, "i1": ("cat", "unreviewed")}
    assert corrected("c", accept_above=0.8) == {**nine, "i1": ("cat", "unreviewed")}
    both = dict.fromkeys(("i1", "i3", "i7"), ("cat", "unreviewed"))
    assert corrected("d", accept_all=True) == {**nine, **both}
    with pytest.raises(InvalidInput, match="from 0 to 1, got 90"):
        export(folder, tmp_path / "e", accept_above=90)
    with pytest.raises(InvalidInput, match="give one of the two"):
        export(folder, tmp_path / "e", accept_all=True, accept_above=0.9)


def test_a_round_that_lists_nothing_is_exported_with_the_corrections_it_began_with(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was sent to the review, which had nothing to show; and none of the labels that differ were counted."""
    first = tmp_path / "first.csv"
    first.write_text("id,corrected,action\ni1,cat,\ni3,cat,unreviewed\ni9,dog,keep\ni10,,aside\n")
    folder = run_on(table, tmp_path / "run", corrections=str(first), **SETTINGS)
    flag(folder, [], "cat", [])
    done = export(folder, tmp_path / "out")
    assert (done.listed, done.changed, done.before, done.aside, done.undecided) == (0, 0, 2, 2, 0)
    corrected = {row[0]: row[-1] for row in lines_of((tmp_path / "out" / "mine.csv").read_bytes())[1:]}
    assert (corrected["i1"], corrected["i3"], corrected["i9"]) == ("cat", "cat", "dog") and "i10" not in corrected
    assert lines(tmp_path / "out" / "corrections.csv")[1][2:] == ["dog", "cat", "earlier"]
    code, out, err = said(["export", str(folder.path), "--out", str(tmp_path / "b"), "--accept-all"], capsys)
    assert (code, err) == (0, "") and out.startswith("The run lists no suspects: nothing is left to decide.\n")
    assert "\n0 labels corrected, and 2 before this run; 2 instances set aside, and left out.\n" in out


def test_labels_corrected_before_are_counted_apart_from_those_corrected_now(table: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.csv"
    first.write_text("id,corrected\ni1,cat\ni3,cat\ni9,cat\ni11,cat\n")
    folder = run_on(table, tmp_path / "run", corrections=str(first), **SETTINGS)
    flag(folder, ["i3", "i13"], "cat", [0.9] * 2)
    back, same, out = ("choose", "dog"), ("keep", None), ("aside", None)
    decide(folder, i3=back, i9=same, i11=out, i13=("accept", "cat"))
    done = export(folder, tmp_path / "out")
    assert (done.listed, done.changed, done.before) == (2, 2, 2)  # i3, i13; i1, i9


def test_a_run_of_train_is_exported_by_what_it_removed(table: Path, tmp_path: Path) -> None:
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    columns = writable(folder)
    columns["removed_at"][2], columns["suggested"][2] = 1, 1
    folder.write_instances(columns)
    assert export(folder, tmp_path / "out", accept_all=True).unreviewed == 1
    with pytest.raises(InvalidInput, match="makes no claim how probably"):
        export(folder, tmp_path / "out2", accept_above=0.5)


# ---------------------------------------------------------------------------------------------- nothing is lost


def test_nothing_that_is_there_is_written_over(photos: Path, tmp_path: Path) -> None:
    folder = small(photos, tmp_path / "run")
    decide(folder, **{"cat/1.png": ("accept", "dog")})
    (tmp_path / "full").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for out in (tmp_path / "full", tmp_path / "dangling", photos, tmp_path / "run"):
        with pytest.raises(FolderError, match="is there already"):
            export(folder, out)
    before = state(photos)
    for out in (photos / "new", photos / "cat" / "new", tmp_path / "run" / ".." / "photos" / "x"):
        with pytest.raises(FolderError, match="lies inside the data itself"):
            export(folder, out)
    (tmp_path / "way").symlink_to(photos)
    with pytest.raises(FolderError, match="lies inside the data itself"):
        export(folder, tmp_path / "way" / "new")
    assert state(photos) == before and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_fails_leaves_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    folder = small(photos, tmp_path / "run")
    decide(folder, **{"cat/1.png": ("accept", "dog")})
    copied: list[Any] = []

    def copy(source: Path, target: Path) -> None:
        if len(copied) == 4:
            raise error
        copied.append(Path(target).write_bytes(b"half"))

    before = set(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copy2", copy)
        with pytest.raises(type(error)):
            export(folder, tmp_path / "out")
    assert set(tmp_path.iterdir()) == before and len(copied) == 4
    export(folder, tmp_path / "out")


def test_a_folder_that_appears_meanwhile_is_kept(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    decide(folder, i3=("accept", "cat"))
    rename = os.rename

    def late(source: Path, target: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").write_text("precious")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", late)
        with pytest.raises(FolderError, match="has come to be meanwhile"):
            export(folder, tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "precious"


def change_label(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"i3;", b"i3;", 1).replace(b";dog;", b";cat;", 1))


def drop_rows(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300].rsplit(b"\r\n", 1)[0])


def swap_rows(path: Path) -> None:
    """Two of one class: the labels are as they were."""
    text = path.read_bytes().replace(b"i8;", b"i?;", 1).replace(b"i10;", b"i8;", 1)
    path.write_bytes(text.replace(b"i?;", b"i10;", 1))


def rename_label(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"kind", b"kin", 1))


@pytest.mark.parametrize("change", [change_label, drop_rows, swap_rows, rename_label, Path.unlink])
def test_a_source_that_changed_since_is_refused(table: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    decide(folder, i9=("accept", "cat"))
    change(table)
    with pytest.raises((MarvelError, FileNotFoundError), match="has changed since the run|No such file"):
        export(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_runs_that_cannot_be_exported_say_why(table: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="there is no run in"):
        export(tmp_path / "nowhere", tmp_path / "out")
    folder = run_on(table, tmp_path / "run", **SETTINGS)
    with pytest.raises(InvalidInput, match="nothing was decided in .*marvel review .*--accept-all$"):
        export(folder, tmp_path / "out")
    columns = folder.instances()
    folder.write_instances({**columns, "wrong_probability": np.full(len(columns["index"]), 0.2)})
    with pytest.raises(InvalidInput, match="--accept-all or --accept-above 0.9$"):
        export(folder, tmp_path / "out")
    folder.write_instances(columns)
    other, facts = RunFolder(tmp_path / "other"), folder.config
    assert facts is not None
    other.config = {**facts, "data": {**facts["data"], "name": "digits", "origin": None}}
    with pytest.raises(InvalidInput, match="was on 'digits', which did not come from a file"):
        export(other, tmp_path / "out", accept_all=True)
    other.config = {**facts, "config": {**facts["config"], "noise": "symmetric"}}
    with pytest.raises(InvalidInput, match="made labels wrong on purpose"):
        export(other, tmp_path / "out", accept_all=True)
    with pytest.raises(UnknownName, match="no way to link 'hardlink'; did you mean 'hard'"):
        export(folder, tmp_path / "out", accept_all=True, link="hardlink")
    decide(folder, i3=("choose", "cat"))
    columns = folder.instances()
    folder.write_instances({name: column[:3] for name, column in columns.items()})
    with pytest.raises(FolderError, match="decides about instance 3"):
        export(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_formulas_in_ids_are_guarded_in_the_corrections(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,a,label\n" + "".join(f"=cmd({k}),{k % 5},{'pq'[k // 2 % 2]}\n" for k in range(20)))
    folder = run_on(path, tmp_path / "run", id="name")
    decide(folder, **{"=cmd(3)": ("choose", "p")})
    export(folder, tmp_path / "out")
    assert lines(tmp_path / "out" / "corrections.csv")[1][0] == "'=cmd(3)"
    corrections = str(tmp_path / "out" / "corrections.csv")
    assert labels_of(read(Config(data=str(path), id="name", corrections=corrections)))["=cmd(3)"] == "p"


# ---------------------------------------------------------------------------------------------- the command


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), out, err


def test_the_command_says_what_it_wrote(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small(photos, tmp_path / "run")
    flag(folder, ["cat/1.png", "cat/2.png"], "dog", [0.9, 0.9])
    decide(folder, **{"cat/1.png": ("accept", "dog")})
    code, out, err = said(["export", str(folder.path), "--out", str(tmp_path / "out")], capsys)
    assert (code, err) == (0, "")
    assert "1 label corrected; 1 instance set aside, and left out." in out
    assert "1 suspect is not decided about, and stays as it is: marvel review" in out
    assert "renamed: cat/1.png -> dog/1 (cat).png" in out and "12 instances written to" in out
    code, out, _ = said(["export", str(folder.path), "--out", str(tmp_path / "o2"), "--accept-all", "--json"], capsys)
    facts = json.loads(out)
    assert code == 0 and facts["changed"] == 2 and facts["unreviewed"] == 1 and facts["out"] == str(tmp_path / "o2")
    code, out, err = said(["export", str(folder.path), "--out", str(tmp_path / "out")], capsys)
    assert (code, out) == (2, "") and "is there already" in err and len(err.splitlines()) == 1
