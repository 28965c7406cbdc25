"""Columns of a table as numbers a network can take.

    number    standardised, dates as days; a missing cell becomes the mean, and a second column says that it was missing
    category  a yes/no column for each of the most frequent values, and one for all others
    text      hashed n-grams of words (of letters, where words have no spaces between them), brought down to few numbers
    vector    a list of numbers in each row, such as an embedding: standardised, number by number

What a column is follows from its cells, and can be said instead. Left out are columns that say nothing (one value),
that number or name the rows (the index of a DataFrame too), or that repeat the label.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.data.classes import MISSING
from marvel.errors import DataError, InvalidInput, UnknownName, amount

KINDS = ("number", "category", "text", "leave")
MOST_VALUES = 50
"""Values of a category that get a column of their own."""
TEXT = 64
"""Numbers that a text becomes, at most."""
HASHES = 2**16
"""Numbers that its n-grams are hashed to on the way."""
SAMPLE = 20_000
"""Texts that the directions are taken of."""
SEEN = 1000
"""Texts that are looked at to tell what they are."""
MOSTLY = 0.9
"""Share of numbers among the cells from which on the others are taken as missing."""

INDEX = re.compile(r"__index_level_\d+__")
"""What pandas and `datasets` call an index without a name, where they write it as a column of Parquet."""
FIRST_INDEX = ("", "Unnamed: 0")
"""What its column is called in a CSV file, where it comes first: by pandas, and once it was read and written again."""

Floats = npt.NDArray[np.float32]
Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A row of numbers for each row of the table."""

    x: Floats
    kinds: dict[str, str]
    digest: str
    """A sha256 of what the numbers were made from: those of texts differ in their last bits from machine to machine."""
    notes: list[str] = field(default_factory=list)


def read_kinds(text: str | None) -> dict[str, str]:
    """`age=number,zip=category` -> {"age": "number", "zip": "category"}"""
    kinds = {}
    for pair in (text or "").split(","):
        if not pair.strip():
            continue
        name, given, kind = pair.rpartition("=")
        if not given:
            raise InvalidInput(f"columns should be name=kind with commas between, got {pair!r}: write age=number")
        if kind.strip() not in KINDS:
            raise UnknownName("kind of column", kind.strip(), KINDS)
        kinds[name.strip()] = kind.strip()
    return kinds


def encode(
    what: str, table: Any, fit: Chosen, given: Mapping[str, str], y: npt.NDArray[np.int64], decimal: str = "."
) -> Encoded:
    """The table as numbers. Means, deviations and values are those of the rows `fit`; `y` shows what repeats labels."""
    for name in given:
        if name not in table.column_names:
            raise UnknownName(f"column of {what}", name, table.column_names)
    blocks: list[Floats] = []
    kinds: dict[str, str] = {}
    notes: list[str] = []
    left: dict[str, str] = {}
    digest = hashlib.sha256()
    indices = _indices(table)
    for name in table.column_names:
        cells = _Cells(name, table[name], fit, decimal)
        kind = given.get(name)
        if kind is None:
            kind, why = cells.guess(y)
            if kind != "leave" and name in indices:
                kind, why = "leave", "the index of a DataFrame"
            if kind == "leave":
                left[name] = why
        kinds[name] = kind
        if kind != "leave":
            blocks.append(cells.encode(kind, notes))
            digest.update(f"{name!r} {kind} ".encode())
            digest.update("\0".join(cells.as_texts()).encode() if kind == "text" else blocks[-1].tobytes())
    if not blocks:
        why = "; ".join(f"'{name}': {reason}" for name, reason in left.items()) or "it has no other than the label"
        raise DataError(f"{what} has no column to learn from ({why}); --columns name=category takes one")
    if left:
        notes.append("left out: " + ", ".join(f"'{name}' ({reason})" for name, reason in left.items()))
    taken = [f"'{name}' as {kind}" for name, kind in kinds.items() if kind != "leave"]
    shown = ", ".join(taken[:12]) + (f" and {len(taken) - 12} more" if len(taken) > 12 else "")
    notes.append(f"columns are taken as they look, {shown}; --columns says otherwise")
    return Encoded(np.concatenate(blocks, axis=1), kinds, digest.hexdigest(), [f"{what}: {note}" for note in notes])


def _indices(table: Any) -> set[str]:
    """The columns that a DataFrame had for its index: they tell rows apart, and may give away how these were sorted."""
    names = table.column_names
    found = {name for name in names if INDEX.fullmatch(name)} | {name for name in names[:1] if name in FIRST_INDEX}
    try:
        said = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return found | {name for name in said if isinstance(name, str)}  # a range is no column
    except (ValueError, KeyError, TypeError, RecursionError):  # whatever a file says there
        return found


class _Cells:
    """One column: what it looks like, and its numbers."""

    def __init__(self, name: str, column: Any, fit: Chosen, decimal: str) -> None:
        import pyarrow

        types = pyarrow.types
        self.name, self.fit, self.decimal = name, fit, decimal
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        self.vectors = self.numbers = None
        self.texts: list[str | None] | None = None
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            self.vectors = _vectors(column.to_pylist())
        elif types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            self.numbers = _floats(column.cast(kind))
        elif types.is_temporal(kind) and not types.is_interval(kind):
            # In the unit of the column, which does not matter once it is standardised.
            days = types.is_date32(kind) or types.is_time32(kind)
            self.numbers = _floats(column.cast(kind).cast(pyarrow.int32() if days else pyarrow.int64()))
        elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            self.texts = [None if c is None or c.strip().lower() in MISSING else c.strip() for c in column.to_pylist()]
        self.type = str(kind)

    def guess(self, y: npt.NDArray[np.int64]) -> tuple[str, str]:
        """What kind of column this is, and why where it is left out."""
        if self.vectors is not None:
            return "vector", ""
        if self.numbers is None and self.texts is None:
            return "leave", f"{self.type} cells cannot be taken"
        codes = self.codes[self.fit]
        present = codes[codes >= 0]
        distinct = len(np.unique(present))
        if distinct == 0:
            return "leave", "empty"
        if distinct == 1 and len(present) == len(codes):
            return "leave", "the same in every row"
        if _repeats(self.codes, y):
            return "leave", "says the same as the label"
        if np.isfinite(self.as_numbers[self.fit]).sum() >= MOSTLY * len(present):
            first = self.as_numbers[0]
            if len(codes) >= 10 and np.array_equal(self.as_numbers, first + np.arange(len(self.as_numbers))):
                return "leave", "it numbers the rows"
            return "number", ""
        texts = [text for text, fits in zip(self.texts or (), self.fit) if fits and text is not None][:SEEN]
        words = float(np.mean([len(text.split()) for text in texts]))
        if distinct <= max(2, len(present) // 2) and (words < 5 or distinct <= MOST_VALUES):
            return "category", ""
        if words >= 2 or _without_spaces(texts):
            return "text", ""
        if distinct == len(present):
            return "leave", "it names the rows"
        return "category", ""

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """A number for each value, -1 where a cell is missing."""
        if self.numbers is not None:
            codes = np.full(len(self.numbers), -1, dtype=np.int64)
            there = ~np.isnan(self.numbers)
            codes[there] = np.unique(self.numbers[there], return_inverse=True)[1]
            return codes
        known: dict[str, int] = {}
        texts = self.texts or ()
        return np.array([-1 if text is None else known.setdefault(text, len(known)) for text in texts], dtype=np.int64)

    @cached_property
    def as_numbers(self) -> npt.NDArray[np.float64]:
        """NaN where a cell is missing or no number."""
        if self.numbers is not None:
            return self.numbers
        texts = self.texts or ()
        numbers = np.array([_number(text, self.decimal) for text in texts], dtype=np.float64)
        enough = MOSTLY * sum(text is not None for text in texts)
        if np.isfinite(numbers).sum() >= enough:
            return numbers
        dates = np.array([_date(text) for text in texts], dtype=np.float64)
        return dates if np.isfinite(dates).sum() >= enough else numbers

    def as_texts(self) -> list[str]:
        """Empty where a cell is missing."""
        if self.texts is not None:
            return [text or "" for text in self.texts]
        return ["" if math.isnan(number) else f"{number:g}" for number in self.as_numbers.tolist()]

    def encode(self, kind: str, notes: list[str]) -> Floats:
        if kind == "vector":
            assert self.vectors is not None
            return np.concatenate([_standardised(column, self.fit) for column in self.vectors.T], axis=1)
        if self.vectors is not None or (self.numbers is None and self.texts is None):
            raise InvalidInput(f"column '{self.name}' holds {self.type} cells, which cannot be taken as {kind}")
        if kind == "number":
            return self._numbers(notes)
        return self._categories() if kind == "category" else self._texts()

    def _numbers(self, notes: list[str]) -> Floats:
        numbers = self.as_numbers
        if not np.isfinite(numbers[self.fit]).any():
            raise InvalidInput(f"column '{self.name}' holds no numbers: --columns '{self.name}=category'")
        odd = [r for r, text in enumerate(self.texts or ()) if text is not None and math.isnan(numbers[r])]
        if odd and self.texts is not None:
            notes.append(
                f"column '{self.name}' holds numbers but for {amount(len(odd), 'cell')}, taken as missing: "
                f"{self.texts[odd[0]]!r} in row {odd[0]}"
            )
        return _standardised(numbers, self.fit)

    def _categories(self) -> Floats:
        values = self.as_texts()
        counts = Counter(value for value, fits in zip(values, self.fit) if fits)
        # The rest share a column, which comes last; a missing cell is a value like any other.
        common = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES]
        place = {value: number for number, value in enumerate(common)}
        x = np.zeros((len(values), len(common) + (len(counts) > len(common))), dtype=np.float64)
        for row, value in enumerate(values):
            column = place.get(value, len(common))
            if column < x.shape[1]:
                x[row, column] = 1
        # Divided by a half, the most that a yes/no column deviates: a rare value must not outweigh all else.
        centred: Floats = ((x - x[self.fit].mean(axis=0)) / 0.5).astype(np.float32)
        return centred

    def _texts(self) -> Floats:
        """Hashed n-grams, weighed by how rare they are, in the few directions in which the texts differ most.

        The hashes themselves are too many for a network: it learns every text by heart, its label with it.
        """
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

        texts = self.as_texts()
        letters = _without_spaces([text for text in texts if text])
        analyzer, ngrams = ("char", (1, 3)) if letters else ("word", (1, 2))
        hashing = HashingVectorizer(
            n_features=HASHES,
            ngram_range=ngrams,
            analyzer=analyzer,
            token_pattern=r"(?u)\b\w+\b",
            alternate_sign=False,
            norm=None,
        )
        counts = hashing.transform(texts)
        known = np.flatnonzero(self.fit)
        frequency = np.bincount(counts[known].indices, minlength=HASHES)
        # An n-gram of one text says nothing about others.
        shared = np.flatnonzero(frequency >= (2 if (frequency >= 2).any() else 1))
        directions = min(TEXT, len(shared), len(known) - 1)
        if directions < 2:
            only = counts[:, shared].sum(axis=1)  # of one n-gram, or none
            return _standardised(np.asarray(only, dtype=np.float64).reshape(-1), self.fit)
        sample = known[np.linspace(0, len(known) - 1, min(SAMPLE, len(known)), dtype=int)]
        weighed = TfidfTransformer(sublinear_tf=True).fit(counts[sample][:, shared]).transform(counts[:, shared])
        with np.errstate(invalid="ignore", divide="ignore"):  # shares of no variance at all, where all texts are one
            decomposition = TruncatedSVD(directions, random_state=0).fit(weighed[sample])
        x: Floats = decomposition.transform(weighed).astype(np.float32)
        x -= x[self.fit].mean(axis=0)
        # One deviation for the whole block: the first directions matter most.
        spread = float(np.sqrt((x[self.fit].astype(np.float64) ** 2).mean()))
        return x / np.float32(spread or 1.0)


def _standardised(numbers: npt.NDArray[np.float64], fit: Chosen) -> Floats:
    """(n, 1), or (n, 2) with the column that says what was missing."""
    missing = np.isnan(numbers)
    known = numbers[fit & ~missing]
    scale = float(np.abs(known).max()) or 1.0 if len(known) else 1.0
    known = known / scale  # squares of the largest numbers would overflow
    mean, std = (float(known.mean()), float(known.std())) if len(known) else (0.0, 1.0)
    x = np.where(missing, 0.0, (np.where(missing, 0.0, numbers) / scale - mean) / (std or 1.0))
    # A test row may lie far outside of what the training rows span.
    columns = [np.clip(x, -1e6, 1e6)]
    if missing[fit].any():
        columns.append((missing - missing[fit].mean()) / 0.5)
    return np.stack(columns, axis=1).astype(np.float32)


def _number(text: str | None, decimal: str) -> float:
    try:
        number = float((text or "").replace(decimal, "."))
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _date(text: str | None) -> float:
    """Days, of a date as ISO 8601 writes it. Others are ambiguous: 03/04/2024 is in March or in April."""
    try:
        moment = datetime.fromisoformat(text or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / 86400
    except (ValueError, OverflowError):
        return math.nan


def _vectors(cells: list[Any]) -> npt.NDArray[np.float64] | None:
    """(n, D); None where the cells are not lists of numbers of one length. A missing cell is a row of NaN."""
    lengths = {len(cell) for cell in cells if cell is not None}
    if len(lengths) != 1 or lengths == {0}:
        return None
    empty = [math.nan] * lengths.pop()
    try:
        array = np.array([empty if cell is None else cell for cell in cells], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    array[~np.isfinite(array)] = math.nan
    return array if array.ndim == 2 else None


def _floats(column: Any) -> npt.NDArray[np.float64]:
    """NaN where a cell is missing or not finite."""
    import pyarrow

    # Not safe, in Arrow's word: whole numbers beyond 2^53 are rounded.
    numbers = np.array(column.cast(pyarrow.float64(), safe=False).to_numpy(), dtype=np.float64)
    numbers[~np.isfinite(numbers)] = math.nan
    return numbers


def _repeats(codes: npt.NDArray[np.int64], y: npt.NDArray[np.int64]) -> bool:
    """Whether each class has a value of its own, and each value a class: another spelling of the label."""
    labels, values = y[y >= 0], codes[y >= 0]
    classes = len(np.unique(labels))
    if len(np.unique(values)) != classes or len(y) <= 2 * classes:
        return False
    pairs = labels * (int(values.max()) + 2) + values
    return len(np.unique(pairs)) == classes


def _without_spaces(texts: Sequence[str]) -> bool:
    """Text in a script that puts no spaces between words."""
    joined = "".join(texts[:SEEN])
    foreign = sum(ord(sign) > 0x2E7F for sign in joined)
    return foreign > len(joined) / 2 and len(joined) >= 4 * min(len(texts), SEEN)
