"""CSV and Parquet tables with a column more: the corrected label.

All other cells stay as they are, in a CSV file down to the byte: the new cell is added to the end of each record's own
text. Parquet keeps its types and its metadata.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marvel.data.classes import cell_text, class_name
from marvel.data.csv_text import CsvText, quoted, read_csv
from marvel.data.images import Watch
from marvel.data.tables import CORRECTED, TEXTS, find_picture, open_table, row_ids
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
    values = table[label].to_pylist()
    labels = [what.label_of(row, class_name(value)) for row, value in enumerate(values)]
    kept = [row for row in range(len(labels)) if keep_aside or row not in what.aside]
    name = column_name(label, table.column_names)
    target = place / source.name
    if source.suffix.lower() in TEXTS:
        text = read_csv(source)
        write_atomically(target, _with_column(text, name, labels, set(kept)))
    else:
        _write_parquet(table, label, name, labels, kept, target)
    return Written(len([row for row in kept if row in what.corrected]), name)


def column_name(label: str, taken: Sequence[str]) -> str:
    """`species_corrected`, and after the second time `species_corrected_2`."""
    base = CORRECTED.sub("", label) + "_corrected"
    number, name = 2, base
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def original_values(values: Sequence[Any], classes: Sequence[str]) -> dict[str, Any]:
    """Class name -> the value that stood for it, of the type the column has."""
    found: dict[str, Any] = {}
    for value in values:
        name = class_name(value)
        if name is not None:
            found.setdefault(name, value)
    return {name: found.get(name, name) for name in {*classes, *found}}


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

    value = original_values(table[label].to_pylist(), [])
    kind = table.schema.field(label).type
    cells = pyarrow.array([None if one is None else value.get(one, one) for one in labels], kind)
    wider = table.append_column(pyarrow.field(name, kind), cells).take(pyarrow.array(kept, pyarrow.int64()))
    metadata = dict(wider.schema.metadata or {})
    if b"huggingface" in metadata:
        metadata[b"huggingface"] = _with_feature(metadata[b"huggingface"], label, name)
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(wider.replace_schema_metadata(metadata or None), sink)
    write_atomically(target, sink.getvalue().to_pybytes())


def _with_feature(metadata: bytes, label: str, name: str) -> bytes:
    """`datasets` refuses a table with a column its own note of the columns does not have."""
    try:
        noted = json.loads(metadata)
        noted["info"]["features"][name] = noted["info"]["features"][label]
    except (ValueError, KeyError, TypeError):
        return metadata
    return json.dumps(noted).encode()
