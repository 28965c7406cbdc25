"""One run: settings -> data + noise + network + method -> run folder."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marvel import __version__, metrics, noise
from marvel import data as datasets
from marvel.config import HOW, Config, as_plain, filled
from marvel.data.batches import Resident, Source, Streamed
from marvel.data.core import Data
from marvel.data.corrections import correct
from marvel.data.images import LARGEST, ImageFiles, Watch
from marvel.data.views import Views
from marvel.distributed import agree, ask_first, device_for, processes, together, writes_files
from marvel.errors import FolderError, InvalidInput
from marvel.held import Held, hold
from marvel.method import Method
from marvel.methods import METHODS
from marvel.plan import seed_of
from marvel.presets import preset_for
from marvel.runs import Facts, RunFolder
from marvel.stopping import gently
from marvel.trainer import Epoch, Labelled, Trainer

FULL_HISTOGRAMS = (25, 75)
"""The epochs whose margin distributions the paper shows; every tenth is kept besides."""
FILES = ("corrections", "noise_file", "weights")
"""Settings that name a file, but for the data and its labels, of which the origin tells."""


class Run:
    """One run, from settings to record. `data` saves reading it again where several runs share it."""

    def __init__(
        self, config: Config, out: str | Path | None = None, resume: bool = False, data: Data | None = None
    ) -> None:
        data = read(config) if data is None else data
        if not isinstance(data, Data):
            raise InvalidInput(
                f"data is Marvel's own, got {type(data).__name__}: marvel.data.from_arrays(x, y) makes it of arrays, "
                "and marvel.data.load of files"
            )
        self.config = config = resolve(config, data)
        torch.set_num_threads(config.threads)
        self.folder = None if out is None else RunFolder(out)
        self.device = torch.device(config.device)

        validation = None
        if config.hold_out:
            data, held_x, held_y = hold_out(config, data)
            validation = self.labelled(held_x, held_y)
        self.data = data
        self.corruption = corrupt(config, data)
        self.truth = data.y if data.clean is None else data.clean
        given = self.labels()
        # Labels of which nothing is known are not called clean.
        self.clean = (given == self.truth) if config.noise != "none" or data.clean is not None else None

        views = Views(data.mean, data.std, data.augment, data.shape).to(self.device)
        test = None if data.test_x is None or data.test_y is None else self.labelled(data.test_x, data.test_y)
        self.trainer = Trainer(
            config,
            self.source(data.x),
            views,
            given,
            len(data.classes),
            data.shape,
            clean=self.clean,
            truth=self.truth,
            test=test,
            validation=validation,
            folder=self.folder,
        )
        self.method = self.build_method()
        # Built before the folder is claimed: a network that cannot be leaves no folder behind.
        self.networks = self.trainer.build(self.method.networks)
        self.record: Facts | None = None
        self.held: Held | None = None
        if processes() > 1:
            told = {key: value for key, value in config.facts().items() if key not in HOW}
            agree(json.dumps([as_plain(told), self.data.fingerprint()]))
        if self.folder is not None:
            ask_first(partial(self.claim, self.folder, resume))

    def labels(self) -> torch.Tensor:
        """(n,) the labels to train on."""
        return torch.from_numpy(self.corruption.labels)

    def source(self, x: torch.Tensor | ImageFiles) -> Source:
        """Where batches come from: tensors live on the device, files are read by workers."""
        tensor = in_memory(x)
        if tensor is not None and self.config.source == "resident":
            return Resident(tensor, self.device)
        return Streamed(x, self.device, self.config.workers or 0)

    def labelled(self, x: torch.Tensor | ImageFiles, y: torch.Tensor) -> Labelled:
        return Labelled(self.source(x), y.to(self.device))

    def build_method(self) -> Method:
        """The method, told what it needs and no more."""
        kind = METHODS[self.config.method]
        told = dict(self.config.options)
        needs = kind.needed(told)
        if "clean" in needs:
            if self.clean is None:
                raise InvalidInput(
                    f"{self.config.method} must be told which labels are right, and this run does not know: add --noise"
                )
            told["clean"] = self.clean
        if "noise_rate" in needs and "noise_rate" not in told:
            if not (self.config.oracle_rate and self.clean is not None):
                raise InvalidInput(
                    f"{self.config.method} must be told the noise rate: add --noise-rate 0.2, "
                    "or --oracle-rate to tell it the true one"
                )
            told["noise_rate"] = float((~self.clean).float().mean())
        return kind(len(self.data), len(self.data.classes), self.config.epochs, **told)

    def claim(self, folder: RunFolder, resume: bool) -> None:
        """Write config.json, or see that it is the same run that goes on."""
        if folder.path.exists() and not folder.path.is_dir():
            raise FolderError(f"{folder.path} is a file: name a folder for the run")
        if self.data.origin is not None:
            self.data.origin.check_outside(folder.path)
        folder.path.mkdir(parents=True, exist_ok=True)
        self.held = hold(folder.path)
        before, now = folder.config, self.facts()
        now["data"] |= self.whereabouts()
        if before is not None and not (isinstance(before.get("config"), dict) and isinstance(before.get("data"), dict)):
            raise FolderError(f"{folder.path} holds a config.json that is not of a run: name another folder")
        if before is not None and not resume:
            raise FolderError(
                f"{folder.path} holds a run already: add --resume (resume=True) to go on, or name another folder"
            )
        if before is not None and "clean" in before and "clean" not in now:
            raise FolderError(
                f"{folder.path} holds a run of marvel clean: go on with marvel clean, or name another folder"
            )
        if before is not None:
            recorded, named = files_of(before), files_of(now)
            for key, old in before["config"].items():
                new = now["config"].get(key)
                # A path is spelt otherwise from another folder.
                same = old == new or (key in named and recorded.get(key) == named[key])
                if key not in HOW and not same:
                    raise FolderError(f"{folder.path} holds a run with {key} = {old}, not {new}: name another folder")
            if before["data"].get("fingerprint") != now["data"]["fingerprint"]:
                had, have = before["data"].get("n"), now["data"]["n"]
                how = f"{had} instances, not {have}" if had != have else "other instances, labels or order of them"
                raise FolderError(
                    f"{folder.path} holds a run on other data ({how}), and what it remembers of each instance would be "
                    "taken for another's: bring the data back as it was, or name another folder"
                )
        folder.sweep()
        folder.config = now

    def whereabouts(self) -> Facts:
        """Which files were read, where data of one's own came from, and what was not trained on: for config.json, too
        long for records."""
        told = {key: getattr(self.config, key) for key in FILES}
        files = {key: str(Path(value).expanduser().resolve()) for key, value in told.items() if value is not None}
        found = {"files": files} if files else {}
        if self.data.origin is None:
            return found
        return {
            **found,
            "origin": self.data.origin.facts(),
            "set_aside": [asdict(one) for one in self.data.set_aside],
            "decided": list(self.data.decided),
            "notes": list(self.data.notes),
        }

    def facts(self) -> Facts:
        """What config.json and the record say."""
        return {
            "config": as_plain(self.config.facts()),
            "data": {
                "name": self.data.name,
                "n": len(self.data),
                "classes": list(self.data.classes),
                "fingerprint": self.data.fingerprint(),
            },
            "noise": self.corruption.describe(),
            "environment": environment(self.device),
        }

    def steps(self) -> Iterator[Epoch | None]:
        """Train, yielding once a step; the record is there when it ends."""
        try:
            yield from self._steps()
        finally:
            self.held = None

    def _steps(self) -> Iterator[Epoch | None]:
        lines: list[Facts] = []
        for epoch in self.trainer.run(self.method, self.networks):
            if epoch is not None and epoch.stage == self.trainer.name:
                lines.append(epoch.metrics)
            yield epoch
        if self.folder is not None:
            lines = ask_first(self.folder.metrics)
        self.record = {**self.facts(), **self.results(lines)}
        if self.folder is not None:
            ask_first(partial(self.write, self.folder, self.record))

    def write(self, folder: RunFolder, record: Facts) -> None:
        folder.write_instances(self.instances())
        folder.write_network(self.trainer.every_network[self.method.answers].state_dict())
        folder.record = record

    def results(self, lines: list[Facts]) -> Facts:
        """Final numbers, curves, and what the figures need in full."""
        last = lines[-1]
        numbers = (
            "train_accuracy",
            "memorisation_ratio",
            "label_precision",
            "label_recall",
            "removed",
            "returned",
            "suggestion_accuracy",
            "clean_remaining",
            "noisy_remaining",
            "idle_batches",
        )
        final: Facts = {key: last.get(key) for key in numbers if key != "returned" or key in last}
        final |= judged(lines, self.config.protocol)
        if self.clean is not None:
            wrong = (~self.clean).numpy()
            final |= metrics.detection(self.method.removed.cpu().numpy(), wrong)
            final |= metrics.ranking(self.method.quality.cpu().numpy(), wrong)
        return {
            "final": final,
            "chosen": self.method.chosen,
            "seconds": round(self.trainer.seconds, 3),
            "curves": curves_of(lines),
            "histograms": {
                str(line["epoch"]): line["histogram"] | {"moments": line["margin"]["moments"]}
                for line in lines
                if line["epoch"] in FULL_HISTOGRAMS or line["epoch"] % 10 == 0
            },
            "apex": self.trainer.ledger.apex_counts(),
            "used_by_class": self.used_by_class(),
        }

    def used_by_class(self) -> dict[str, list[float | None]]:
        """What the instances of each class count for on average in the end: by given label, and by clean label."""
        labels = {"given": self.trainer.y.cpu()}
        if self.clean is not None:
            labels["clean"] = self.data.y if self.data.clean is None else self.data.clean
        used = self.method.used.cpu().numpy()
        return {of: metrics.mean_by_class(used, y.numpy(), len(self.data.classes)) for of, y in labels.items()}

    def instances(self) -> dict[str, Any]:
        """The columns of instances.parquet."""
        m = self.method
        columns = {
            "index": torch.arange(len(self.data)),
            "given": self.trainer.y,
            "suggested": m.suggested,
            "quality": m.quality,
            "label_quality": m.label_quality,
            "weight": m.weight,
            "removed_at": m.removed_at,
            "epochs_seen": m.epochs_seen,
        }
        if m.returned_at is not None:
            columns["returned_at"] = m.returned_at
        if self.clean is not None:
            columns["clean"] = self.truth
        arrays: dict[str, Any] = {name: column.cpu().numpy() for name, column in columns.items()}
        if self.data.origin is not None:
            arrays["row"] = self.data.origin.rows
        if self.data.ids is not None:
            arrays["id"] = np.array(self.data.ids, dtype=object)
        return arrays


def train(
    config: Config,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[Epoch], None] | None = None,
    data: Data | None = None,
) -> Run:
    """Do one run from beginning to end; `watch` is shown every epoch.

    Processes that `torchrun` started train together. The first of them writes the folder, and watches.
    """
    with together(config.device):
        run = Run(config, out, resume, data)
        with stoppable(run):
            for epoch in run.steps():
                if epoch is not None and watch is not None and writes_files():
                    watch(epoch)
        return run


def files_of(facts: Facts) -> dict[str, str]:
    """Setting -> the file or folder that it names, absolute, as far as config.json says it."""
    told = [facts["data"].get(key) for key in ("origin", "files")]
    origin, files = (one if isinstance(one, dict) else {} for one in told)
    found = {"data": origin.get("path"), "labels": origin.get("labels"), **files}
    return {key: path for key, path in found.items() if path is not None}


def settings_of(facts: Facts) -> Facts:
    """The settings in config.json. A file that is not found from here, as it was named by a relative path, has its
    absolute one."""
    known: Any = facts.get("config")
    if not (isinstance(known, dict) and isinstance(facts.get("data"), dict)):
        raise FolderError("there is a config.json in the folder that is not of a run: name another folder")
    files = {key: path for key, path in files_of(facts).items() if isinstance(known.get(key), str)}
    if files.get("data") and known["data"] in datasets.DATASETS:
        del files["data"]
    found: Facts = known | {key: path for key, path in files.items() if not Path(known[key]).expanduser().exists()}
    return found


@contextmanager
def stoppable(run: Run) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the step and save it, where there are checkpoints in mid-epoch."""
    if not run.config.checkpoint_every_steps or run.folder is None:
        yield
        return
    with gently("stopping when the step is done, and saving it") as run.trainer.stop:
        yield


def read(config: Config, watch: Watch | None = None, largest: int = LARGEST) -> Data:
    """The data that the settings name, corrected where they say so; `watch` is told how far the reading is.

    `largest` is the size of larger images in files, where the settings name none.
    """
    data = datasets.load(
        config.data,
        config.root,
        config.size,
        label=config.label,
        paths=config.paths,
        id=config.id,
        labels=config.labels,
        columns=config.columns,
        hold={"auto": None, "resident": True, "streamed": False}[config.source],
        largest=largest,
        on_bad_data=config.on_bad_data,
        watch=watch,
    )
    return data if config.corrections is None else correct(data, Path(config.corrections).expanduser())


def hold_out(config: Config, data: Data) -> tuple[Data, torch.Tensor | ImageFiles, torch.Tensor]:
    """What is trained on, and the share that the settings hold out, with its labels."""
    return data.hold_out(config.hold_out, np.random.default_rng(seed_of(config.seed, "hold-out")))


def in_memory(x: torch.Tensor | ImageFiles) -> torch.Tensor | None:
    """The instances as a tensor, where they are one."""
    return x if isinstance(x, torch.Tensor) else x.held


def resolve(config: Config, data: Data) -> Config:
    """Fill in what was left open: from the problem's preset, and from the machine."""
    device = device_for(config.device)
    precision = config.precision
    if precision == "auto":
        precision = "bf16" if device.startswith("cuda") else "float32"
    files = in_memory(data.x) is None
    if files and config.source == "resident":
        raise InvalidInput("these images are not held in memory: leave out --source, or read them with hold=True")
    return filled(config, preset_for(config.data, data.shape)).but(
        device=device,
        precision=precision,
        source=("streamed" if files else "resident") if config.source == "auto" else config.source,
        workers=(os.cpu_count() or 1 if files else 0) if config.workers is None else config.workers,
    )


def corrupt(config: Config, data: Data) -> noise.Corruption:
    """Make labels wrong, as the settings say."""
    options: dict[str, Any] = {}
    if config.noise in ("symmetric", "symmetric-inclusive", "circular", "class-dependent", "instance"):
        options["rate"] = config.rate
    if config.noise == "instance":
        tensor = in_memory(data.x)
        if tensor is None:
            raise InvalidInput("noise 'instance' needs all instances in memory: add --source resident")
        options["features"] = tensor.flatten(1).float().numpy()
    if config.noise == "pair":
        options["rates"] = config.rates
    if config.noise == "transition":
        options["matrix"] = noise.read_matrix(str(config.noise_file))
    if config.noise == "file":
        options["path"] = config.noise_file
    rng = np.random.default_rng(seed_of(config.seed, "noise"))
    return noise.corrupt(data.y.numpy(), config.noise, rng, classes=len(data.classes), **options)


def curves_of(lines: list[Facts]) -> Facts:
    """By epoch: shares, as far as they are known, and quantiles of the margins."""
    if not lines:
        return {}
    shares: tuple[str, ...] = ("test_accuracy", "validation_accuracy", "train_accuracy", "memorisation_ratio")
    shares += ("clean_remaining", "noisy_remaining")
    if "returned" in lines[-1]:
        shares += ("returned", "suggestion_accuracy")
    known = [key for key in shares if lines[-1].get(key) is not None]
    return {key: [line.get(key) for line in lines] for key in known} | {
        f"margin_{of}": [line["margin"][of] for line in lines] for of in ("quantiles", "survivors")
    }


def judged(lines: list[Facts], protocol: str) -> Facts:
    """Test accuracy by the paper's three protocols; the one asked for is `test_accuracy`."""
    accuracies = [line["test_accuracy"] for line in lines]
    if accuracies[-1] is None:
        return {"test_accuracy": None, "protocol": protocol}
    tail = np.array(accuracies[-10:])
    found: Facts = {"protocol": protocol, "test_accuracy_final": accuracies[-1]}
    found |= {"test_accuracy_last10": float(tail.mean()), "test_accuracy_last10_sd": float(tail.std())}
    found["test_accuracy_best"] = max(accuracies)
    if lines[-1]["validation_accuracy"] is not None:
        best = int(np.argmax([line["validation_accuracy"] for line in lines]))
        found |= {"test_accuracy_validation": accuracies[best], "validation_epoch": best + 1}
    return found | {"test_accuracy": found[f"test_accuracy_{protocol}"]}


def environment(device: torch.device) -> Facts:
    """Versions and hardware."""
    return {
        "marvel": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "processes": processes(),
        "command": command(),
    }


def command() -> str:
    """What was typed, without the folders it was typed in."""
    program, *words = (Path(word).name if word.startswith("/") else word for word in sys.argv)
    return " ".join(["marvel" if Path(program).name in ("marvel", "__main__.py") else f"python {program}", *words])


def commit() -> str | None:
    """The commit of the source tree, where it is one; the variable MARVEL_COMMIT says it for a copy without history."""
    if "MARVEL_COMMIT" in os.environ:
        return os.environ["MARVEL_COMMIT"]
    here = Path(__file__).parent
    try:
        asked = subprocess.run(["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
