"""CSV and Parquet tables with a column more: the corrected label.

All other cells stay as they are, in a CSV file down to the byte: the new cell is added to the end of each record's own
text. Parquet keeps its types and its metadata.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marvel.data.classes import cell_text, class_name
from marvel.data.csv_text import CsvText, quoted, read_csv
from marvel.data.images import Watch
from marvel.data.tables import CORRECTED, TEXTS, class_names, find_picture, labels_of, open_table, row_ids
from marvel.errors import FolderError
from marvel.export.decided import Decided
from marvel.export.place import Written, put, tell
from marvel.runs import write_atomically

END = re.compile(r"(\r\n|\n|\r)?\Z")


def write_table(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """The table under its own name. Rows that are set aside are left out, or have no corrected label.

    Images that it names from its own folder come along, so that the names hold in the new one.
    """
    source = Path(what.origin.path)
    table = open_table(source)
    elsewhere = 0
    if what.origin.paths is not None:
        if what.origin.paths not in table.column_names:
            raise FolderError(f"{source} has changed since the run: it has no column '{what.origin.paths}' any more")
        cells = table[what.origin.paths].to_pylist()
        kept = [cell for row, cell in enumerate(cells) if keep_aside or row not in what.aside]
        elsewhere = _bring_images(source.parent, kept, place, link, watch)
    written = corrected_table(what, source, table, str(what.origin.label), place, keep_aside)
    return replace(written, elsewhere=elsewhere)


def _bring_images(folder: Path, cells: Sequence[Any], place: Path, link: str, watch: Watch | None) -> int:
    """Put the images where the table names them; how many lie outside of its folder, by a path that is not absolute."""
    elsewhere, done = 0, set[str]()
    for number, cell in enumerate(cells, 1):
        path = find_picture(folder, cell)
        if path is None or Path(str(cell_text(cell))).is_absolute() or not path.is_file():
            continue
        inside = os.path.normpath(path.relative_to(folder))
        if inside.startswith(".."):
            elsewhere += 1
        elif inside not in done:
            done.add(inside)
            put(path, place / inside, link)
            tell(watch, number, len(cells))
    return elsewhere


def corrected_table(what: Decided, source: Path, table: Any, label: str, place: Path, keep_aside: bool) -> Written:
    """`source`, which holds `table`, with the corrected labels in `place`."""
    if label not in table.column_names:
        raise FolderError(f"{source} has changed since the run: it has no column '{label}' any more")
    what.check_rows(table.num_rows)
    if what.origin.kind in ("table", "paths"):
        what.check_ids(row_ids(source, table, what.origin.id, what.origin.paths))
    labels = [what.label_of(row, said) for row, said in enumerate(labels_of(table, label).names)]
    kept = [row for row in range(len(labels)) if keep_aside or row not in what.aside]
    name = column_name(label, table.column_names)
    target = place / source.name
    if source.suffix.lower() in TEXTS:
        text = read_csv(source)
        write_atomically(target, _with_column(text, name, labels, set(kept)))
    else:
        _write_parquet(table, label, name, labels, kept, target)
    return Written(len(kept), name)


def column_name(label: str, taken: Sequence[str]) -> str:
    """`species_corrected`, and after the second time `species_corrected_2`."""
    base = CORRECTED.sub("", label) + "_corrected"
    number, name = 2, base
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def cells_of(labels: Sequence[str | None], values: Sequence[Any]) -> list[Any]:
    """The corrected labels as the column writes them, `values` being its cells.

    A label that stays is the cell itself: one class may be spelt in two ways, with and without a space at its end.
    """
    names = [class_name(value) for value in values]
    known: dict[str, Any] = {}
    for name, value in zip(names, values):
        if name is not None:
            known.setdefault(name, value)
    return [
        None if label is None else value if label == name else known.get(label, label)
        for label, name, value in zip(labels, names, values)
    ]


def _with_column(text: CsvText, name: str, labels: Sequence[str | None], kept: set[int]) -> bytes:
    """The file's own text, a cell longer in every record. Blank lines stay."""
    parts: list[str] = []
    row = -1  # the heading
    for record in text.records():
        if not record.cells:
            parts.append(record.text)
            continue
        if row < 0 or row in kept:
            cell = name if row < 0 else labels[row] or ""
            match = END.search(record.text)
            end = match.start() if match else len(record.text)
            parts += [record.text[:end], text.delimiter, quoted(cell, text.delimiter), record.text[end:]]
        row += 1
    return text.mark + "".join(parts).encode(text.encoding)


def _write_parquet(
    table: Any, label: str, name: str, labels: Sequence[str | None], kept: Sequence[int], target: Path
) -> None:
    import pyarrow
    import pyarrow.parquet

    cells = _like(table[label], _in_column(table, label, labels))
    wider = _taken(table.append_column(pyarrow.field(name, cells.type), cells), kept)
    metadata = dict(wider.schema.metadata or {})
    for library, noted in {b"huggingface": _by_datasets, b"pandas": _by_pandas}.items():
        if library in metadata:
            metadata[library] = _noted(metadata[library], label, name, noted)
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(wider.replace_schema_metadata(metadata or None), sink)
    write_atomically(target, sink.getvalue().to_pybytes())


def _in_column(table: Any, label: str, labels: Sequence[str | None]) -> list[Any]:
    """The corrected labels as the column says them: where it has names noted, by number, those too that no cell has."""
    names = class_names(table, label)
    if names is None:
        return cells_of(labels, table[label].to_pylist())
    number = {name: number for number, name in enumerate(names)}
    return [None if one is None else number[one] for one in labels]


def _like(column: Any, cells: Sequence[Any]) -> Any:
    """The cells in the column's own type. Categories keep their order, which may mean something, and those without a
    cell."""
    import pyarrow

    kind = column.type
    if not pyarrow.types.is_dictionary(kind):
        return pyarrow.array(cells, kind)
    categories = column.unify_dictionaries().chunk(0).dictionary
    code = {value: number for number, value in enumerate(categories.to_pylist())}
    codes = pyarrow.array([None if cell is None else code[cell] for cell in cells], kind.index_type)
    return pyarrow.DictionaryArray.from_arrays(codes, categories, ordered=kind.ordered)


def _taken(table: Any, kept: Sequence[int]) -> Any:
    """These rows, in their order."""
    import pyarrow

    if len(kept) == len(table):
        return table
    try:
        return table.take(pyarrow.array(kept, pyarrow.int64()))
    except pyarrow.ArrowNotImplementedError:
        # There are types of which Arrow takes no single cells (views of strings): those are cut into pieces.
        ends = [place for place in range(1, len(kept)) if kept[place] != kept[place - 1] + 1]
        pieces = zip([0, *ends], [*ends, len(kept)])
        return pyarrow.concat_tables([table.slice(kept[first], last - first) for first, last in pieces])


def _noted(metadata: bytes, label: str, name: str, note: Callable[[Any, str, str], None]) -> bytes:
    """What a library has written about the columns, with what it says of `label` said of `name` too."""
    try:
        noted = json.loads(metadata)
        note(noted, label, name)
    except (ValueError, LookupError, TypeError):
        return metadata
    return json.dumps(noted).encode()


def _by_datasets(noted: Any, label: str, name: str) -> None:
    """It refuses a table with a column that its note does not have."""
    noted["info"]["features"][name] = noted["info"]["features"][label]


def _by_pandas(noted: Any, label: str, name: str) -> None:
    """It reads a column that its note does not have as NumPy's: Int64 as int64, or as float64 where a cell is empty."""
    (same,) = [column for column in noted["columns"] if column["field_name"] == label]
    noted["columns"].append({**same, "name": name, "field_name": name})
