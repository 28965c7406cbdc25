"""CSV files as text: cells as they are written, and every record's own bytes for writing it back.

The standard library's reader decides what a record is. It asks for a line at a time, so that the lines it took for a
record are that record's text: quoting, spaces and line ends can be kept without writing them anew.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marvel.errors import DataError

DELIMITERS = ",;\t|"
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
LONGEST = 2**31 - 1
"""Of a cell; the csv module's own limit is 128 KiB, which a text may exceed."""
CHUNK = 10_000
"""Records that are turned into columns at a time."""


@dataclass(frozen=True)
class Record:
    """A row of cells with the text it was read from, its line end included. A blank line has no cells."""

    text: str
    cells: list[str]


@dataclass(frozen=True)
class CsvText:
    """A file of comma-separated values, or of semicolons, tabs or bars: the one that makes most of the heading."""

    path: Path
    mark: bytes
    encoding: str
    text: str
    delimiter: str

    def records(self) -> Iterator[Record]:
        """The heading, then the rows."""
        taken: list[str] = []

        def lines() -> Iterator[str]:
            for line in io.StringIO(self.text, newline=""):
                taken.append(line)
                yield line

        before = csv.field_size_limit(LONGEST)
        reader = csv.reader(lines(), delimiter=self.delimiter, strict=True)
        try:
            for cells in reader:
                yield Record("".join(taken), cells)
                taken.clear()
        except csv.Error as error:
            first = reader.line_num - len(taken) + 1
            raise DataError(
                f"{self.path}, line {first}: {_said(error)}; in a quoted cell a quotation mark is written twice"
            ) from None
        finally:
            csv.field_size_limit(before)

    def rows(self) -> Iterator[Record]:
        """Without the heading and blank lines; each with as many cells as the heading."""
        records = (record for record in self.records() if record.cells)
        heading = next(records, None)
        if heading is None:
            raise DataError(f"{self.path} is empty: a table has a heading and rows")
        for row, record in enumerate(records):
            if len(record.cells) != len(heading.cells):
                shown = " ".join(record.text.split())[:60]
                advice = f"a cell with a {_NAMES[self.delimiter]} in it needs quotation marks"
                if row == 0:
                    said = " ".join(heading.text.split())[:60]
                    advice = f"the heading is taken to be {said!r}; delete what stands above it, and {advice}"
                raise DataError(
                    f"{self.path}, row {row} has {len(record.cells)} cells and the heading {len(heading.cells)}: "
                    f"{shown!r}; {advice}"
                )
            yield record

    @property
    def heading(self) -> list[str]:
        """The columns' names, each different from the others."""
        first = next((record.cells for record in self.records() if record.cells), [])
        names: list[str] = []
        for cell in first:
            name, again = cell.strip(), 2
            while name in names:
                name, again = f"{cell.strip()}.{again}", again + 1
            names.append(name)
        return names

    def table(self) -> Any:
        """Columns of text. The metadata say which sign divides a number: a comma where cells are divided by others."""
        import pyarrow

        names = self.heading
        schema = pyarrow.schema([(name, pyarrow.string()) for name in names], {"decimal": self._decimal()})
        batches, rows = [], []
        for record in self.rows():
            rows.append(record.cells)
            if len(rows) == CHUNK:
                batches.append(_batch(rows, schema))
                rows = []
        if rows:
            batches.append(_batch(rows, schema))
        return pyarrow.Table.from_batches(batches, schema)

    def _decimal(self) -> str:
        return "," if self.delimiter == ";" and not re.search(r";\d+\.\d+;", self.text) else "."


def cut(text: str, place: int, delimiter: str) -> tuple[str, str, str]:
    """A record's text before a cell, the cell as it is written, and what comes after."""
    cell = re.compile(rf'"(?:[^"]|"")*"|[^{re.escape(delimiter)}\r\n]*')
    start = 0
    for _ in range(place):
        match = cell.match(text, start)
        assert match is not None  # the pattern takes nothing, too
        start = match.end() + len(delimiter)
    match = cell.match(text, start)
    assert match is not None
    return text[:start], match.group(), text[match.end() :]


def line_of(cells: Iterable[str], delimiter: str = ",", end: str = "\n") -> str:
    """A record; quotation marks where they are needed, whatever the line end of the file."""
    return delimiter.join(quoted(cell, delimiter) for cell in cells) + end


def quoted(cell: str, delimiter: str = ",") -> str:
    if cell != cell.strip() or any(sign in cell for sign in (delimiter, '"', "\r", "\n")):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def guarded(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; `unguarded` gives it back."""
    return f"'{cell}" if FORMULA.match(cell) else cell


def unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell[1:]) else cell


FORMULA = re.compile(r"'*([=+@\t\r]|-(?!\d+(\.\d+)?$))")
"""What a spreadsheet would compute: all that begins so but for a negative number; and what is guarded already."""

_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def read_csv(path: Path) -> CsvText:
    """The file, decoded; UTF-8 unless a byte-order mark says UTF-16."""
    content = path.read_bytes()
    mark, encoding = next(((m, e) for m, e in MARKS if content.startswith(m)), (b"", "utf-8"))
    if not mark and b"\0" in content[:4096]:
        raise DataError(f"{path} is not a text file; export the table as CSV, or as Parquet with that ending")
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line}; save the table as UTF-8"
        ) from None
    return CsvText(path, mark, encoding, text, _delimiter(path, text))


def _delimiter(path: Path, text: str) -> str:
    """The sign that divides the heading into most cells."""
    found = {}
    for delimiter in DELIMITERS:
        try:
            records = CsvText(path, b"", "", text, delimiter).records()
            found[delimiter] = next((len(record.cells) for record in records if record.cells), 0)
        except DataError:
            continue
    return max(found, key=lambda delimiter: found[delimiter]) if found else ","


def _batch(rows: list[list[str]], schema: Any) -> Any:
    import pyarrow

    return pyarrow.record_batch([pyarrow.array(cells, pyarrow.string()) for cells in zip(*rows)], schema=schema)


def _said(error: csv.Error) -> str:
    """The csv module's words, in ours where they are known."""
    words = str(error)
    return "a quotation mark is never closed" if "unexpected end of data" in words else words
