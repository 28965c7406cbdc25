"""The command `marvel`, as a person or a program uses it: what it prints where, and with which exit code it ends."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from marvel import __version__
from marvel.catalogue import describe
from marvel.cli import main
from marvel.cli.progress import Progress
from marvel.cli.show import print_table
from marvel.config import options_of
from marvel.data.arrays import open_npz
from marvel.errors import amount
from marvel.methods import METHODS
from marvel.runs import RunFolder
from marvel.trainer import Epoch

NOISY = ("--noise", "symmetric", "--rate", "0.4")


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def marvel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            main(words)
        return Done(int(done.value.code or 0), *capsys.readouterr())

    return run


def fails(done: Done, *said: str) -> None:
    """A mistake is one line on stderr that says what is wrong, nothing on stdout, exit code 2."""
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith("marvel: ") and done.err.count("\n") == 1
    assert "Traceback" not in done.err
    for words in said:
        assert words in done.err


# ------------------------------------------------------------ the command itself


def test_python_m_marvel_and_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "marvel", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"marvel {__version__}\n")


def test_help_imports_nothing_heavy() -> None:
    program = """
import sys
from marvel.cli import main
try:
    main(["--help"])
except SystemExit:
    print([name for name in ("torch", "numpy", "matplotlib", "rich.console", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_help_of_each_verb(marvel: Run) -> None:
    listed = marvel("--help").out
    assert marvel().out == listed
    for verb in ("demo", "train", "methods", "noise"):
        assert verb in listed
        done = marvel(verb, "--help")
        assert done.code == 0 and f"Usage: marvel {verb}" in done.out and "--json" in done.out


def test_a_group_of_verbs_alone_shows_its_help(marvel: Run) -> None:
    done = marvel("data")
    assert done.code == 0 and done.err == "" and done.out == marvel("data", "--help").out
    assert len(done.out.splitlines()) > 5


def test_help_of_train_has_every_setting_with_its_default(marvel: Run) -> None:
    from marvel.config import GROUPS

    shown = marvel("train", "--help").out
    for group, names in GROUPS.items():
        assert f"{group}:" in shown
        for name in names:
            assert f"--{name.replace('_', '-')}" in shown
    assert "--fast / --no-fast" in shown and "[128]" in shown


def test_an_interrupted_training_says_how_to_go_on(marvel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Progress, name: str, epoch: Epoch) -> None:
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    words = ("train", *NOISY, "--epochs", "3", "--out", "my run")
    with monkeypatch.context() as patched:
        patched.setattr(Progress, "show", interrupt)
        done = marvel(*words)
    assert done.code == 130
    assert (
        done.err
        == f"marvel: interrupted; go on with: marvel train {' '.join(NOISY)} --epochs 3 --out 'my run' --resume\n"
    )
    assert len(RunFolder("my run").metrics()) == 2
    fails(marvel(*words), "holds a run already: add --resume")
    fails(marvel("train", "--out", "my run", "--resume", "--epochs", "5"), "epochs = 3, not 5")
    done = marvel("train", "--out", "my run", "--resume", "--json")
    assert done.code == 0, done.err
    went_on = json.loads(done.out)["final"]
    assert len(RunFolder("my run").metrics()) == 3
    straight = json.loads(marvel("train", *NOISY, "--epochs", "3", "--json").out)["final"]
    assert went_on == straight


# ------------------------------------------------------------ marvel train


def test_train_prints_a_table_the_folder_and_what_was_chosen(marvel: Run) -> None:
    done = marvel("train", *NOISY, "--epochs", "3", "--wait", "2")
    assert done.code == 0, done.err
    folder = Path("runs/digits-symmetric-0.4-marvel-s0")
    final = RunFolder(folder).record["final"]  # type: ignore[index]
    assert f"{final['test_accuracy']:.1%}" in done.out and "memorisation ratio" in done.out
    assert str(folder) in done.out and "wait 2, warm-up 1" in done.out
    assert [line.split(",")[0] for line in done.err.splitlines()] == [f"marvel: epoch {k}/3" for k in (1, 2, 3)]


def test_train_json_is_json_and_nothing_else(marvel: Run) -> None:
    done = marvel("train", *NOISY, "--epochs", "2", "--method", "npcl", "--noise-rate=0.4", "--json", "--quiet")
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    record = RunFolder(said["folder"]).record
    assert record is not None
    assert said["final"] == record["final"] and said["seconds"] == record["seconds"]
    assert record["config"]["options"]["noise_rate"] == 0.4


def test_flags_override_the_file(marvel: Run) -> None:
    Path("run.toml").write_text('noise = "symmetric"\nrate = 0.4\nepochs = 9\nwait = 5\nmethod = "marvel+"\n')
    done = marvel(
        "train", "--config", "run.toml", "--epochs", "1", "--no-fast", "--count-warmup", "--out", "out", "--json"
    )
    assert done.code == 0, done.err
    config = RunFolder("out").config["config"]  # type: ignore[index]
    assert (config["method"], config["rate"], config["epochs"], config["fast"]) == ("marvel+", 0.4, 1, False)
    assert config["options"]["wait"] == 5 and config["options"]["count_warmup"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trian", "No such command 'trian'. Did you mean 'train'?"),
        ("--nope", "--nope"),
        ("demo --nope", "--nope"),
        ("methods stray", "stray"),
        ("train --epoch 3", "no flag '--epoch'; did you mean '--epochs'?"),
        ("train --wiat 3", "no flag '--wiat'; did you mean '--wait'?"),
        ("train --method npcl --noise-rat=0.2", "did you mean '--noise-rate'?"),
        ("train stray", "'stray' belongs to no flag"),
        ("train --epochs 3 4", "'4' belongs to no flag"),
        ("train -x", "'-x' belongs to no flag"),
        ("train --epochs", "--epochs"),
        ("train --data --rate 0.4", "--data needs a value, got the flag --rate"),
        ("train --wait", "--wait needs a value"),
        ("train --wait --epochs 3", "--wait needs a value"),
        ("train --epochs many", "epochs should be a whole number or none, got 'many'"),
        ("train --method marvl", "did you mean 'marvel'?"),
        ("train --data digit", "did you mean 'digits'?"),
        ("train --network resnet33", "did you mean 'resnet34'?"),
        ("train --rate 0.4", "add --noise symmetric"),
        ("train --noise symmetric --rate 1.4", "rate must be a number from 0 to 1"),
        ("train --method npcl", "add --noise-rate 0.2"),
        ("train --method oracle", "add --noise"),
        ("train --immediate perhaps", "immediate should be true or false, got 'perhaps'"),
        ("train --resume", "there is no run in runs/digits-none-0-marvel-s0 to go on with"),
        ("train --out typo --resume --device cpu", "there is no run in typo to go on with"),
        ("tune --out typo --resume", "there is no search in typo to go on with"),
        ("review typo --no-open", "there is no run in typo"),
        ("train --config no.toml", "there is no file no.toml"),
        ("train --device quantum", "device should be auto, cpu, cuda"),
        ("train --device cuda:99", "there is no device cuda:99 here"),
        ("train --weights no.safetensors", "no.safetensors"),
        ("train --noise transition --noise-file no.npy", "no file of a matrix at no.npy"),
    ],
)
def test_a_mistake_is_one_line(marvel: Run, words: str, said: str) -> None:
    fails(marvel(*words.split()), said)
    assert not Path("runs").exists()


def test_a_warning_is_one_line_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(20, 3), y=np.arange(20) % 2)  # digits would import scikit-learn first
    words = ["-m", "marvel", "train", "--data", "a.npz", "--epochs", "1", "--warmup", "3", "--quiet", "--out", "out"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    late = "nothing can be removed before epoch 5, and the training has 1"
    said = f"marvel: {late}: shorten the warm-up or the wait, or train longer\n"
    assert (done.returncode, done.stderr) == (0, said)


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ["label"], "0 labels"),
        (1, ["label"], "1 label"),
        (1257, ["label"], "1,257 labels"),
        (1, ["canary is", "canaries are"], "1 canary is"),
        (2, ["canary is", "canaries are"], "2 canaries are"),
    ],
)
def test_one_of_a_thing_is_said_as_one(number: int, words: list[str], said: str) -> None:
    assert amount(number, *words) == said


@pytest.mark.parametrize("words", ["train --out", "clean x --out", "train --data", "export x --out"])
def test_an_empty_value_is_a_mistake(marvel: Run, words: str) -> None:
    *verb, flag = words.split()
    for empty in ([flag, ""], [f"{flag}="]):
        fails(marvel(*verb, *empty, "--seed", "1"), f"the value after {flag} is empty")
    assert not list(Path().iterdir())


def test_out_that_is_no_folder(marvel: Run) -> None:
    Path("file").write_text("mine")
    fails(marvel("train", "--epochs", "1", "--out", "file"), "file is a file")
    fails(marvel("train", "--epochs", "1", "--out", "file/inside"), "file")
    assert Path("file").read_text() == "mine"


def test_a_damaged_run_folder_is_said_to_be(marvel: Run) -> None:
    Path("out").mkdir()
    Path("out/config.json").write_text("{")
    fails(marvel("train", "--out", "out", "--resume"), "config.json is damaged")


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with Progress() as progress:
        watch = progress.of("aum")
        watch(Epoch("main/first", 2, 2, {"removed": 0}))
        watch(Epoch("main", 1, 4, {"test_accuracy": 0.5, "memorisation_ratio": 0.25, "removed": 7}))
    err = capsys.readouterr().err
    assert "aum/first" in err and "1/4" in err and "test 50.0%, memorised 25.0%, removed 7" in err


def test_lines_elsewhere_and_silence_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, lines in ((False, 10), (True, 0)):
        with Progress(quiet) as progress:
            watch = progress.of("ce")
            for epoch in range(1, 121):
                watch(Epoch("main", epoch, 120, {"test_accuracy": None, "removed": 0}))
        err = capsys.readouterr().err.splitlines()
        assert len(err) == lines
    assert not err


# ------------------------------------------------------------ marvel methods


def test_methods_lists_them_all(marvel: Run) -> None:
    found = {method["key"]: method for method in json.loads(marvel("methods", "--json").out)}
    assert list(found) == list(METHODS)
    assert found["marvel"]["paper"].startswith("MARVEL and MARVEL+ (Lin & Bradic")
    assert found["marvel"]["overrides"] == ["cost", "update"] and found["marvel"]["works_in"] == "any loop"
    assert found["ce"]["overrides"] == [] and found["ce"]["parameters"] == []
    assert found["gce"]["works_in"] == "any loop; our Trainer where truncate > 0"
    assert "start" in found["gce"]["overrides"] and found["d2l"]["works_in"] == "our Trainer"
    assert found["npcl"]["needs"] == ["noise_rate"]
    assert {"name": "noise_rate", "default": None, "required": True} in found["npcl"]["parameters"]
    assert {"name": "wait", "default": "auto", "required": False} in found["marvel+"]["parameters"]
    assert not any(method["paper"].endswith(".") for method in found.values())


@pytest.mark.parametrize("key", list(METHODS))
def test_one_method_is_explained(marvel: Run, key: str) -> None:
    """By what its file says, and all that it takes is in the text, flag by flag."""
    shown = marvel("methods", key)
    kind = METHODS[key]
    assert shown.code == 0 and (sys.modules[kind.__module__].__doc__ or "").strip() in shown.out
    last = shown.out[shown.out.index("Parameters: ") :]
    assert all(parameter in last for parameter in options_of(kind)) and f"--method {key} " in last
    assert json.loads(marvel("methods", key, "--json").out) == json.loads(json.dumps(describe(key)))


def test_what_marvel_semi_takes_is_explained(marvel: Run) -> None:
    shown = marvel("methods", "marvel-semi").out
    assert all(f"`{name}`" in shown for name in options_of(METHODS["marvel-semi"]))
    fails(marvel("methods", "marvel-smei"), "no method 'marvel-smei'; did you mean 'marvel-semi'?")


def test_methods_as_a_table(marvel: Run) -> None:
    shown = marvel("methods").out
    for key in METHODS:
        assert f" {key} " in shown
    assert "wait=auto" in shown and "needs noise_rate" in shown


# ------------------------------------------------------------ marvel noise


def test_methods_breaks_no_word_on_a_terminal_of_80_columns(marvel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = marvel("methods").out
    assert max(map(len, shown.splitlines())) <= 80
    told = {f"{p['name']}={p['default']}" for key in METHODS for p in describe(key)["parameters"] if not p["required"]}
    assert {word for word in told if " " not in word} <= set(shown.split())


def test_noise_list(marvel: Run) -> None:
    from marvel.noise import NOISE

    assert list(json.loads(marvel("noise", "--list", "--json").out)) == list(NOISE)
    assert all(name in marvel("noise", "--list").out for name in NOISE)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "txt"])
def test_noise_makes_labels_wrong_in_the_format_they_came_in(marvel: Run, suffix: str) -> None:
    labels = np.random.default_rng(0).integers(0, 5, 500).astype(np.int16)
    clean, noisy = Path(f"clean.{suffix}"), Path(f"noisy.{suffix}")
    write: dict[str, Callable[[], Any]] = {
        "npy": lambda: np.save(clean, labels),
        "npz": lambda: np.savez(clean, x=np.zeros((500, 2)), y=labels),
        "csv": lambda: clean.write_text("label\n" + "".join(f"{label}\n" for label in labels)),
        "txt": lambda: clean.write_text("".join(f"{label}\n" for label in labels)),
    }
    write[suffix]()
    done = marvel("noise", str(clean), "--rate", "0.4", "--seed", "3", "--out", str(noisy), "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    if suffix in ("npy", "npz"):
        content = open_npz(noisy) if suffix == "npz" else {"y": np.load(noisy)}
        given = content["y"]
        assert given.dtype == np.int16
        if suffix == "npz":
            assert content["x"].shape == (500, 2) and (content["clean"] == labels).all()
    else:
        lines = noisy.read_text().splitlines()
        assert (lines[0] == "label") == (suffix == "csv")
        given = np.array([int(line) for line in lines[suffix == "csv" :]])
    assert (given != labels).mean() == said["realised_rate"] == pytest.approx(0.4, abs=0.08)
    assert said["classes"] == 5 and np.allclose(np.sum(said["transition"], axis=1), 1)


def test_noise_of_named_labels_in_a_column(marvel: Run) -> None:
    rows = [["file", "species", "note"], *([f"{k}.png", ["cat", "dog", "emu"][k % 3], 'a "b", c'] for k in range(90))]
    with open("clean.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    words = ("noise", "clean.csv", "--column", "species", "--noise", "circular", "--rate", "0.5", "--exact")
    done = marvel(*words, "--out", "noisy.csv")
    assert done.code == 0, done.err
    assert "45 of 90 labels are wrong (50.0%)" in done.out and "emu" in done.out
    with open("noisy.csv", newline="") as file:
        given = list(csv.reader(file))
    assert given[0] == rows[0]
    assert [row[::2] for row in given] == [row[::2] for row in rows]
    after = {"cat": "dog", "dog": "emu", "emu": "cat"}
    changed = [(old[1], new[1]) for old, new in zip(rows, given, strict=True) if old != new]
    assert len(changed) == 45 and all(new == after[old] for old, new in changed)


def test_noise_is_that_of_train(marvel: Run) -> None:
    """The same seed makes the same labels wrong, whichever verb does it."""
    from marvel import data

    np.save("clean.npy", data.load("digits").y.numpy())
    said = json.loads(marvel("noise", "clean.npy", "--rate", "0.4", "--seed", "1", "--out", "noisy.npy", "--json").out)
    marvel("train", *NOISY, "--epochs", "1", "--seed", "1", "--out", "out", "--quiet")
    assert RunFolder("out").config["noise"]["sha256"] == said["sha256"]  # type: ignore[index]


@pytest.mark.parametrize("names", [["-1", "2", "10", "x"], ["Ash", "elm", "oak", "\u00e9lm"]])
def test_noise_in_a_table_is_that_of_train(marvel: Run, names: list[str]) -> None:
    """Names that are numbers in part are put in order by both in the same way: circular noise goes to the next."""
    from marvel.config import Config
    from marvel.run import train

    rows = [f"{i % 7},{names[i % 4]}" for i in range(80)]
    Path("clean.csv").write_text("\n".join(["x,label", *rows]) + "\n", encoding="utf-8")
    how = ("--noise", "circular", "--rate", "0.4", "--seed", "1")
    done = marvel("noise", "clean.csv", "--column", "label", *how, "--out", "noisy.csv")
    assert done.code == 0, done.err
    run = train(Config(data="clean.csv", noise="circular", rate=0.4, seed=1, epochs=1, device="cpu"))
    noisy = [line.split(",")[1] for line in Path("noisy.csv").read_text(encoding="utf-8").splitlines()[1:]]
    assert noisy == [run.data.classes[label] for label in run.corruption.labels]
    changed = [(names[i % 4], label) for i, label in enumerate(noisy) if label != names[i % 4]]
    assert len(changed) > 15 and all(names[(names.index(old) + 1) % 4] == new for old, new in changed)


def test_noise_by_a_matrix(marvel: Run) -> None:
    Path("clean.txt").write_text("no\nyes\n" * 50)
    Path("matrix.csv").write_text("1,0\n0.2,0.8\n")
    words = (
        "noise",
        "clean.txt",
        "--noise",
        "transition",
        "--noise-file",
        "matrix.csv",
        "--out",
        "noisy.txt",
        "--json",
    )
    assert json.loads(marvel(*words).out)["transition"] == [[1, 0], [0.2, 0.8]]


def test_noise_does_not_write_over_a_file(marvel: Run) -> None:
    Path("clean.txt").write_text("0\n1\n" * 10)
    before = Path("clean.txt").read_text()
    words = ("noise", "clean.txt", "--rate", "0.3", "--out", "clean.txt")
    fails(marvel(*words), "clean.txt is there already: add --force")
    assert Path("clean.txt").read_text() == before
    assert marvel(*words, "--force").code == 0
    assert Path("clean.txt").read_text() != before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "a file of labels is missing"),
        ("a.txt --rate 0.2", "the file to write is missing"),
        ("no.txt --rate 0.2 --out b.txt", "no file of labels at no.txt"),
        ("a.txt --out b.txt", "add --rate 0.2"),
        ("a.txt --noise pair --rate 0.2 --out b.txt", "add --rates 0.4,0.2"),
        ("a.txt --noise pair --rates 0.2,0.1 --rate 0.2 --out b.txt", "noise 'pair' takes no --rate"),
        ("a.txt --noise transition --out b.txt", "add --noise-file FILE"),
        ("a.txt --noise instance --rate 0.2 --out b.txt", "marvel train --noise instance"),
        ("a.txt --rate much --out b.txt", "--rate"),
        ("a.txt --rate 2 --out b.txt", "rate must be a number from 0 to 1"),
        ("a.txt --rate 0.2 --out b.csv", "written in the format they came in"),
        ("a.txt --rate 0.2 --classes 2 --out b.txt", "labels must be from 0 to 1"),
        ("a.txt --noise pare --rate 0.2 --out b.txt", "did you mean 'pair'?"),
        ("a.txt --noise pair --rates x --out b.txt", "rates should be numbers"),
        ("a.txt --column y --rate 0.2 --out b.txt", "is for .csv files"),
        ("t.csv --rate 0.2 --out b.csv", "add --column and one of file, species"),
        ("t.csv --column specie --rate 0.2 --out b.csv", "no column 'specie'"),
        ("t.csv --column species --classes 9 --rate 0.2 --out b.csv", "names 2 classes"),
        ("ragged.csv --column b --rate 0.2 --out b.csv", "row 1 has 1 cells and the heading 2"),
        ("empty.txt --rate 0.2 --out b.txt", "is empty"),
        ("bad.npy --rate 0.2 --out b.npy", "cannot be read as labels"),
        ("bad.npz --rate 0.2 --out b.npz", "cannot be read as labels"),
        ("a.pkl --rate 0.2 --out b.pkl", "labels come from a .npy, .npz, .csv, .tsv or .txt file"),
    ],
)
def test_mistakes_with_noise(marvel: Run, words: str, said: str) -> None:
    Path("a.txt").write_text("0\n1\n2\n")
    Path("t.csv").write_text("file,species\na,cat\nb,dog\n")
    Path("ragged.csv").write_text("a,b\n1,2\n1\n")
    Path("empty.txt").write_text("")
    Path("bad.npy").write_bytes(b"no array")
    Path("bad.npz").write_bytes(b"PK no archive")
    before = set(Path().iterdir())
    fails(marvel("noise", *words.split()), said)
    assert set(Path().iterdir()) == before


# ------------------------------------------------------------ tune


def test_tune_prints_trials_and_the_command_that_trains_with_the_best(marvel: Run, tmp_path: Path) -> None:
    asked = ("tune", *NOISY, "--method", "gce", "--epochs", "2", "--folds", "1", "--try", "q=0.2,0.6", "--out", "t")
    done = marvel(*asked, "--save", "tuned.json")
    assert done.code == 0 and "accuracy, given labels" in done.out and "best" in done.out
    assert done.err.splitlines()[0].startswith("1/2 q 0.2: ")
    assert "Train with the best: marvel train --noise symmetric --rate 0.4 --method gce --epochs 2 --q 0." in done.out
    fails(marvel(*asked), "t holds a search already: add --resume")
    again = marvel("tune", "--out", "t", "--resume", "--json")
    found = json.loads(again.out)
    assert again.err == "" and [trial["point"]["q"] for trial in found["trials"]] == [0.2, 0.6]
    setting = ("tune", *NOISY, "--method", "gce", "--try", "lr=0.1,0.2", "--save", "tuned.json")
    fails(marvel(*setting), "--save keeps parameters of the method, and lr is a setting")
    (entry,) = json.loads((tmp_path / "tuned.json").read_text())
    assert entry["options"] == found["best"]["point"] and entry["method"] == "gce" and entry["rate"] == 0.4


@pytest.mark.parametrize("given", [("--alpha", "0.5"), ("--alpha=0.5",)])
@pytest.mark.parametrize("first", [True, False])
def test_tune_takes_the_parameters_of_the_method(marvel: Run, given: tuple[str, ...], first: bool) -> None:
    """They are neither flags of the verb nor RUN, wherever they stand."""
    words = ["--method", "sce", *NOISY, "--epochs", "1", "--folds", "1", "--try", "A=-2,-5", "--json", "--quiet"]
    done = marvel("tune", *(given if first else ()), *words, *(() if first else given))
    assert done.code == 0, done
    said = json.loads(done.out)
    assert said["config"]["options"] == {"alpha": 0.5} and len(said["trials"]) == 2
    assert "--alpha 0.5" in said["command"]


def test_a_search_that_goes_on_with_other_parameters_shows_each_under_its_name(marvel: Run) -> None:
    asked = ("tune", *NOISY, "--method", "gce", "--epochs", "1", "--folds", "1", "--out", "t")
    assert marvel(*asked, "--try", "q=0.2,0.6", "--quiet").code == 0
    shown = marvel("tune", "--out", "t", "--resume", "--try", "batch=64").out.splitlines()
    headings, *rows = (line.split() for line in shown[1:-1] if line.strip() and "─" not in line)
    assert headings[:2] == ["q", "batch"]
    assert [row[:2] for row in rows] == [["0.2", "–"], ["0.6", "–"], ["–", "64"]]


def test_a_parameter_of_the_method_may_come_before_what_the_verb_is_about(marvel: Run) -> None:
    marvel("train", *NOISY, "--epochs", "6", "--method", "ce", "--ledger", "--out", "ce", "--quiet")
    before = marvel("tune", "--warmup", "2", "ce", "--replay", "wait=2", "--json")
    after = marvel("tune", "ce", "--replay", "wait=2", "--warmup", "2", "--json")
    assert before.code == after.code == 0 and before.out == after.out
    rng = np.random.default_rng(0)
    np.savez("mine.npz", x=rng.standard_normal((120, 4)), y=np.arange(120) % 2)
    assert marvel("clean", "--wait", "3", "mine.npz", "--epochs", "2", "--out", "run", "--quiet").code == 0
    assert (RunFolder("run").config or {})["config"]["options"]["wait"] == 3
    fails(marvel("clean", "--wait", "3"), "Missing argument")


def test_tune_reads_a_run(marvel: Run) -> None:
    trained = ("train", *NOISY, "--ledger", "--quiet", "--checkpoint-every", "0")
    assert marvel(*trained, "--method", "ce", "--epochs", "6", "--out", "ce").code == 0
    told = json.loads(marvel("tune", "ce", "--replay", "wait=2..4", "--warmup", "1", "--json").out)
    assert list(told["warmup"]) == ["training accuracy, as auto sees it", "training accuracy, its knee"]
    assert [(row["wait"], row["first"]) for row in told["replay"]] == [(2, 3), (3, 4), (4, 5)]
    shown = marvel("tune", "ce", "--replay", "wait=2,3", "--replay", "warmup=1,2").out
    assert "recall" in shown and "epoch 3" in shown and "what MARVEL would have done" in shown
    marvel(*trained, "--epochs", "6", "--warmup", "1", "--wait", "2", "--out", "m")
    fails(marvel("tune", "m", "--replay", "wait=2..4"), "m removed", "with --until 3")
    assert marvel("tune", "m", "--replay", "wait=2", "--until", "3").code == 0
    fails(marvel("tune", "ce", "--until", "3"), "has 3 epochs, and a curve is read from 5 on")
    fails(marvel("tune", "ce", "--until", "1"), "has 1 epoch, and a curve is read from 5 on")
    fails(marvel("tune", "ce", "--foo", "3"), "--foo means something with --replay only")
    fails(marvel("tune", "ce", "--folds", "3"), "--folds is of a search, and RUN is only read")
    fails(marvel("tune", "ce", "--lr", "0.1"), "--lr is of a search, and RUN is only read")
    fails(marvel("tune", "ce", "--replay", "q=2"), "no setting 'q'")
    fails(marvel("tune", "ce", "--replay", "warmup=-1"), "a warm-up is at least 0 epochs, got [-1]")
    fails(marvel("tune", "ce", "--replay", "wait=2", "--until", "0"), "--until is a number of epochs, at least 1")
    fails(marvel("tune", "ce", "--replay", "lr=0.1"), "waits and warm-ups can be replayed")
    fails(marvel("tune", "ce", "--replay", "wait=auto"), "wait is a number of epochs here, got 'auto'")
    fails(marvel("tune", "nowhere"), "nowhere is no run folder")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tune --method elr", "the paper has no grid for 'elr': add --try"),
        ("tune --method gce --try qq=1", "no setting 'qq'; did you mean 'q'?"),
        ("tune --method gce --try data=digits,cifar10", "data cannot be tried"),
        ("tune --method gce --try seed=0,1", "seed cannot be tried"),
        ("tune --noise symmetric --rate 0.4 --method gce --try rate=0.1,0.2", "rate cannot be tried"),
        ("tune --noise symmetric --rate 0.4 --method gce --by clean --share 0", "the share to hold out is above 0"),
        ("tune --method gce --width 0", "width must be at least 1, got 0"),
        ("tune --method gce --save two.csv", "two.csv is not JSON"),
        ("tune --method gce --save other.json", "other.json is no list of what searches found"),
        ("tune --method gce --try q=0.1:0.9", "add --trials 20"),
        ("tune --method gce --by holdout", "did you mean 'hold-out'?"),
        ("tune --method gce --by clean", "is not known: use --by cv"),
        ("tune --replay wait=2..4", "are of a run: marvel tune RUN"),
        ("tune --method gce --try q=3", "GCE wants q in [0, 1]"),
        ("tune --data two.csv --method gce --try q=0.1 --folds 2 --quiet", "at least two instances, and here of 1"),
    ],
)
def test_mistakes_of_tune(marvel: Run, words: str, said: str) -> None:
    Path("two.csv").write_text("a,label\n1,cat\n2,dog\n")
    Path("other.json").write_text('{"a": 1}')
    fails(marvel(*words.split()), said)


@pytest.mark.parametrize("width", ["60", "200"])
def test_long_names_leave_room_for_the_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    print_table(["class", "labels", "share"], [["x" * 500, "12,345", "7.5%"], ["cat", "2", "10.0%"]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert any("12,345" in line and "7.5%" in line for line in lines)
    assert "".join(lines).count("x") == 500


def test_a_closed_stdout_is_no_mistake(tmp_path: Path) -> None:
    """As `marvel methods >&-` does, and some services."""
    program = "import sys; sys.stdout = None; from marvel.cli import main; main(['methods'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_place_below_a_file_says_what_to_do(marvel: Run) -> None:
    Path("data.csv").write_text("a,label\n" + "".join(f"{k},{'pq'[k // 2 % 2]}\n" for k in range(40)))
    for words in ("train --data digits --epochs 1 --out data.csv/run", "demo --out data.csv/demo"):
        fails(marvel(*words.split()), "what should be a folder is a file: name another place")


@pytest.mark.parametrize(
    ("name", "mark", "encoding", "delimiter", "end"),
    [
        ("t.csv", b"\xef\xbb\xbf", "utf-8", ",", "\r\n"),
        ("t.csv", b"", "utf-8", ";", "\n"),
        ("t.csv", b"\xff\xfe", "utf-16-le", ",", "\n"),
        ("t.TSV", b"", "utf-8", "\t", "\r"),
        ("t.txt", b"\xef\xbb\xbf", "utf-8", "", "\r\n"),
    ],
)
def test_noise_leaves_all_else_as_it_is(
    marvel: Run, name: str, mark: bytes, encoding: str, delimiter: str, end: str
) -> None:
    """Put the old labels back by hand and it is the old file, byte for byte."""
    labels = ["caf\u00e9", "a dog"] * 60
    if delimiter:
        cell = f'"a {delimiter}{end}""b"""'
        rows = [
            delimiter.join((cell, f" {label} " if k % 3 else f'"{label}"', "x y")) for k, label in enumerate(labels)
        ]
        rows = [delimiter.join(("note", "kind", "last")), *rows]
    else:
        rows = [f"{label} " for label in labels]
    rows.insert(50, "")
    Path(name).write_bytes(mark + (end.join(rows) + end + end).encode(encoding))
    out = f"noisy{Path(name).suffix}"
    column = ("--column", "kind") if delimiter else ()
    done = marvel("noise", name, *column, "--rate", "0.3", "--out", out, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["classes"] == ["a dog", "caf\u00e9"] and said["realised_rate"] > 0.1
    before, after = (Path(each).read_bytes()[len(mark) :].decode(encoding).split(end) for each in (name, out))
    assert Path(out).read_bytes().startswith(mark) and len(before) == len(after)
    swapped = {"caf\u00e9": "a dog", "a dog": "caf\u00e9"}
    wrong = 0
    for old, new in zip(before, after, strict=True):
        if new != old:
            label = next(label for label in swapped if label in new)
            spelled = [f" {swapped[label]} ", f'"{swapped[label]}"', swapped[label]]
            assert old in [new.replace(label, each) for each in spelled]
            wrong += 1
    assert wrong == round(said["realised_rate"] * 120)


def test_noise_wants_every_label(marvel: Run) -> None:
    Path("a.csv").write_text("a,label\n1,cat\n2,\n3,dog\n")
    done = marvel("noise", "a.csv", "--column", "label", "--rate", "0.2", "--out", "b.csv")
    fails(done, "a.csv has no label in row 1: fill it in")


def test_names_in_a_table_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of classes may look like the markup of the library that draws the table."""
    names = ["[red]", "[/]", ":cat:", "[link=https://example.org]x[/link]"]
    print_table(["class", "labels"], [[name, "1"] for name in names])
    out = capsys.readouterr().out
    assert all(name in out for name in names)


def test_signs_that_command_a_terminal_are_shown(marvel: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A label is a line, whatever is in it, in tables as in notes and mistakes."""
    rows = "".join(f"{k % 2},{k % 3},{'cat' if k % 2 else 'dog'}\n" for k in range(20))
    Path("odd.csv").write_text(f"a,b\x1b[31m,label\n{rows}")
    fails(marvel("clean", "odd.csv", "--label", "nope"), r"It has a, b\x1b[31m, label")
    done = marvel("clean", "odd.csv", "--epochs", "2", "--out", "odd", "--columns", "a=leave")
    assert r"'b\x1b[31m' as" in done.err and "\x1b" not in done.out + done.err
    print_table(["class\x07"], [['"quince"\nold'], ["\x1b]0;gone\x07"], ["naïve 🍐 مرحبا"]])
    said = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert said[0] == r"class\x07" and said[2:] == [r'"quince"\nold', r"\x1b]0;gone\x07", "naïve 🍐 مرحبا"]
