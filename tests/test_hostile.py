"""Files made in order to do harm, or plain rubbish: refused in one line, and nothing in them is executed.

Every reader is given what hypothesis makes up and what becomes of good files when bytes of them change. It must read
them or raise an error of Marvel's own. `make soak` tries thousands, and `atheris` where it is installed.
"""

import io
import json
import os
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from marvel import data as datasets
from marvel.config import config_from, read_config
from marvel.data.corrections import correct
from marvel.errors import DataError, MarvelError
from marvel.networks import build
from marvel.networks.weights import load_weights
from marvel.results import records
from marvel.runs import RunFolder
from soaking import NOTES, note, seed, times

pytestmark = pytest.mark.timeout(300 if NOTES is None else 7200)
PROMISE = "Hostile and broken files are refused in one line"
COUNT = times(8, 400)
HARD = settings(max_examples=COUNT, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


class Trap:
    """Unpickled, it leaves a mark."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("sprung",))


# ------------------------------------------------------------ the readers, and a good file of each kind


def a_table(folder: Path) -> None:
    lines = [f"{k},{k * 0.5},{'red' if k % 3 else 'blue'},{'cat' if k % 2 else 'dog'}" for k in range(12)]
    (folder / "it.csv").write_text("\n".join(["n,height,colour,label", *lines]))


def a_parquet(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"x": [0.5 * k for k in range(12)], "label": ["cat" if k % 2 else "dog" for k in range(12)]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "it.parquet")


def an_npz(folder: Path) -> None:
    np.savez(folder / "it.npz", x=np.arange(24.0).reshape(12, 2), y=np.arange(12) % 2)


def an_npy(folder: Path) -> None:
    np.save(folder / "it.npy", np.arange(24.0).reshape(12, 2))
    np.save(folder / "labels.npy", np.arange(12) % 2)


def images(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "it" / name).mkdir(parents=True)
        for k in range(3):
            picture = Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8))
            picture.save(folder / "it" / name / f"{k}.png" if k else folder / "it" / name / "0.jpg")


def some_weights(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file(build("cnn2", 2, (1, 8, 8), 0).state_dict(), folder / "it.safetensors")


def a_config(folder: Path) -> None:
    (folder / "it.toml").write_text('method = "marvel"\nepochs = 3\ndrops = [1, 2]\nlr = 0.1\n')


def corrections(folder: Path) -> None:
    an_npz(folder)
    (folder / "it.csv").write_text("row,corrected,action\n3,0,choose\n4,,aside\n")


def a_run(folder: Path) -> None:
    (folder / "it.json").write_text(json.dumps({"config": {"data": "x"}, "data": {"classes": ["a"], "n": 3}}))


def load(path: Path) -> Any:
    return datasets.load(str(path))


def load_pair(path: Path) -> Any:
    return datasets.load(str(path), labels=str(path.with_name("labels.npy")))


def load_run(path: Path) -> Any:
    folder = path.parent / "run"
    (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
    (folder / "ledger").mkdir(exist_ok=True)
    for name in ("config.json", "record.json", "clean.json", "metrics.jsonl", "instances.parquet"):
        (folder / name).write_bytes(path.read_bytes())
    for name in ("checkpoint/0001.json", "checkpoint/0001.safetensors", "ledger/0001.safetensors"):
        (folder / name).write_bytes(path.read_bytes())
    run = RunFolder(folder)
    said = 0
    for ask in (lambda: run.config, lambda: run.record, lambda: run.found, run.metrics, run.instances):
        said += refused(ask)
    return said + refused(run.load_checkpoint) + refused(lambda: list(run.ledger()))


READERS: dict[str, tuple[Callable[[Path], None], str, Callable[[Path], Any]]] = {
    "csv": (a_table, "it.csv", load),
    "parquet": (a_parquet, "it.parquet", load),
    "npz": (an_npz, "it.npz", load),
    "npy": (an_npy, "it.npy", load_pair),
    "png": (images, "it/cat/1.png", lambda path: load(path.parent.parent)),
    "jpeg": (images, "it/dog/0.jpg", lambda path: load(path.parent.parent)),
    "safetensors": (
        some_weights,
        "it.safetensors",
        lambda path: load_weights(build("cnn2", 2, (1, 8, 8), 0), str(path)),
    ),
    "toml": (a_config, "it.toml", lambda path: config_from(read_config(str(path)))),
    "corrections": (corrections, "it.csv", lambda path: correct(load(path.with_name("it.npz")), path)),
    "run folder": (a_run, "it.json", load_run),
}


def refused(read: Callable[[], Any]) -> bool:
    """Whether Marvel says that it cannot read it; anything else that is raised is a defect."""
    try:
        read()
    except (MarvelError, MemoryError):
        return True
    return False


@pytest.mark.parametrize("kind", READERS)
def test_good_files_with_bytes_changed(kind: str, tmp_path: Path) -> None:
    make, name, read = READERS[kind]
    make(tmp_path)
    path = tmp_path / name
    assert not refused(lambda: read(path)) or kind == "run folder"
    whole, started = path.read_bytes(), seed()
    rng, bad = random.Random(f"{kind} {started}"), 0
    for k in range(COUNT):
        content = bytearray(whole)
        for _ in range(rng.choice((1, 1, 1, 4, 32))):
            at = rng.randrange(len(content))
            how = rng.randrange(4)
            if how == 0:
                content[at] ^= 1 << rng.randrange(8)
            elif how == 1:
                content[at] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
            elif how == 2:
                del content[at : at + rng.choice((1, 2, 1000))]
            else:
                content[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8))))
            if not content:
                break
        path.write_bytes(content)
        try:
            bad += refused(lambda: read(path))
        except BaseException as error:
            raise AssertionError(f"{kind}, input {k} of MARVEL_SEED={started}: {bytes(content[:300])!r}") from error
    note(PROMISE, inputs_changed=COUNT, inputs_refused=bad, seed=started)


@pytest.mark.parametrize("kind", READERS)
@HARD
@given(
    content=st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
)
def test_files_of_anything(kind: str, content: bytes, tmp_path: Path) -> None:
    make, name, read = READERS[kind]
    if not (tmp_path / name).exists():
        make(tmp_path)
    (tmp_path / name).write_bytes(content)
    refused(lambda: read(tmp_path / name))
    note(PROMISE, inputs_made_up=1)


CELLS = st.text(st.characters(codec="utf-8"), max_size=12)


@HARD
@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=12))
def test_tables_of_anything(rows: list[list[str]], tmp_path: Path) -> None:
    import csv

    with open(tmp_path / "it.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "label", "b", "c"], *rows])
    refused(lambda: load(tmp_path / "it.csv"))
    note(PROMISE, inputs_made_up=1)


def test_a_table_whose_text_is_no_text_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet

    whole = pyarrow.array([b"cat", b"\x96\xff", b"dog"], pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), 3, whole.buffers())
    pyarrow.parquet.write_table(pyarrow.table({"a": [1.0, 2.0, 3.0], "label": text}), tmp_path / "it.parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet: .*UTF8"):
        load(tmp_path / "it.parquet")


def test_an_archive_that_holds_something_else_than_arrays_is_refused(tmp_path: Path) -> None:
    import zipfile

    np.savez(tmp_path / "it.npz", x=np.zeros((4, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "it.npz", "a") as archive:
        archive.writestr("y.npy", b"no array at all")
    with pytest.raises(DataError, match="'y' in it is no array"):
        load(tmp_path / "it.npz")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(
    ["data", "method", "epochs", "rates", "lr", "drops", "options", "noise", "seed", "columns", "wait"]
)


@HARD
@given(told=st.dictionaries(KEYS | st.text(max_size=8), VALUES, max_size=5))
def test_settings_of_anything(told: dict[str, Any]) -> None:
    refused(lambda: config_from(told))
    note(PROMISE, inputs_made_up=1)


# ------------------------------------------------------------ pickles


@pytest.mark.parametrize("how", ["npz", "npy", "labels", "weights", "plain pickle"])
def test_no_pickle_is_ever_loaded(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, trap = np.arange(8.0).reshape(4, 2), np.array([Trap()] * 4, dtype=object)
    (tmp_path / "it.pt").write_bytes(pickle.dumps(Trap()))
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("it/data.pkl", pickle.dumps(Trap()))
        archive.writestr("it/version", "3\n")
    np.savez("it.npz", x=x, y=trap)
    np.save("x.npy", x)
    np.save("it.npy", trap)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Trap()))
    network = build("cnn2", 2, (1, 8, 8), 0)
    tries: dict[str, list[Callable[[], Any]]] = {
        "npz": [lambda: datasets.load("it.npz")],
        "npy": [lambda: datasets.load("it.npy", labels="x.npy"), lambda: datasets.load("plain.npy", labels="x.npy")],
        "labels": [lambda: datasets.load("x.npy", labels="it.npy"), lambda: datasets.load("x.npy", labels="plain.npy")],
        "weights": [lambda: load_weights(network, "it.pt"), lambda: load_weights(network, "zip.pt")],
        "plain pickle": [lambda: datasets.load("it.pt")],
    }
    for attempt in tries[how]:
        with pytest.raises(MarvelError):
            attempt()
    assert not Path("sprung").exists()
    pickle.loads(pickle.dumps(Trap()))
    assert Path("sprung").exists(), "the trap works"


# ------------------------------------------------------------ bombs


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """64 GiB of zeros in a small file: said to be too large, and never held."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 30, 8)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(1 << 20))
        archive.writestr("y.npy", _npy(np.zeros(4)))
    with pytest.raises((MarvelError, MemoryError)):
        datasets.load(str(tmp_path / "bomb.npz"))


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_archives_and_tables_beyond_all_memory_are_refused(tmp_path: Path) -> None:
    """Where a file says what it holds, that is believed before it is read: a bomb is told by its size."""
    import pyarrow
    import pyarrow.parquet

    archive = tmp_path / "bomb.npz"
    an_npz(tmp_path)
    content = bytearray((tmp_path / "it.npz").read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFFE)  # the first member says that it is 4 GiB
    archive.write_bytes(content)
    table = pyarrow.table(
        {"x": pyarrow.array([0.0, 1.0, 2.0, 3.0] * 25_000), "label": pyarrow.array(["a", "b"] * 50_000)}
    )
    pyarrow.parquet.write_table(table, tmp_path / "bomb.parquet")
    (tmp_path / "bomb.csv").write_bytes(b"x,label\n" + b"1,a\n2,b\n" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.sysconf", lambda name: 1 if name == "SC_PHYS_PAGES" else 4096)
        for name in ("bomb.npz", "bomb.parquet", "bomb.csv"):
            with pytest.raises(MarvelError, match="GiB of memory"):
                datasets.load(str(tmp_path / name))
    assert len(datasets.load(str(tmp_path / "bomb.parquet"))) == 100_000


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"a=[", b"a={b="])
def test_what_is_nested_without_end_is_refused(opening: bytes, tmp_path: Path) -> None:
    (tmp_path / "it.toml").write_bytes(opening * 100_000)
    with pytest.raises(MarvelError, match="not a TOML file"):
        read_config(tmp_path / "it.toml")
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / name).write_bytes(opening * 100_000 + b"\n")
    for read in (
        lambda: RunFolder(tmp_path).config,
        RunFolder(tmp_path).metrics,
        lambda: records(tmp_path / "metrics.jsonl"),
    ):
        with pytest.raises(MarvelError, match="is damaged"):
            read()


def test_a_picture_that_says_it_is_huge_is_set_aside(tmp_path: Path) -> None:
    images(tmp_path)
    picture = bytearray((tmp_path / "it/cat/1.png").read_bytes())
    picture[16:24] = struct.pack(">II", 60_000, 60_000)
    picture[29:33] = struct.pack(">I", zlib.crc32(picture[12:29]))
    (tmp_path / "it/cat/bomb.png").write_bytes(picture)
    found = datasets.load(str(tmp_path / "it"))
    assert [one.id for one in found.set_aside] == ["cat/bomb.png"] and len(found) == 6


@pytest.mark.parametrize("claim", ["header", "overlap", "beyond"])
def test_safetensors_that_lie_about_their_size(claim: str, tmp_path: Path) -> None:
    inner = {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    if claim == "overlap":
        inner["b"] = {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]}
    if claim == "beyond":
        inner["a"] = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    head = json.dumps(inner).encode()
    length = 1 << 60 if claim == "header" else len(head)
    (tmp_path / "it.safetensors").write_bytes(struct.pack("<Q", length) + head + bytes(24))
    with pytest.raises(MarvelError):
        load_weights(build("cnn2", 2, (1, 8, 8), 0), str(tmp_path / "it.safetensors"))


def test_numbers_too_large_for_single_precision_are_refused(tmp_path: Path) -> None:
    """They would become infinite, and every logit of the network with them."""
    x = np.arange(24.0).reshape(12, 2)
    np.savez(tmp_path / "it.npz", x=x + np.eye(12, 2) * 1e300, y=np.arange(12) % 2)
    with pytest.raises(MarvelError, match="numbers beyond 3e"):
        datasets.load(str(tmp_path / "it.npz"))


# ------------------------------------------------------------ archives


def test_no_archive_is_unpacked_to_disk() -> None:
    """Archives are read member by member, in memory: none can write outside of its folder, since none writes."""
    source = Path(datasets.__file__).parent.parent
    calls = ("extractall", ".extract(", "unpack_archive")
    found = [f"{path.name}: {call}" for path in source.rglob("*.py") for call in calls if call in path.read_text()]
    assert found == []
