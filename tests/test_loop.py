"""`save_run`: from anybody's loop and anybody's dataset to a folder that report, review and export take."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from marvel import CE, FolderError, Indexed, InvalidInput, Marvel, keep_ledger, save_run
from marvel.cli import main
from marvel.data import Data, load
from marvel.export import export
from marvel.loop.dataset import read_own
from marvel.loop.looks import look_of, looks_of
from marvel.method import Method
from marvel.report.page import render, shown
from marvel.review.decisions import Change, Decisions
from marvel.review.server import TOKEN, create_app
from marvel.runs import RunFolder
from toy import FEATURES, network, problem

N, EPOCHS = 90, 8
X, Y, CLEAN = problem(N, 3, noise=0.2, seed=0)
NAMES = ("ash", "birch", "cedar")


def trained(folder: Path | None = None, kind: type[Method] = Marvel, epochs: int = EPOCHS, **options: Any) -> Method:
    """A user's loop, its margins kept where a folder is named."""
    options = {"warmup": 2, "wait": 2} | options if kind is Marvel else options
    criterion = kind(N, 3, EPOCHS, **options)
    if folder is not None:
        keep_ledger(folder, criterion)
    net = network(seed=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for index, x, y in DataLoader(Indexed(TensorDataset(X, Y)), batch_size=16):
            criterion(net(x), y, index).backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    return criterion


@pytest.fixture(scope="module")
def criterion() -> Method:
    found = trained()
    assert found.removed.any() and not found.removed.all()
    return found


def issues_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "issues.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ------------------------------------------------------------ what is written


def test_train_has_nothing_to_go_on_with(criterion: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_run(tmp_path / "run", criterion, TensorDataset(X, Y), classes=NAMES)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--out", str(tmp_path / "run"), "--resume"])
    assert stopped.value.code == 2 and "is of a loop of your own (save_run)" in capsys.readouterr().err


def test_the_folder_says_what_the_criterion_knows(criterion: Method, tmp_path: Path) -> None:
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y), classes=NAMES, settings={"lr": 0.05})
    lines = issues_of(saved.folder)
    quality = {i: float(criterion.quality[i]) for i in criterion.removed.nonzero().squeeze(1).tolist()}
    ranked = sorted(quality, key=lambda i: (float(criterion.quality[i]), i))
    assert [int(line["id"]) for line in lines] == ranked == [issue.index for issue in saved.issues]
    for line, i in zip(lines, ranked, strict=True):
        assert line["given"] == NAMES[Y[i]] and line["suggested"] == NAMES[criterion.rival[i]]
        assert float(line["quality"]) == pytest.approx(quality[i], abs=1e-4)
        assert float(line["label_quality"]) == pytest.approx(1 / (1 + np.exp(-quality[i])), abs=1e-4)
        assert int(line["removed_at"]) == criterion.removed_at[i] and line["wrong_probability"] == ""
    columns = RunFolder(saved.folder).instances()
    for name in ("quality", "weight", "removed_at", "label_quality"):
        assert np.array_equal(columns[name], getattr(criterion, name).numpy()), name
    found = RunFolder(saved.folder).found
    assert found is not None and found["estimate"] is None and found["canaries"] == 0
    assert saved.report is not None
    page = saved.report.read_text(encoding="utf-8")
    assert "is not estimated" in page and "repeats itself" not in page and "0.05" in page


def test_what_was_saved_is_a_line(criterion: Method, tmp_path: Path) -> None:
    """In a notebook the last expression is shown, and the list filled pages."""
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y))
    listed = f"{len(saved.issues)} labels listed"
    assert repr(saved) == f"Saved({listed}, how many are wrong is not estimated, in {tmp_path / 'run'})"
    one = save_run(tmp_path / "one", criterion, TensorDataset(X, Y), top=1)
    assert repr(one).startswith("Saved(1 label listed, ")


def test_margins_by_epoch_make_the_report_of_marvel_clean(tmp_path: Path) -> None:
    found = trained(tmp_path / "run")
    saved = save_run(tmp_path / "run", found, TensorDataset(X, Y))
    folder = RunFolder(saved.folder)
    assert [line["epoch"] for line in folder.metrics()] == list(range(1, EPOCHS + 1))
    margins = {epoch: kept["margin"] for epoch, kept in folder.ledger()}
    mean = torch.stack([margins[epoch] for epoch in range(2, EPOCHS + 1)]).float().mean(0)
    torch.testing.assert_close(mean, found.quality, rtol=1e-2, atol=1e-2)
    with_epochs = (saved.folder / "report.html").read_text(encoding="utf-8")
    save_run(tmp_path / "bare", found, TensorDataset(X, Y))
    without = (tmp_path / "bare" / "report.html").read_text(encoding="utf-8")
    for words in ("Labels learned", "Margins by epoch", 'class="spark"'):
        assert words in with_epochs and words not in without
    assert "When instances were removed" in without


def test_a_loop_that_goes_on_forgets_the_epochs_after_its_checkpoint(tmp_path: Path) -> None:
    state = trained(epochs=3).state_dict()
    trained(tmp_path, epochs=5)  # interrupted
    again = Marvel(N, 3, EPOCHS, warmup=2, wait=2)
    again.load_state_dict(state)
    keep_ledger(tmp_path, again)
    again(torch.zeros(N, 3), Y, torch.arange(N))
    again.step()
    assert [line["epoch"] for line in RunFolder(tmp_path).metrics()] == [1, 2, 3, 4]


def test_leftovers_of_another_loop_do_not_mix_in(tmp_path: Path) -> None:
    other = Marvel(5, 2)
    keep_ledger(tmp_path, other)
    for _ in range(EPOCHS + 3):
        other(torch.zeros(5, 2), torch.tensor([0, 1, 0, 1, 0]), torch.arange(5))
        other.step()
    found = trained(tmp_path)
    save_run(tmp_path, found, TensorDataset(X, Y))
    assert {len(kept["margin"]) for _, kept in RunFolder(tmp_path).ledger()} == {N}
    save_run(tmp_path, found, TensorDataset(X, Y))  # once more, of the same loop
    save_run(tmp_path, trained(), TensorDataset(X, Y), replace=True)
    assert list(RunFolder(tmp_path).ledger()) == [] == RunFolder(tmp_path).metrics()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FolderError, match="not of a run"):
        save_run(tmp_path, trained(), TensorDataset(X, Y), replace=True)


def test_a_method_that_removes_nothing_lists_negative_margins(tmp_path: Path) -> None:
    found = trained(kind=CE, epochs=3)
    assert not found.removed.any()
    saved = save_run(tmp_path / "run", found, (X, Y))
    assert {issue.index for issue in saved.issues} == set((found.quality < 0).nonzero().squeeze(1).tolist()) != set()
    top = save_run(tmp_path / "top", found, (X, Y), top=4)
    assert [issue.index for issue in top.issues] == found.quality.argsort()[:4].tolist()


def test_as_many_as_were_asked_for_are_not_said_to_look_wrong(criterion: Method, tmp_path: Path) -> None:
    """Most of them were never removed, and have margins that are positive on average."""
    saved = save_run(tmp_path / "run", criterion, (X, Y), top=len(X) - 5)
    assert sum(issue.removed_at > 0 for issue in saved.issues) < len(saved.issues) / 2
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "As many as were asked for" in page
    assert "look wrong" not in page and "were removed in training" not in page
    saved = save_run(tmp_path / "other", criterion, (X, Y))
    page = (tmp_path / "other" / "report.html").read_text(encoding="utf-8")
    assert "look wrong" in page and "were removed in training" in page and "were asked for" not in page


def test_an_instance_never_seen_is_not_judged(tmp_path: Path) -> None:
    found = Marvel(4, 2, warmup=0, wait=1)
    found(torch.tensor([[0.0, 1], [1, 0]]), torch.tensor([0, 0]), torch.tensor([0, 1]))
    found.step()
    saved = save_run(tmp_path / "run", found, (torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])))
    assert [issue.index for issue in saved.issues] == [0]
    assert np.isnan(RunFolder(saved.folder).instances()["quality"]).tolist() == [False, False, True, True]


def test_what_was_removed_unseen_is_listed_first(tmp_path: Path) -> None:
    """A method may remove before it trains; what it knows of such an instance is that, and no margin."""
    criterion = CE(N, 3)
    criterion.remove(torch.arange(N) % 30 == 7)
    criterion(torch.zeros(80, 3), Y[10:], torch.arange(10, N))
    criterion.step()
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y))
    assert [issue.index for issue in saved.issues] == [7, 37, 67]
    assert saved.issues[0].quality is None and saved.issues[0].suggested == ""


def test_the_suggestions_are_the_methods_own(tmp_path: Path) -> None:
    """Of a method that knows more than the class its margins lost to, as marvel-semi does."""

    class Knowing(Marvel):
        @property
        def suggested(self) -> Tensor:
            return (Y + 1 + torch.arange(N) % 2) % 3

    criterion = trained(kind=Knowing, warmup=2, wait=2)
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y))
    ours = {issue.index: issue.suggested for issue in saved.issues}
    assert ours == {i: str((int(Y[i]) + 1 + i % 2) % 3) for i in criterion.removed.nonzero().squeeze(1).tolist()}
    theirs = {issue.index: issue.suggested for issue in criterion.issues(Y)}
    assert ours and ours.items() <= theirs.items()


def test_nothing_is_written_over(criterion: Method, tmp_path: Path) -> None:
    save_run(tmp_path / "run", criterion, (X, Y))
    with Decisions(tmp_path / "run" / "decisions.sqlite", of=fingerprint(tmp_path / "run")):
        pass
    with pytest.raises(FolderError, match="replace=True"):
        save_run(tmp_path / "run", criterion, (X, Y))
    with pytest.raises(FolderError, match="replace=True"):
        keep_ledger(tmp_path / "run", Marvel(N, 3))
    save_run(tmp_path / "run", criterion, (X, Y), replace=True)
    assert (tmp_path / "run" / "decisions.sqlite").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="is a file"):
        save_run(tmp_path / "file", criterion, (X, Y))


def fingerprint(folder: Path) -> str:
    config = RunFolder(folder).config
    assert config is not None
    return str(config["data"]["fingerprint"])


# ------------------------------------------------------------ review and export


def test_review_and_export_take_the_folder(criterion: Method, tmp_path: Path) -> None:
    saved = save_run(tmp_path / "there", criterion, TensorDataset(X, Y), classes=NAMES)
    shutil.move(saved.folder, tmp_path / "here")  # with all it holds
    folder = RunFolder(tmp_path / "here")
    instances = shown(folder)
    assert instances is not None
    first, second, third = saved.issues[:3]
    with Decisions(folder.decisions_file, of=fingerprint(folder.path)) as decisions:
        page = TestClient(create_app(folder, decisions, instances, "t"), base_url="http://127.0.0.1")
        asked = page.get("/api/instances", headers={TOKEN: "t"}).json()
        assert [item["index"] for item in asked["items"]] == [issue.index for issue in saved.issues]
        one = page.get(f"/api/instances/{first.index}", headers={TOKEN: "t"}).json()
        assert one["fields"] == {str(k): f"{float(X[first.index, k]):.6g}" for k in range(FEATURES)}
        changes = [
            {"index": first.index, "action": "accept", "version": 0},
            {"index": second.index, "action": "aside", "version": 0},
            {"index": third.index, "action": "keep", "version": 0},
        ]
        said = page.post("/api/decide", json={"who": "me", "changes": changes}, headers={TOKEN: "t"})
        assert said.status_code == 200, said.text
    done = export(folder, tmp_path / "out")
    assert (done.kind, done.changed, done.aside, done.written) == ("kept", 1, 1, N - 1)
    with (tmp_path / "out" / "corrections.csv").open() as file:
        corrected = {line["id"]: (line["corrected"], line["action"]) for line in csv.DictReader(file)}
    assert corrected == {
        first.id: (first.suggested, "accept"), second.id: ("", "aside"), third.id: (third.given, "keep"),
    }  # fmt: skip
    with (tmp_path / "out" / "labels.csv").open() as file:
        labels = {int(line["index"]): line["label"] for line in csv.DictReader(file)}
    expected = {i: NAMES[Y[i]] for i in range(N) if i != second.index} | {first.index: first.suggested}
    assert labels == expected
    assert export(folder, tmp_path / "kept", keep_aside=True).written == N


def test_only_the_most_suspect_are_kept(criterion: Method, tmp_path: Path) -> None:
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y), keep=len(issues := criterion.issues(Y)) // 4)
    instances = shown(RunFolder(saved.folder))
    assert instances is not None and len(issues) > 8
    fields = [instances.fields(issue.index) for issue in saved.issues]
    assert len(fields[0]) == FEATURES and "most suspect" in fields[-1][""]
    save_run(tmp_path / "none", criterion, TensorDataset(X, Y), keep=0)
    assert shown(RunFolder(tmp_path / "none")) is None and not (tmp_path / "none" / "report.html").exists()
    assert "marvel review" not in render(RunFolder(tmp_path / "none"))


# ------------------------------------------------------------ whatever people train on


class Items(Dataset[Any]):
    """A dataset that says nothing of itself."""

    def __init__(self, make: Any = lambda i: (X[i], int(Y[i]))) -> None:
        self.make, self.read = make, 0

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        self.read += 1
        return self.make(i)


class Targets(Items):
    def __init__(self) -> None:
        super().__init__(lambda i: (Image.new("L", (9, 9), int(i)), Y[i]))
        self.targets, self.classes = Y.tolist(), list(NAMES)


class Rows(Items):
    """A dataset around a DataFrame whose rows are a part of a larger one, in another order."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        frame = pandas.DataFrame({"given": Y.numpy()}, index=np.random.default_rng(0).permutation(2 * N)[:N])
        for name, make in attributes.items():
            setattr(self, name, make(frame))


AROUND = [*range(N - 50, N), *range(N - 50)]
SAME: dict[str, Any] = {
    "tensors": TensorDataset(X, Y),
    "indexed": Indexed(TensorDataset(X, Y)),
    "several inputs": TensorDataset(X, X, Y),
    "a subset": Subset(TensorDataset(X.flip(0), Y.flip(0)), list(range(N))[::-1]),
    "several in a row": ConcatDataset([TensorDataset(X[:7], Y[:7]), [(x, int(y)) for x, y in zip(X[7:], Y[7:])]]),
    "a subset of several": Subset(
        ConcatDataset([TensorDataset(X[50:], Y[50:]), TensorDataset(X[:50], Y[:50])]), AROUND
    ),
    "arrays": (X.numpy(), Y.numpy()),
    "a frame": (pandas.DataFrame(X.numpy()), pandas.Series(Y.numpy())),
    "a frame of polars": (polars.DataFrame(X.numpy()), polars.Series(Y.numpy())),
    "a table of pyarrow": (polars.DataFrame(X.numpy()).to_arrow(), pyarrow.array(Y.numpy())),
    "a frame with labels": pandas.DataFrame(X.numpy()).assign(label=Y.numpy()),
    "polars with labels": polars.DataFrame(X.numpy()).with_columns(target=Y.numpy()),
    "pyarrow with labels": polars.DataFrame(X.numpy()).with_columns(y=Y.numpy()).to_arrow(),
    "items": Items(),
    "dicts": Items(lambda i: {"x": X[i], "labels": Y[i]}),
    "targets": Targets(),
    "a series": Rows(labels=lambda frame: frame["given"]),
    "categories": Rows(targets=lambda frame: frame["given"].astype("category")),
    "a subset of a series": Subset(Rows(labels=lambda frame: frame["given"]), range(N)),
    "frames": Rows(labels=lambda frame: frame, samples=lambda frame: frame),
    "one-hot": Rows(targets=lambda frame: torch.eye(3)[Y]),
    "a number of classes": Rows(classes=lambda frame: 3),
    "classes without order": Rows(classes=lambda frame: {"x", "y", "z"}),
    "a list": [(x, int(y)) for x, y in zip(X, Y)],
    "data": Data("blobs", X, Y, NAMES),
}


@pytest.mark.parametrize("kind", SAME)
def test_given_labels_are_found(kind: str) -> None:
    own = read_own(SAME[kind], N, 3)
    assert own.labels.tolist() == Y.tolist()
    assert own.classes == (NAMES if kind in ("targets", "data") else ("0", "1", "2"))
    look = look_of(own.instance(7), (0.0, 1.0))
    if kind == "targets":
        assert look.picture is not None
    elif kind not in ("several inputs", "dicts"):
        assert list(look.fields.values()) == [f"{float(value):.6g}" for value in X[7]]


def test_labels_at_hand_are_not_read_item_by_item() -> None:
    quiet, asked, told = Targets(), Items(), Items()
    read_own(quiet, N, 3)
    read_own(asked, N, 3)
    read_own(told, N, 3, labels=[NAMES[y] for y in Y], names=NAMES)
    assert quiet.read <= 10 and (asked.read, told.read) == (N, 0)
    misleading = Targets()
    misleading.targets = [1 - min(y, 1) for y in misleading.targets]
    with pytest.raises(InvalidInput, match="labels="):
        read_own(misleading, N, 3)


def test_names_of_classes_and_columns_and_rows(criterion: Method, tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        X.numpy(), columns=[f"f{k}" for k in range(FEATURES)], index=[f"row {i}" for i in range(N)]
    )
    saved = save_run(tmp_path / "run", criterion, (frame, np.array(NAMES)[Y.numpy()]))
    issue = saved.issues[0]
    assert issue.id == f"row {issue.index}" and issue.given == NAMES[Y[issue.index]]
    instances = shown(RunFolder(saved.folder))
    assert instances is not None
    assert list(instances.fields(issue.index)) == [f"f{k}" for k in range(FEATURES)]


def test_a_series_of_texts(criterion: Method, tmp_path: Path) -> None:
    texts = pandas.Series([f"text {i}" for i in range(N)], index=range(500, 500 + N))
    saved = save_run(tmp_path / "run", criterion, (texts, Y.numpy()))
    issue, instances = saved.issues[0], shown(RunFolder(saved.folder))
    assert instances is not None and issue.id == str(500 + issue.index)
    assert list(instances.fields(issue.index).values()) == [f"text {issue.index}"]


def test_the_names_of_a_model(criterion: Method, tmp_path: Path) -> None:
    """`id2label` of Hugging Face's models: the names go by number, whatever the order they are said in."""
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y), classes=dict(reversed([*enumerate(NAMES)])))
    assert [issue.given for issue in saved.issues] == [NAMES[Y[issue.index]] for issue in saved.issues]


def test_the_names_of_a_dataset_may_be_a_dict() -> None:
    names = Rows(classes=lambda frame: {2: "cedar", 0: "ash", 1: "birch"})
    assert read_own(names, N, 3).classes == NAMES


def test_names_are_not_those_of_classes_that_a_transform_numbers_anew() -> None:
    """`classes` are of `targets`; what `target_transform` makes of these has them only where it changes no number."""
    renumbered, typed = Targets(), Targets()
    renumbered.make = lambda i: (X[i], 2 - int(Y[i]))
    renumbered.target_transform = lambda y: 2 - y  # type: ignore[attr-defined]
    typed.target_transform = torch.tensor  # type: ignore[attr-defined]
    own = read_own(renumbered, N, 3)
    assert own.labels.tolist() == (2 - Y).tolist() and own.classes == ("0", "1", "2")
    assert read_own(renumbered, N, 3, names=NAMES[::-1]).classes == NAMES[::-1]
    assert read_own(typed, N, 3).classes == NAMES


def test_huggingface_datasets(criterion: Method, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "picture": datasets.Image(), "label": datasets.ClassLabel(names=list(NAMES))}
    )
    rows = {"text": [f"text {i}" for i in range(N)], "label": Y.tolist()}
    rows["picture"] = [Image.new("RGB", (5, 5), (int(i), 0, 0)) for i in range(N)]
    table = datasets.Dataset.from_dict(rows, features=features)
    saved = save_run(tmp_path / "run", criterion, table)
    issue = saved.issues[0]
    assert issue.given == NAMES[Y[issue.index]]
    instances = shown(RunFolder(saved.folder))
    assert instances is not None and instances.fields(issue.index) == {"text": f"text {issue.index}"}
    content = instances.picture(issue.index)
    assert content is not None
    assert pixel(content) == (issue.index, 0, 0)
    # A transform that leaves nothing but tensors does not hide the labels.
    changed = table.with_transform(lambda rows: {"pixel_values": [torch.rand(3, 4, 4) for _ in rows["text"]]})
    own = read_own(changed, N, 3)
    assert own.labels.tolist() == Y.tolist() and own.classes == NAMES
    assert look_of(own.instance(0), (0.0, 1.0)).picture is not None


def pixel(content: bytes) -> Any:
    import io

    with Image.open(io.BytesIO(content)) as image:
        return image.getpixel((2, 2))


class Folder(Dataset[Any]):
    """As torchvision's ImageFolder has it."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.classes = sorted(path.name for path in root.iterdir())
        self.samples = [
            (str(path), number) for number, name in enumerate(self.classes) for path in sorted((root / name).iterdir())
        ]
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        path, label = self.samples[i]
        with Image.open(path) as image:
            return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255, label


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for i in range(N):
        path = tmp_path / "photos" / NAMES[Y[i]] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (i, 2, 3)).save(path)
    return tmp_path / "photos"


def test_an_image_folder_is_written_back_as_one(criterion: Method, photos: Path, tmp_path: Path) -> None:
    dataset = Folder(photos)
    order = [int(Path(path).stem) for path, _ in dataset.samples]
    place = {i: order.index(i) for i in range(N)}
    saved = save_run(tmp_path / "run", criterion, Subset(dataset, [place[i] for i in range(N)]))
    issue = saved.issues[0]
    assert issue.id == f"{issue.given}/{issue.index:02d}.png"
    assert not (saved.folder / "shown.parquet").exists()
    instances = shown(RunFolder(saved.folder))
    assert instances is not None
    content = instances.picture(issue.index)
    assert content is not None and pixel(content) == (issue.index, 2, 3)
    done = export(saved.folder, tmp_path / "out", accept_all=True)
    assert done.kind == "folder" and done.written == N
    for issue in saved.issues:
        moved = tmp_path / "out" / issue.suggested / f"{issue.index:02d}.png"
        assert moved.is_file() and not (tmp_path / "out" / issue.given / moved.name).exists()


def test_image_folders_in_a_row_have_the_names_that_all_of_them_have(photos: Path, tmp_path: Path) -> None:
    """Torch's ConcatDataset has none itself. Where the parts call their classes differently, nobody knows which."""
    shutil.copytree(photos, tmp_path / "more")
    first, more = Folder(photos), Folder(tmp_path / "more")
    own = read_own(ConcatDataset([first, more]), 2 * N, 3)
    assert own.classes == NAMES and own.labels.tolist() == first.targets + more.targets
    assert own.ids == tuple(path for path, _ in first.samples + more.samples)
    assert torch.equal(own.instance(N + 4), more[4][0])
    halves = ConcatDataset([Subset(first, range(40)), Subset(first, range(40, N))])
    whole = read_own(first, N, 3).origin
    assert whole is not None and read_own(halves, N, 3).origin == whole
    (tmp_path / "more" / "cedar").rename(tmp_path / "more" / "yew")
    assert read_own(ConcatDataset([first, Folder(tmp_path / "more")]), 2 * N, 3).classes == ("0", "1", "2")
    unnamed = TensorDataset(torch.zeros(3, 3, 4, 4), torch.tensor([0, 1, 2]))
    assert read_own(ConcatDataset([first, unnamed]), N + 3, 3).classes == ("0", "1", "2")


def test_rows_that_several_frames_name_alike_are_counted() -> None:
    frames = [pandas.DataFrame(X[:N].numpy()).assign(label=Y.numpy()) for _ in range(2)]
    own = read_own(ConcatDataset(frames), 2 * N, 3)  # type: ignore[arg-type]
    assert own.ids == tuple(map(str, range(2 * N)))


def test_other_labels_than_the_folders_are_kept_apart(criterion: Method, photos: Path, tmp_path: Path) -> None:
    """Labels that are not those of the folders cannot be written back as folders; the files still name instances."""
    other, lost = Y.clone(), criterion.rival >= 0
    other[lost] = 3 - Y[lost] - criterion.rival[lost]  # the third class
    dataset = Folder(photos)
    saved = save_run(tmp_path / "run", criterion, dataset, labels=other)
    assert saved.issues[0].id.endswith(".png") and (saved.folder / "shown.parquet").exists()
    assert export(saved.folder, tmp_path / "out", accept_all=True).kind == "kept"


def test_a_file_of_marvels_own_readers_is_written_back(criterion: Method, tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=X.numpy(), y=np.array(NAMES)[Y.numpy()])
    data = load(str(tmp_path / "mine.npz"))
    saved = save_run(tmp_path / "run", criterion, data)
    export(saved.folder, tmp_path / "out", accept_all=True)
    with np.load(tmp_path / "out" / "mine.npz") as written:
        changed = np.flatnonzero(written["y"] != written["y_given"])
    assert set(changed.tolist()) == {issue.index for issue in saved.issues}


# ------------------------------------------------------------ what a person sees


@pytest.mark.parametrize(
    ("x", "span", "seen"),
    [
        (torch.full((1, 4, 4), 0.5), (0.0, 1.0), (128, 128, 128)),
        (torch.full((3, 4, 4), 200, dtype=torch.uint8), (0.0, 255.0), (200, 200, 200)),
        (np.full((4, 4, 3), 7, dtype=np.uint8), (0.0, 255.0), (7, 7, 7)),
        (torch.zeros(4, 4), (-1.0, 1.0), (128, 128, 128)),
        (torch.zeros(3, 4, 4, dtype=torch.bfloat16), (-1.0, 1.0), (128, 128, 128)),
        ({"pixel_values": torch.ones(3, 4, 4), "n": 3}, (0.0, 1.0), (255, 255, 255)),
        (Image.new("RGB", (4, 4), (1, 2, 3)), (0.0, 1.0), (1, 2, 3)),
    ],
)
def test_pictures(x: Any, span: tuple[float, float], seen: tuple[int, int, int]) -> None:
    content = look_of(x, span).picture
    assert content is not None and pixel(content) == seen


@pytest.mark.parametrize(
    ("x", "fields"),
    [
        ("some words", {"": "some words"}),
        ({"text": "some words", "length": 2}, {"text": "some words", "length": "2"}),
        ({"input_ids": [5, 6, 7]}, {"input_ids": "[5, 6, 7]"}),
        (torch.tensor([0.5, 2.0]), {"0": "0.5", "1": "2"}),
        (torch.zeros(5, 6, 7), {"": "numbers of shape (5, 6, 7)"}),
        (torch.tensor(3), {"": "3"}),
        (None, {"": ""}),
    ],
)
def test_fields(x: Any, fields: dict[str, str]) -> None:
    look = look_of(x, (0.0, 1.0))
    assert look.picture is None and look.fields == fields


def test_black_and_white_are_those_of_all_that_is_shown() -> None:
    levels = [torch.full((2, 2), float(level)) for level in (-2, 0, 2)]
    seen = [look.picture for look in looks_of(lambda i: levels[i], [0, 1, 2], None)]
    assert [pixel_of_two(content) for content in seen] == [0, 128, 255]


def pixel_of_two(content: bytes | None) -> int:
    import io

    assert content is not None
    with Image.open(io.BytesIO(content)) as image:
        return int(image.convert("L").getpixel((0, 0)))  # type: ignore[arg-type]


# ------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (TensorDataset(X[:9], Y[:9]), {}, "is of 90 instances, and the dataset has 9"),
        (iter([]), {}, "a dataset with a length"),
        ((X[:9], Y), {}, r"is of 90 instances, and of the pair \(x, y\) x has 9 and y 90"),
        (pandas.DataFrame(X.numpy()), {}, "does not say its labels: .*labels="),
        ((X, np.where(Y == 1, np.nan, Y)), {}, f"{int((Y == 1).sum())} of 90 are missing, leave these instances out"),
        ((X, Y.double()), {}, r"float64: \.astype\(int\)"),
        (TensorDataset(X, Y), {"classes": {"a": 0, "b": 1, "c": 2}}, "0..2 to names"),
        (Items(lambda i: X[i]), {}, "labels="),
        (Items(lambda i: (X[i], torch.eye(3)[Y[i]])), {}, r"one class, got a tensor of shape \(3,\): .*labels="),
        (TensorDataset(X, Y), {"labels": Y[:5]}, r"expected 90 labels, .* got shape \(5,\)"),
        (TensorDataset(X, Y), {"classes": ["a", "b"]}, "knows 3 classes, and 2 names"),
        (TensorDataset(X, Y), {"labels": Y + 1}, "label is not among the 3 classes"),
        (TensorDataset(X, Y), {"ids": ["a"]}, "expected 90 ids"),
        (TensorDataset(X, Y), {"ids": ["a"] * N}, "differently"),
        (TensorDataset(X, Y), {"top": 0}, "at least 1"),
    ],
)
def test_mistakes(data: Any, options: dict[str, Any], words: str, criterion: Method, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        save_run(tmp_path / "run", criterion, data, **options)
    assert not (tmp_path / "run").exists()


def test_words_in_another_order_than_the_alphabets(criterion: Method, tmp_path: Path) -> None:
    """Whoever numbered the classes as they came must say so: by the alphabet a suggestion would be of another class."""
    came = ("willow", "ash", "oak")  # 0, 1, 2 in the training
    words = np.array(came)[Y.numpy()]
    for data, options in (((X, words), {}), (TensorDataset(X, Y), {"labels": words.tolist()})):
        with pytest.raises(InvalidInput, match="ash, oak, willow, and those of the training were not: .*classes="):
            save_run(tmp_path / "run", criterion, data, **options)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
    saved = save_run(tmp_path / "run", criterion, (X, words), classes=came)
    assert [issue.suggested for issue in saved.issues] == [came[criterion.rival[issue.index]] for issue in saved.issues]


def test_labels_that_are_not_those_of_the_training_are_noticed(criterion: Method, tmp_path: Path) -> None:
    """No margin is measured against the given label, so a label that one lost to is another's."""
    shifted = (Y + 1) % 3
    strangers = sum(int(rival) == int(label) for rival, label in zip(criterion.rival, shifted, strict=True))
    assert strangers > 0
    with pytest.warns(UserWarning, match=f"^{strangers} labels are the very class"):
        criterion.issues(shifted)
    with pytest.warns(UserWarning, match=f"^{strangers} labels are the very class"):
        save_run(tmp_path / "run", criterion, TensorDataset(X, shifted))


def test_before_the_first_epoch(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="criterion.step"):
        save_run(tmp_path / "run", Marvel(N, 3), TensorDataset(X, Y))


def test_settings_are_plain_json(criterion: Method, tmp_path: Path) -> None:
    saved = save_run(tmp_path / "run", criterion, (X, Y), settings={"network": network, "layers": (1, 2)})
    config = json.loads((saved.folder / "config.json").read_text())["config"]
    assert config == {"data": "run", "method": "marvel", "epochs": EPOCHS, "network": "toy.network", "layers": [1, 2]}


def test_decisions_on_other_data_are_not_exported(criterion: Method, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    save_run(folder.path, criterion, TensorDataset(X, Y))
    assert folder.config is not None
    with Decisions(folder.decisions_file, of=folder.config["data"]["fingerprint"]) as decisions:
        decisions.decide([Change(3, "aside", None)], "me")
    export(folder, tmp_path / "out")
    save_run(folder.path, criterion, TensorDataset(X, Y), classes=NAMES, replace=True)
    with pytest.raises(FolderError, match="holds decisions on other data"):
        export(folder, tmp_path / "again")


def test_labels_that_look_like_formulas_are_exported_as_they_are(criterion: Method, tmp_path: Path) -> None:
    saved = save_run(tmp_path / "run", criterion, TensorDataset(X, Y), classes=["-1", "+1", "=x"])
    export(saved.folder, tmp_path / "out", accept_all=True)
    found = pandas.read_csv(tmp_path / "out" / "labels.csv", dtype=str)
    assert set(found["label"]) == {"-1", "+1", "=x"}
