"""The run folder: the only module that knows the file names inside it.

    config.json          the resolved settings, with versions, hardware, data fingerprint and realised noise
    metrics.jsonl        a line an epoch
    record.json          settings, final numbers and thinned curves: small, what `results/` collects
    instances.parquet    what is known of each instance at the end
    network.safetensors  the trained network
    ledger/              optional: margin and weight of every instance, a file an epoch, in half precision
    checkpoint/          safetensors + JSON with checksums: the newest, and the one before it
    clean.json           of `marvel clean`: where the data came from, what was found in it, and the estimates
    issues.csv           of `marvel clean`: the suspect labels, the most suspect first
    shown.parquet        of `marvel.save_run`: the most suspect instances of a loop of one's own, as a person sees them
    report.html          the run as a page
    decisions.sqlite     of `marvel review`: what was decided about the suspect labels
    decisions.jsonl      a second copy of that, with a checksum a line
    <stage>/             the run folder of a training that came before

Files are written under a temporary name, synced and renamed, so that a crash leaves the old one. No pickle.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marvel.errors import FolderError
from marvel.held import alive

TEMPORARY = re.compile(r"\..+\.(\d+)\.tmp")
"""What a file is called while it is written, with the number of the process."""

SHAPE = "marvel.columns"
"""Under what name instances.parquet keeps the checksum of its columns."""

Facts: TypeAlias = dict[str, Any]
"""What JSON can hold."""

FORMAT = 2
"""Of checkpoints. 1, which says no number, knows no checkpoints in the midst of an epoch."""
CHECKPOINT = re.compile(r"[0-9]+(-[0-9]+)?")
"""How they are named: the epochs that are over, and the steps taken since."""


def write_atomically(path: Path, content: bytes) -> None:
    """All or nothing, and on the disk when it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        _name(error, path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _name(error: OSError, path: Path) -> None:
    """Which file it was: a write to a full disk does not say."""
    if error.errno is not None:
        error.filename = str(path)


def as_json(facts: Any, indent: int | None = None, compact: bool = False) -> bytes:
    """One form for every JSON file; NaN is refused, since no other program reads it."""
    separators = (",", ":") if compact else None
    return (json.dumps(facts, indent=indent, separators=separators, allow_nan=False) + "\n").encode()


class RunFolder:
    """One run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def stage(self, name: str) -> "RunFolder":
        """The folder of a training that comes before this one."""
        return RunFolder(self.path / name)

    def clear(self) -> None:
        """Forget the run and its stages: remove the files it wrote, and nothing else."""
        written = ["config.json", "metrics.jsonl", "record.json", "instances.parquet", "clean.json", "issues.csv"]
        written += ["network.safetensors", "shown.parquet"]
        for pattern in (*written, "ledger/*.safetensors", "checkpoint/*.safetensors", "checkpoint/*.json"):
            for path in self.path.glob(pattern):
                path.unlink()
        for stage in self._stages():
            stage.clear()

    def sweep(self) -> None:
        """Remove what processes that were killed left behind, half-written or half-removed, here and in the stages."""
        for pattern in (".*.tmp", "ledger/.*.tmp", "checkpoint/.*.tmp"):
            for path in self.path.glob(pattern):
                written = TEMPORARY.fullmatch(path.name)
                if written and not alive(int(written[1])):
                    path.unlink(missing_ok=True)
        for path in self.path.glob("checkpoint/*.safetensors"):
            if CHECKPOINT.fullmatch(path.stem) and not path.with_suffix(".json").exists():
                path.unlink()  # of an old checkpoint that was being removed, or a new one that was being written
        self._drop_old_checkpoints()
        for stage in self._stages():
            stage.sweep()

    # ------------------------------------------------------------ settings and numbers

    @property
    def config(self) -> Facts | None:
        return self._read("config.json")

    @config.setter
    def config(self, facts: Facts) -> None:
        write_atomically(self.path / "config.json", as_json(facts, indent=2))

    @property
    def record(self) -> Facts | None:
        return self._read("record.json")

    @record.setter
    def record(self, facts: Facts) -> None:
        write_atomically(self.path / "record.json", as_json(facts))

    @property
    def found(self) -> Facts | None:
        """What `marvel clean` found."""
        return self._read("clean.json")

    @found.setter
    def found(self, facts: Facts) -> None:
        write_atomically(self.path / "clean.json", as_json(facts, indent=2))

    def write_issues(self, text: str) -> None:
        """issues.csv, as `marvel clean` ranks them."""
        # A file name may hold bytes that are no text in any language.
        write_atomically(self.path / "issues.csv", text.encode("utf-8", "backslashreplace"))

    @property
    def shown_file(self) -> Path:
        return self.path / "shown.parquet"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"

    @property
    def decisions_file(self) -> Path:
        return self.path / "decisions.sqlite"

    def append(self, line: Facts) -> None:
        """Add an epoch to metrics.jsonl."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / "metrics.jsonl"
        try:
            with open(path, "ab") as file:
                file.write(as_json(line))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _name(error, path)
            raise

    def metrics(self) -> list[Facts]:
        """The epochs so far; a line cut short by a crash is left out."""
        path = self.path / "metrics.jsonl"
        lines: list[Facts] = []
        for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
            try:
                lines.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise FolderError(f"{path} is damaged in line {len(lines) + 1}: {error}") from None
        return lines

    def cut_metrics(self, epochs: int) -> None:
        """Forget the epochs after `epochs`: the checkpoint to go on from does not know them."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            lines = path.read_bytes().split(b"\n")[:-1]
            write_atomically(path, b"".join(line + b"\n" for line in lines[:epochs]))
        for kept in _by_epoch(self.path / "ledger", "*.safetensors"):
            if int(kept.stem) > epochs:
                kept.unlink()

    # ------------------------------------------------------------ instances

    def write_instances(self, columns: Mapping[str, Any]) -> None:
        """instances.parquet: one row an instance."""
        _write_parquet(self.path / "instances.parquet", columns)

    def write_network(self, tensors: Mapping[str, Tensor]) -> None:
        """network.safetensors: the trained network, for `--weights` or a program of one's own."""
        from safetensors.torch import save

        # Copies: weights that a network uses twice would be one piece of memory under two names, which is refused.
        copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        write_atomically(self.path / "network.safetensors", save(copies))

    def write_shown(self, rows: Sequence[int], pictures: Sequence[bytes | None], fields: Sequence[Facts]) -> None:
        """shown.parquet: what some instances look like."""
        import pyarrow

        kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])  # as Hugging Face's images
        images = [None if content is None else {"bytes": content, "path": None} for content in pictures]
        columns = {"row": rows, "picture": pyarrow.array(images, kind)}
        _write_parquet(self.shown_file, {**columns, "fields": [json.dumps(one) for one in fields]})

    def instances(self, columns: Sequence[str] | None = None, rows: Any = None) -> dict[str, Any]:
        """The columns of instances.parquet, as numpy arrays; of `columns` those there are, and of `rows` only."""
        import pyarrow.parquet

        path = self.path / "instances.parquet"
        if not path.exists():
            raise FolderError(f"{path} is missing: the run has not finished; go on with --resume")
        try:
            file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
            schema = file.schema_arrow
            shape = _shape(schema, file.metadata.num_rows)
            if (schema.metadata or {}).get(SHAPE.encode(), shape.encode()) != shape.encode():
                raise ValueError("the checksum of its columns does not match")
            table = file.read(None if columns is None else [name for name in schema.names if name in columns])
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise FolderError(f"{path} is damaged: {error}; --resume writes it anew from the last checkpoint") from None
        if rows is not None:
            table = table.take(rows)
        return {name: table[name].to_numpy() for name in table.column_names}

    def write_ledger(self, epoch: int, margin: Tensor, weight: Tensor, mask: Tensor) -> None:
        """ledger/<epoch>.safetensors: margins (NaN where an instance was not visited) and weights, as halves."""
        from safetensors.torch import save

        half = {"margin": _half(torch.where(mask, margin, torch.nan)).cpu(), "weight": weight.half().cpu()}
        content = save(half, {"sha256": _digest_of(half)})
        write_atomically(self.path / "ledger" / f"{epoch:04d}.safetensors", content)

    def blank_ledger(self, rows: Any) -> None:
        """Forget the margins and weights of some instances, in every epoch kept, here and in the stages."""
        chosen = torch.as_tensor(rows)
        for epoch, kept in list(self.ledger()) if len(chosen) else []:
            mask = ~kept["margin"].isnan()
            mask[chosen] = False
            kept["weight"][chosen] = torch.nan
            self.write_ledger(epoch, kept["margin"], kept["weight"], mask)
        for stage in self._stages():
            stage.blank_ledger(rows)

    def ledger(self) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """(epoch, {"margin", "weight"}) of every epoch kept."""
        from safetensors import SafetensorError, safe_open

        for path in _by_epoch(self.path / "ledger", "*.safetensors"):
            try:
                with safe_open(path, "pt") as file:
                    tensors = {name: file.get_tensor(name) for name in ("margin", "weight")}
                    digest = (file.metadata() or {}).get("sha256")  # none in those of older versions
            except (SafetensorError, OSError, ValueError) as error:
                raise FolderError(f"{path} is damaged: {error}") from None
            if digest not in (None, _digest_of(tensors)):
                raise FolderError(f"{path} is damaged: its checksum does not match; remove it to go without that epoch")
            yield int(path.stem), tensors

    def margins(self, rows: Any) -> Any:
        """The margins of these instances in every epoch kept: (epochs, rows), as halves, NaN where not visited."""
        import numpy as np

        rows = torch.as_tensor(np.asarray(rows, dtype=np.int64))
        epochs = [kept["margin"][rows].numpy() for _, kept in self.ledger()]
        return np.stack(epochs) if epochs else np.empty((0, len(rows)), dtype=np.float16)

    # ------------------------------------------------------------ checkpoints

    def save_checkpoint(self, epoch: int, tensors: Mapping[str, Tensor], facts: Facts) -> None:
        """Keep this state, after so many epochs and `facts["step"]` steps more, and the one before it."""
        from safetensors.torch import save

        content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
        step = facts.get("step", 0)
        stem = self.path / "checkpoint" / (f"{epoch:04d}-{step:08d}" if step else f"{epoch:04d}")
        write_atomically(stem.with_suffix(".safetensors"), content)
        note = {"format": FORMAT, "epoch": epoch, "facts": facts}
        write_atomically(stem.with_suffix(".json"), as_json({"sha256": _digest(content, note), **note}))
        self._drop_old_checkpoints()

    def _drop_old_checkpoints(self) -> None:
        for old in self._checkpoints()[2:]:
            old.unlink()
            old.with_suffix(".safetensors").unlink(missing_ok=True)

    def load_checkpoint(self) -> tuple[int, dict[str, Tensor], Facts] | None:
        """The newest checkpoint that is whole; None where there is none at all."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        found = self._checkpoints()
        for path in found:
            try:
                note = json.loads(path.read_bytes())
                content = path.with_suffix(".safetensors").read_bytes()
                if note.pop("sha256") != _digest(content, note):
                    continue
                if note.get("format", 1) > FORMAT:
                    raise FolderError(f"{path} was written by a newer Marvel: go on with that one")
                return int(note["epoch"]), load(content), note["facts"]
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError):
                continue
        if found:
            raise FolderError(f"no checkpoint in {self.path / 'checkpoint'} is whole: start again in another folder")
        return None

    def drop_tensors(self) -> None:
        """Make room: of a grid's run that is done only the numbers stay, not its checkpoints and its network."""
        for pattern in ("network.safetensors", "checkpoint/*.safetensors", "checkpoint/*.json"):
            for path in self.path.glob(pattern):
                path.unlink()
        for stage in self._stages():
            stage.drop_tensors()

    def _stages(self) -> "list[RunFolder]":
        """The trainings that came before. A folder with settings of its own is another run."""
        return [
            RunFolder(path.parent)
            for path in self.path.glob("*/checkpoint")
            if not (path.parent / "config.json").exists()
        ]

    def _checkpoints(self) -> list[Path]:
        """The newest first."""
        found = [path for path in (self.path / "checkpoint").glob("*.json") if CHECKPOINT.fullmatch(path.stem)]
        return sorted(found, key=lambda path: [int(number) for number in path.stem.split("-")], reverse=True)

    def _read(self, name: str) -> Facts | None:
        path = self.path / name
        if not path.exists():
            return None
        try:
            facts: Facts = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise FolderError(f"{path} is damaged: {error}") from None
        if not isinstance(facts, dict):
            raise FolderError(f"{path} is damaged: it holds {type(facts).__name__}, not an object")
        return facts


def _write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table(dict(columns))
    # Pages have checksums of their own; what the columns are called has none.
    table = table.replace_schema_metadata({SHAPE: _shape(table.schema, table.num_rows)})
    pyarrow.parquet.write_table(table, sink, write_page_checksum=True)
    write_atomically(path, sink.getvalue().to_pybytes())


def _half(margin: Tensor) -> Tensor:
    """In half precision, but no margin becomes 0 that was not: its sign decides what is removed."""
    half = margin.half()
    least = torch.where(margin < 0, -(2.0**-24), 2.0**-24).half()
    return torch.where((half == 0) & (margin != 0), least, half)


def _by_epoch(folder: Path, pattern: str) -> list[Path]:
    """The files that are named by an epoch, in the order of the epochs."""
    return sorted((path for path in folder.glob(pattern) if path.stem.isdecimal()), key=lambda path: int(path.stem))


def _shape(schema: Any, rows: int) -> str:
    """Of a table: a checksum of how many rows it has, and what columns."""
    said = [rows, *([field.name, str(field.type)] for field in schema)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _digest_of(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _digest(content: bytes, note: Facts) -> str:
    """Of the tensors and of what is said about them."""
    digest = hashlib.sha256(content)
    digest.update(as_json(note))  # not joined to the content, which may be gigabytes
    return digest.hexdigest()
