"""The review server: who is let in, what pages hold, and that decisions arrive once and where they were meant."""

import csv
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from cleaned import EPOCHS, Pictures, Rows, write_cleaned
from marvel.errors import FolderError, InvalidInput
from marvel.review.decisions import Change, Decisions, read_decisions
from marvel.review.server import HEADERS, MOST_AT_ONCE, create_app, listen, page_files
from marvel.review.suspects import Filter, Suspects
from marvel.runs import RunFolder
from shapes import SHAPES, Planted, plant
from soaking import note

TOKEN = "t0ken-of-this-run"
HOST = "127.0.0.1:8765"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("data") / "shapes", 200, 0.4, size=24)


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory, planted: Planted) -> RunFolder:
    return write_cleaned(tmp_path_factory.mktemp("cleaned") / "run", planted.given, planted.truth, planted.ids)


@pytest.fixture
def folder(tmp_path: Path, cleaned: RunFolder) -> RunFolder:
    """Each test's own, but copied: writing one takes longer."""
    return RunFolder(shutil.copytree(cleaned.path, tmp_path / "run"))


@pytest.fixture
def decisions(folder: RunFolder) -> Iterator[Decisions]:
    with Decisions(folder.decisions_file) as decisions:
        yield decisions


@pytest.fixture
def client(folder: RunFolder, decisions: Decisions, planted: Planted) -> TestClient:
    return ask(create_app(folder, decisions, Pictures(planted), TOKEN))  # type: ignore[arg-type]


def ask(app: Any, **headers: str) -> TestClient:
    return TestClient(app, base_url=f"http://{HOST}", headers={"x-marvel-token": TOKEN, **headers})


def issues(folder: RunFolder) -> list[dict[str, str]]:
    with open(folder.path / "issues.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def decide(client: TestClient, *changes: dict[str, Any], who: str = "me") -> Any:
    return client.post("/api/decide", json={"who": who, "changes": list(changes)})


def everything(client: TestClient, limit: int = 60, **wanted: Any) -> list[dict[str, Any]]:
    """Page after page."""
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["rank"] if found else 0
        page = client.get("/api/instances", params={**wanted, "after": after, "limit": limit}).json()
        found += page["items"]
        if len(page["items"]) < limit:
            assert len(found) == page["total"]
            return found


# ------------------------------------------------------------ who is let in


def test_without_the_token_there_is_only_the_empty_page(client: TestClient, planted: Planted) -> None:
    routes = ["/api/run", "/api/instances", "/api/instances/0", "/api/pictures/0", "/api/changes?since=0", "/api/pairs"]
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x", "tokén"):
        for path in routes:
            said = client.get(path, headers={"x-marvel-token": token.encode()})
            assert said.status_code == 401 and "open the address" in said.json()["error"], path
        for path in ("/api/decide", "/api/undo"):
            assert client.post(path, json={}, headers={"x-marvel-token": token.encode()}).status_code == 401
    # A token in the address or in a cookie is none.
    bare = {"x-marvel-token": "", "cookie": f"token={TOKEN}"}
    assert client.get(f"/api/run?token={TOKEN}", headers=bare).status_code == 401
    for path in page_files():
        page = client.get(path, headers={"x-marvel-token": ""})
        assert page.status_code == 200
        assert not any(name in page.text for name in (*planted.ids[:5], TOKEN, "heart"))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "0.0.0.0", "", "[::1", "a@b:c"]
)
def test_other_host_names_are_refused(client: TestClient, host: str) -> None:
    """DNS rebinding: the browser believes that evil.example lives at 127.0.0.1."""
    for path in ("/", "/main.js", "/api/run"):
        assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1234", "localhost:8765", "LOCALHOST", "[::1]:80"])
def test_names_of_this_machine_are_not(client: TestClient, host: str) -> None:
    assert client.get("/api/run", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": f"https://{HOST}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_are_refused(client: TestClient, folder: RunFolder, headers: dict[str, str]) -> None:
    """Even with the token: a page of another port is another origin."""
    assert client.get("/api/run", headers=headers).status_code == 403
    body = {"who": "me", "changes": [{"index": 0, "action": "keep", "version": 0}]}
    assert client.post("/api/decide", json=body, headers=headers).status_code == 403
    assert read_decisions(folder.decisions_file) == {}


def test_our_own_page_is_let_in(client: TestClient) -> None:
    headers = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
    assert client.get("/api/run", headers=headers).status_code == 200


def test_every_answer_is_guarded(client: TestClient) -> None:
    answers = [
        client.get("/"),
        client.get("/api/run"),
        client.get("/api/pictures/0"),
        client.get("/nowhere"),
        client.get("/api/run", headers={"host": "evil.example"}),
        decide(client, {"index": 0, "action": "nonsense", "version": 0}),
    ]
    for answer in answers:
        assert {key: answer.headers[key] for key in HEADERS} == HEADERS
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert not any("access-control" in key for answer in answers for key in answer.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/decisions.sqlite",
        "/page/main.js",
        "/decisions.sqlite",
        "/docs",
        "/openapi.json",
    ],
)
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("index", ["-1", "200", "1e9", "../0", "0%2f..", "x", "99999999999999999999"])
def test_instances_that_are_not(client: TestClient, index: str) -> None:
    for path in ("/api/instances", "/api/pictures"):
        assert client.get(f"{path}/{index}").status_code in (400, 404, 422)


def test_what_is_posted_must_be_json_of_some_size(client: TestClient, folder: RunFolder) -> None:
    text = '{"who": "me", "changes": [{"index": 0, "action": "keep", "version": 0}]}'
    assert client.post("/api/decide", content=text, headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/api/decide", content=iter([text.encode()])).status_code == 413
    huge = '{"who": "' + "x" * (2 << 20) + '"}'
    assert client.post("/api/decide", content=huge, headers={"content-type": "application/json"}).status_code == 413
    many = [{"index": k, "action": "keep", "version": 0} for k in range(MOST_AT_ONCE + 1)]
    assert decide(client, *many).status_code == 422
    assert read_decisions(folder.decisions_file) == {}


def test_the_socket_is_on_the_loopback_address_only() -> None:
    with listen() as one:
        assert one.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InvalidInput, match="in use"):
            listen(one.getsockname()[1])
    for port in (80_000, -1):
        with pytest.raises(InvalidInput, match=f"port {port} is in use or not allowed"):
            listen(port)


# ------------------------------------------------------------ what pages hold


def test_suspects_come_in_the_order_of_the_list(client: TestClient, folder: RunFolder) -> None:
    expected = issues(folder)
    for limit in (7, 60):
        items = everything(client, limit)
        assert [item["id"] for item in items] == [row["id"] for row in expected]
        assert [SHAPES[item["given"]] for item in items] == [row["given"] for row in expected]
        assert [SHAPES[item["suggested"]] for item in items] == [row["suggested"] for row in expected]
        assert [item["rank"] for item in items] == list(range(1, len(expected) + 1))
        wanted = [float(row["wrong_probability"]) for row in expected]
        assert [item["probability"] for item in items] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"given": 3},
        {"suggested": 5},
        {"given": 3, "suggested": 5},
        {"low": 0.5},
        {"high": 0.9},
        {"low": 0.3, "high": 0.995, "given": 1},
        {"state": "any"},
        {"state": "decided"},
        {"state": "keep"},
        {"state": "aside", "given": 2},
        {"scope": "all", "state": "any"},
        {"scope": "all", "high": 0.2, "suggested": 4},
    ],
)
def test_filters_against_a_plain_loop(client: TestClient, folder: RunFolder, wanted: dict[str, Any]) -> None:
    columns = folder.instances()
    items = everything(client, state="any", scope="all")
    actions = itertools.cycle(("accept", "keep", "aside"))
    changes = [{"index": item["index"], "action": next(actions), "version": 0} for item in items[::3]]
    assert decide(client, *changes).status_code == 200
    decided = read_decisions(folder.decisions_file)

    def matches(i: int) -> bool:
        if not (columns["flagged"][i] or wanted.get("scope") == "all"):
            return False
        state = wanted.get("state", "undecided")
        now = decided[i].action if i in decided else None
        return (
            wanted.get("given", columns["given"][i]) == columns["given"][i]
            and wanted.get("suggested", columns["suggested"][i]) == columns["suggested"][i]
            and wanted.get("low", 0) <= columns["wrong_probability"][i] <= wanted.get("high", 1)
            and (
                state == "any"
                or now == state
                or ((state == "undecided") == (now is None) and state in ("undecided", "decided"))
            )
        )

    key = {i: (-columns["wrong_probability"][i], columns["label_quality"][i]) for i in range(len(columns["given"]))}
    expected = sorted((i for i in key if matches(i)), key=key.__getitem__)
    assert [item["index"] for item in everything(client, 11, **wanted)] == expected


def test_ranks_stay_when_others_are_decided(client: TestClient) -> None:
    """Going on after a rank skips nothing and repeats nothing, though the undecided become fewer."""
    first = client.get("/api/instances", params={"limit": 10}).json()["items"]
    for item in first[:7]:
        decide(client, {"index": item["index"], "action": "keep", "version": 0})
    second = client.get("/api/instances", params={"limit": 10, "after": first[-1]["rank"]}).json()["items"]
    assert [item["rank"] for item in first + second] == list(range(1, 21))


def test_when_an_instance_returned_is_told(folder: RunFolder, decisions: Decisions) -> None:
    columns = folder.instances()
    back = np.where(np.arange(len(columns["given"])) % 3 == 0, 7, 0)
    folder.write_instances({**columns, "returned_at": back})
    items = Suspects(folder, decisions).page(Filter(), limit=30)["items"]
    assert [item["returned_at"] for item in items] == [back[item["index"]] for item in items]
    assert {item["returned_at"] for item in items} == {0, 7}


def test_of_a_canary_only_its_own_label_is_shown(client: TestClient, folder: RunFolder) -> None:
    columns = folder.instances()
    (listed,) = np.flatnonzero(columns["canary"] & columns["flagged"]).tolist()
    item = next(item for item in everything(client) if item["index"] == listed)
    assert (item["given"], item["quality"], item["removed_at"]) == (columns["given"][listed], None, 0)
    assert item["returned_at"] == 0
    assert client.get(f"/api/instances/{listed}").json()["margins"] == []


@pytest.mark.parametrize(
    "wrong", [{"scope": "some"}, {"state": "maybe"}, {"limit": 0}, {"limit": 10**6}, {"after": -1}, {"low": 2}]
)
def test_filters_that_cannot_be_meant(client: TestClient, wrong: dict[str, Any]) -> None:
    assert client.get("/api/instances", params=wrong).status_code in (400, 422)


def test_an_instance_with_its_margins_and_history(client: TestClient, folder: RunFolder, planted: Planted) -> None:
    ledger = dict(folder.ledger())
    canary = folder.instances()["canary"]
    for scope in ("listed", "all"):
        item = [item for item in everything(client, scope=scope) if not canary[item["index"]]][-1]
        said = client.get(f"/api/instances/{item['index']}").json()
        expected = [float(ledger[epoch]["margin"][item["index"]]) for epoch in range(1, EPOCHS + 1)]
        assert said["margins"] == pytest.approx(expected, abs=0.006)
        assert said["history"] == [] and said["fields"] == {}
    decide(client, {"index": item["index"], "action": "keep", "version": 0})
    history = client.get(f"/api/instances/{item['index']}").json()["history"]
    assert [(entry["action"], entry["version"]) for entry in history] == [("keep", 1)]
    picture = client.get(f"/api/pictures/{item['index']}")
    assert picture.headers["content-type"] == "image/png"
    assert picture.content == (planted.folder / planted.ids[item["index"]]).read_bytes()


def test_rows_of_a_table(folder: RunFolder, decisions: Decisions) -> None:
    client = ask(create_app(folder, decisions, Rows(), TOKEN))  # type: ignore[arg-type]
    assert client.get("/api/pictures/3").status_code == 204
    assert client.get("/api/instances/3").json()["fields"]["colour"] == "<b>red</b>"


def test_pairs_and_progress_against_the_list(client: TestClient, folder: RunFolder) -> None:
    listed = issues(folder)
    items = everything(client)
    for item in items[:20]:
        decide(client, {"index": item["index"], "action": "accept", "version": 0})
    run = client.get("/api/run").json()
    assert run["progress"]["listed"] == len(listed) and run["progress"]["decided"] == 20
    assert run["progress"]["actions"] == {"accept": 20, "keep": 0, "choose": 0, "aside": 0}
    for pair in client.get("/api/pairs").json():
        names = (SHAPES[pair["given"]], SHAPES[pair["suggested"]])
        assert pair["count"] == sum((row["given"], row["suggested"]) == names for row in listed)
        assert pair["left"] == sum((row["given"], row["suggested"]) == names for row in listed[20:])
    counts = [pair["count"] for pair in run["pairs"]]
    assert counts == sorted(counts, reverse=True) and sum(counts) == len(listed)


# ------------------------------------------------------------ deciding


def test_decisions_are_on_the_disk_when_the_answer_comes(client: TestClient, folder: RunFolder) -> None:
    one, two, three, four = everything(client)[:4]
    said = decide(client, {"index": one["index"], "action": "accept", "version": 0}).json()
    assert said["entries"][0]["label"] == one["suggested"] and said["progress"]["decided"] == 1
    other = next(c for c in range(10) if c not in (two["given"], two["suggested"]))
    decide(client, {"index": two["index"], "action": "choose", "label": other, "version": 0})
    both = [{"index": item["index"], "action": "aside", "version": 0} for item in (three, four)]
    assert len(decide(client, *both).json()["entries"]) == 2
    found = {index: (d.action, d.label) for index, d in read_decisions(folder.decisions_file).items()}
    assert found == {
        one["index"]: ("accept", one["suggested"]),
        two["index"]: ("choose", other),
        three["index"]: ("aside", None),
        four["index"]: ("aside", None),
    }
    undone = client.post("/api/undo", json={"who": "me"}).json()
    assert {entry["index"] for entry in undone["entries"]} == {three["index"], four["index"]}
    assert client.post("/api/undo", json={"who": "somebody else"}).json()["entries"] == []
    assert set(read_decisions(folder.decisions_file)) == {one["index"], two["index"]}


def test_a_tab_that_is_behind_is_told(client: TestClient, folder: RunFolder) -> None:
    item = everything(client)[0]
    change = {"index": item["index"], "action": "keep", "version": 0}
    assert decide(client, change, who="one").status_code == 200
    said = decide(client, {**change, "action": "aside"}, who="other")
    assert said.status_code == 409
    assert [(entry["action"], entry["version"], entry["who"]) for entry in said.json()["now"]] == [("keep", 1, "one")]
    assert read_decisions(folder.decisions_file)[item["index"]].action == "keep"
    assert decide(client, {**change, "action": "aside", "version": 1}, who="other").status_code == 200
    assert client.post("/api/undo", json={"who": "one"}).status_code == 409


def test_another_process_is_seen(client: TestClient, folder: RunFolder) -> None:
    item = everything(client)[0]
    with Decisions(folder.decisions_file) as elsewhere:
        elsewhere.decide([Change(item["index"], "aside")], "another process")
    changes = client.get("/api/changes", params={"since": 0}).json()
    assert [entry["action"] for entry in changes["entries"]] == ["aside"]
    assert item["index"] not in {one["index"] for one in everything(client)}
    (seen,) = everything(client, state="aside")
    assert (seen["index"], seen["version"], seen["action"]) == (item["index"], 1, "aside")


@pytest.mark.parametrize(
    "change",
    [
        {"index": 200, "action": "keep", "version": 0},
        {"index": 0, "action": "choose", "label": 10, "version": 0},
        {"index": 0, "action": "choose", "label": -1, "version": 0},
        {"index": 0, "action": "choose", "version": 0},
        {"index": 0, "action": "keep", "label": 1, "version": 0},
        {"index": 0, "action": "keep", "version": 3},
        {"index": 0, "action": "delete", "version": 0},
        {"index": "0", "action": "keep", "version": 0},
        {"index": 0.5, "action": "keep", "version": 0},
        {"index": 0, "action": "keep"},
        {"index": 0, "action": "keep", "version": 0, "at": "yesterday"},
    ],
)
def test_decisions_that_cannot_be_meant(client: TestClient, folder: RunFolder, change: dict[str, Any]) -> None:
    said = decide(client, change)
    assert said.status_code in (400, 422)
    assert read_decisions(folder.decisions_file) == {}


def test_an_instance_without_a_suggestion(tmp_path: Path, planted: Planted) -> None:
    folder = write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids)
    columns = folder.instances()
    columns["suggested"] = np.full(200, -1)
    folder.write_instances(columns)
    with Decisions(folder.decisions_file) as decisions:
        client = ask(create_app(folder, decisions, Rows(), TOKEN))  # type: ignore[arg-type]
        item = everything(client)[0]
        assert item["suggested"] is None and client.get("/api/pairs").json() == []
        assert decide(client, {"index": item["index"], "action": "accept", "version": 0}).status_code == 400


# ------------------------------------------------------------ the command


def test_a_run_on_a_known_dataset_has_nothing_to_review(folder: RunFolder, decisions: Decisions) -> None:
    columns = folder.instances()
    del columns["id"]
    folder.write_instances(columns)
    with pytest.raises(FolderError, match="not a run on your own data"):
        create_app(folder, decisions, Rows(), TOKEN)  # type: ignore[arg-type]


def test_the_removed_of_a_plain_run_can_be_reviewed(folder: RunFolder, decisions: Decisions) -> None:
    (folder.path / "clean.json").unlink()
    columns = folder.instances()
    for name in ("flagged", "canary", "wrong_probability"):
        del columns[name]
    folder.write_instances(columns)
    client = ask(create_app(folder, decisions, Rows(), TOKEN))  # type: ignore[arg-type]
    removed = np.flatnonzero(columns["removed_at"] > 0)
    expected = removed[np.argsort(columns["quality"][removed], kind="stable")].tolist()
    items = everything(client, low=0.5)  # there is no probability to filter by
    assert [item["index"] for item in items] == expected and len(expected) > 10
    assert {item["probability"] for item in items} == {None}
    assert client.get("/api/run").json()["estimated"] is False


NO_RUN = ("nowhere", "a file", "an empty folder")


@pytest.mark.parametrize(
    ("verb", "what"), [*(("report", what) for what in NO_RUN), *(("review", what) for what in (*NO_RUN, "digits"))]
)
def test_mistakes_with_the_command(
    verb: str, what: str, tmp_path: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    from marvel.cli import main

    path = tmp_path / what
    if what == "a file":
        path.write_text("")
    elif what == "an empty folder":
        path.mkdir()
    elif what == "digits":  # a run, but not on one's own data
        folder.path.rename(path)
        (path / "clean.json").unlink()
    with pytest.raises(SystemExit) as done:
        main([verb, str(path)])
    said = capsys.readouterr()
    assert done.value.code == 2 and said.out == "" and said.err.count("\n") == 1
    assert re.search("holds no finished run|is known by its name|Not a directory|there is no run", said.err), said.err


@pytest.fixture
def served(folder: RunFolder, planted: Planted) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`marvel review` in a process of its own, and its address."""
    found = folder.found
    assert found is not None
    folder.found = {**found, "origin": {"kind": "folder", "path": str(planted.folder)}}
    words = [sys.executable, "-m", "marvel", "review", str(folder.path), "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{40,})", line)
        assert address, line
        yield process, address[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def test_the_command_serves_until_ctrl_c(served: tuple[subprocess.Popen[str], str], folder: RunFolder) -> None:
    import httpx2 as httpx

    process, address = served
    base, token = address.split("/#token=")
    headers = {"x-marvel-token": token}
    assert httpx.get(base + "/").text.startswith("<!doctype html>")
    item = httpx.get(base + "/api/instances", headers=headers).json()["items"][0]
    picture = httpx.get(f"{base}/api/pictures/{item['index']}", headers=headers)
    assert picture.content.startswith(b"\x89PNG") and "server" not in picture.headers
    body = {"who": "me", "changes": [{"index": item["index"], "action": "keep", "version": 0}]}
    assert httpx.post(base + "/api/decide", json=body, headers=headers).status_code == 200
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    rest = process.stdout.read()
    assert process.wait(10) == 0
    assert "1 of " in rest and f"marvel export {folder.path} --out" in rest and "Traceback" not in rest


def test_where_nothing_is_listed_the_export_is_next(
    folder: RunFolder, planted: Planted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said to look at 0 of 0 suspects, over and over."""
    from marvel.cli import main

    found, columns = folder.found, folder.instances()
    assert found is not None
    folder.found = {**found, "origin": {"kind": "folder", "path": str(planted.folder)}}
    folder.write_instances({**columns, "flagged": np.zeros(len(columns["index"]), dtype=bool)})
    monkeypatch.setattr("marvel.review.server.serve", lambda app, listener, started: (started(), listener.close()))
    with pytest.raises(SystemExit) as done:
        main(["review", str(folder.path), "--no-open"])
    said = capsys.readouterr().out
    assert not done.value.code and said.count("No suspects are listed: nothing is left to decide.") == 2
    assert said.endswith(f"Next: marvel export {folder.path} --out FOLDER\n") and "0 of 0" not in said


def test_nothing_is_lost_when_the_server_is_killed(
    served: tuple[subprocess.Popen[str], str], folder: RunFolder
) -> None:
    import httpx2 as httpx

    process, address = served
    base, token = address.split("/#token=")
    headers = {"x-marvel-token": token}
    items = httpx.get(base + "/api/instances", params={"limit": 30}, headers=headers).json()["items"]
    for item in items:
        body = {"who": "me", "changes": [{"index": item["index"], "action": "keep", "version": 0}]}
        assert httpx.post(base + "/api/decide", json=body, headers=headers).status_code == 200
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert set(read_decisions(folder.decisions_file)) == {item["index"] for item in items}


# ------------------------------------------------------------ many instances


@pytest.mark.slow
def test_a_million_instances(tmp_path: Path) -> None:
    n, k = 1_000_000, 100
    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    given = np.where(rng.random(n) < 0.1, rng.integers(0, k, n), truth)
    folder = write_cleaned(tmp_path / "run", given, truth, [f"{i}.png" for i in range(n)], [f"c{c}" for c in range(k)])
    with Decisions(folder.decisions_file) as decisions:
        client = ask(create_app(folder, decisions, Rows(), TOKEN))  # type: ignore[arg-type]
        began = time.monotonic()
        for wanted in (
            {},
            {"scope": "all", "state": "any", "after": 900_000},
            {"scope": "all", "given": 7, "low": 0.1},
        ):
            page = client.get("/api/instances", params=wanted)  # type: ignore[arg-type]
            assert len(page.json()["items"]) == 60
        seconds = (time.monotonic() - began) / 3
        assert seconds < 1
        note("A run of a million instances is shown", slowest_seconds_of_a_page_of_the_review=seconds)
        began = time.monotonic()
        for item in page.json()["items"][:20]:
            assert decide(client, {"index": item["index"], "action": "keep", "version": 0}).status_code == 200
        assert (time.monotonic() - began) / 20 < 0.5
