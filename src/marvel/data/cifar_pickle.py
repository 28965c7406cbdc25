"""Reads the Python pickles CIFAR is distributed as, without unpickling.

Unpickling runs whatever the file says. Here the opcodes are listed by `pickletools.genops`, which executes nothing,
and replayed on plain values: a global stays its name and a call stays a record that nobody makes. Only the few
opcodes and names that CIFAR's files are made of are understood; any other is refused, and so is a file whose
arrays do not have exactly the shape CIFAR's have.
"""

import pickletools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.errors import DataError

PIXELS = 3 * 32 * 32

# Written by Python 2 with old numpy (the official files), or by Python 3 with any numpy.
RECONSTRUCT = {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"}
NDARRAY, DTYPE, ENCODE = "numpy ndarray", "numpy dtype", "_codecs encode"
KNOWN = RECONSTRUCT | {NDARRAY, DTYPE, ENCODE}

PUSH = {
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "SHORT_BINSTRING",
    "BINSTRING",
    "BINUNICODE",
    "SHORT_BINUNICODE",
}
PUSH |= {"BINBYTES", "SHORT_BINBYTES"}
CONSTANTS: dict[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class _Global:
    """A name the file refers to; never looked up."""

    name: str


@dataclass
class _Call:
    """A call the file asks for; never made."""

    function: str
    arguments: tuple[Any, ...]
    state: object = None


def read_cifar_pickle(
    path: Path, labels: Mapping[str, int], rows: int
) -> tuple[npt.NDArray[np.uint8], dict[str, npt.NDArray[np.int64]]]:
    """The images (rows, 3, 32, 32) and the label lists of one file; `labels` maps each list's key to its classes."""
    try:
        # Names and opcodes are small beside the pixels, of which no way of writing them takes more than two bytes each.
        if path.stat().st_size > 3 * rows * PIXELS:
            raise DataError(f"too large for {rows} CIFAR images")
        content = _replay(path.read_bytes())
    except DataError as error:
        raise DataError(f"{path}: {error}; get a fresh copy") from None
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        # A file that is cut or not a pickle trips over the replay's own operations in any of these ways.
        raise DataError(f"{path}: not a CIFAR file ({error}); get a fresh copy") from None
    try:
        images = _array(content.get("data"), rows)
        lists = {key: _labels(key, content.get(key), rows, classes) for key, classes in labels.items()}
    except DataError as error:
        raise DataError(f"{path}: {error}; get a fresh copy") from None
    return images.reshape(rows, 3, 32, 32), lists


def _replay(pickled: bytes) -> dict[Any, Any]:
    """The dict a pickle describes, with calls and globals left as inert records."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        values = stack[start:]
        del stack[start:]
        return values

    argument: Any
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name in PUSH:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[int(argument)])
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name == "APPENDS":
            values = since_mark()
            stack[-1].extend(values)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            stack[-1].update({_text(key): value})
        elif name == "SETITEMS":
            values = since_mark()
            stack[-1].update(zip(map(_text, values[::2]), values[1::2], strict=True))
        elif name == "TUPLE":
            stack.append(tuple(since_mark()))
        elif name in TUPLES:
            size = TUPLES[name]
            values = [stack.pop() for _ in range(size)]
            stack.append(tuple(reversed(values)))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            if name == "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                argument = f"{_text(module)} {_text(attribute)}"
            if argument not in KNOWN:
                raise DataError(f"refused: it asks for '{argument}', which no CIFAR file does")
            stack.append(_Global(argument))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_Call(function.name, arguments))
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].state = state
        elif name == "STOP":
            break
        elif name not in ("PROTO", "FRAME"):
            raise DataError(f"refused: it holds the pickle instruction {name}, which no CIFAR file does")

    content = stack.pop()
    if stack or not isinstance(content, dict):
        raise DataError("not a CIFAR file: expected one dict")
    return content


def _text(value: object) -> str:
    """Keys and names are text; hashing or printing whatever else a file nests there could overflow the C stack."""
    if not isinstance(value, str):
        raise DataError("refused: it holds a key or a name that is not text")
    return value


def _array(value: object, rows: int) -> npt.NDArray[np.uint8]:
    """The (rows, 3072) uint8 array a recorded reconstruction describes."""
    match value:
        case _Call(function, (_Global("numpy ndarray"), (0,), _), (1, shape, dtype, False, raw)) if (
            function in RECONSTRUCT
        ):
            pass
        case _:
            raise DataError("'data' is not the array CIFAR's files hold")
    match dtype:
        case _Call("numpy dtype", ("u1" | "|u1", *_)):
            pass
        case _:
            raise DataError("'data' is not an array of bytes (uint8)")
    match raw:
        case bytes() as pixels:
            pass
        case str() as text:  # Python 2's byte strings arrive as text, one character a byte
            pixels = _bytes(text)
        case _Call("_codecs encode", (str() as text, "latin1")):  # Python 3's bytes in protocol 2
            pixels = _bytes(text)
        case _:
            raise DataError("'data' is not the array CIFAR's files hold")
    if shape != (rows, PIXELS) or len(pixels) != rows * PIXELS:
        raise DataError(f"'data' must be {rows} images of {PIXELS} bytes; it holds {len(pixels)} bytes")
    return np.frombuffer(pixels, dtype=np.uint8).reshape(rows, PIXELS).copy()


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise DataError("'data' is not made of bytes") from None


def _labels(key: str, value: object, rows: int, classes: int) -> npt.NDArray[np.int64]:
    if not isinstance(value, list) or len(value) != rows:
        raise DataError(f"'{key}' must be a list of {rows} labels")
    if not all(type(label) is int and 0 <= label < classes for label in value):
        raise DataError(f"'{key}' must be whole numbers in 0..{classes - 1}")
    return np.array(value, dtype=np.int64)
