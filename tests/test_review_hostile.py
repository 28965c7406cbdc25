"""The review server against whoever else can reach it, and under load: nothing but an answer or a refusal, ever."""

import concurrent.futures
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from cleaned import Pictures, write_cleaned
from marvel.review.decisions import Decisions
from marvel.review.server import create_app, listen, serve
from marvel.runs import RunFolder
from shapes import Planted, plant
from soaking import NOTES, note, times
from test_review import HOST, TOKEN, ask

pytestmark = pytest.mark.timeout(300 if NOTES is None else 7200)
PROMISE = "The review server answers or refuses whatever it is sent"
LOAD = "The review server under load loses nothing"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("data") / "shapes", 200, 0.4, size=16)


@pytest.fixture
def folder(tmp_path: Path, planted: Planted) -> RunFolder:
    return write_cleaned(tmp_path / "run", planted.given, planted.truth, planted.ids)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, planted: Planted) -> Iterator[int]:
    """Of a server that is only read from: beginning and ending one takes half a second."""
    run = tmp_path_factory.mktemp("served") / "run"
    with serving(write_cleaned(run, planted.given, planted.truth, planted.ids), planted) as port:
        yield port


@pytest.mark.slow
def test_requests_made_up_from_its_own_schema(folder: RunFolder, planted: Planted) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    tried: list[int] = []
    with Decisions(folder.decisions_file) as decisions:
        app = create_app(folder, decisions, Pictures(planted), TOKEN)  # type: ignore[arg-type]
        client = ask(app)
        schema = schemathesis.openapi.from_dict(app.openapi())
        operations = [found.ok() for found in schema.get_all_operations()]
        api = [one for one in operations if one.path.startswith("/api/")]
        assert {one.path for one in api} >= {"/api/decide", "/api/undo", "/api/instances", "/api/pictures/{index}"}
        for operation in api:
            for mode in schemathesis.GenerationMode:

                @settings(max_examples=times(4, 150), suppress_health_check=list(HealthCheck), deadline=None)
                @given(case=operation.as_strategy(generation_mode=mode))
                def attempt(case: Any) -> None:
                    told = case.as_transport_kwargs(base_url=f"http://{HOST}")
                    kept = {key: told[key] for key in ("method", "url", "params", "json", "content") if key in told}
                    if "data" in told:
                        kept["content"] = told["data"] if isinstance(told["data"], (bytes, str)) else b""
                    answer = client.request(**kept)
                    assert answer.status_code < 500, (kept, answer.text)
                    assert answer.headers["x-content-type-options"] == "nosniff"
                    tried.append(answer.status_code)

                with suppress(Unsatisfiable):  # nothing wrong can be said where nothing can be said
                    attempt()
        assert {200, 422} <= set(tried)
    note(PROMISE, requests_made_up_from_the_schema=len(tried))


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 10**40])
def test_numbers_beyond_all_counting_are_refused(number: int, folder: RunFolder, planted: Planted) -> None:
    with Decisions(folder.decisions_file) as decisions:
        client = ask(create_app(folder, decisions, Pictures(planted), TOKEN))  # type: ignore[arg-type]
        for path in ("changes?since=", "instances?after=", "instances?given=", "instances/", "pictures/"):
            assert client.get(f"/api/{path}{number}").status_code in (400, 422), path
        change = {"index": 1, "action": "keep", "version": number}
        assert client.post("/api/decide", json={"who": "me", "changes": [change]}).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/\\..\\..\\x"),
        *("/api/pictures/..%2f..%2fetc%2fpasswd", "/api/pictures/%2fetc%2fpasswd", "/api/pictures/1#/../../x"),
        *("/api/pictures/-1", "/api/pictures/1e9", "/api/pictures/99999999999999999999", "/api/pictures/1%00.png"),
        *("/api/instances/0x10", "/api/instances/١٢", "/api/instances/ 1", "/index.html/../../server.py"),
    ],
)
def test_nothing_is_served_by_its_path(path: str, port: int) -> None:
    """Over a real socket, since clients tidy up paths before they send them."""
    answer = raw(port, f"GET {path} HTTP/1.1")
    status = int(answer.split(b" ", 2)[1])
    assert status in (400, 404, 422) or (status == 200 and b"image/png" in answer and "pictures/1#" in path), answer[
        :300
    ]
    assert b"root:" not in answer and b"import " not in answer


def test_a_picture_that_became_a_link_to_elsewhere_is_shown_as_a_picture_or_not_at_all(tmp_path: Path) -> None:
    """A link put in an image's place after the run: what is no image is not shown, whoever's it is."""
    from marvel.data import load
    from marvel.data.shown import open_instances

    found = plant(tmp_path / "shapes", 60, 0.2, size=16)
    data = load(str(found.folder))
    assert data.origin is not None and data.ids is not None
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0")
    target = found.folder / data.ids[3]
    target.unlink()
    target.symlink_to(secret)
    assert open_instances(data.origin, data.origin.rows, data.ids).picture(3, 256) is None


def raw(port: int, first: str, *headers: str, body: bytes = b"") -> bytes:
    import socket

    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        lines = [first, f"host: 127.0.0.1:{port}", f"x-marvel-token: {TOKEN}", "connection: close", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode() + body)
        answer = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                answer += part
        return answer


@contextmanager
def serving(folder: RunFolder, planted: Planted) -> Iterator[int]:
    """The server as the command runs it, in a thread of this process."""
    import uvicorn

    ready, servers = threading.Event(), []
    begin = uvicorn.Server.startup

    async def startup(self: Any, sockets: Any = None) -> None:
        servers.append(self)
        await begin(self, sockets)

    with Decisions(folder.decisions_file) as decisions:
        app = create_app(folder, decisions, Pictures(planted), TOKEN)  # type: ignore[arg-type]
        listener = listen()
        port = int(listener.getsockname()[1])
        thread = threading.Thread(target=serve, args=(app, listener, ready.set), daemon=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uvicorn.Server, "startup", startup)
            thread.start()
            assert ready.wait(30)
        try:
            yield port
        finally:
            servers[0].should_exit = True
            thread.join(30)


def test_a_body_larger_than_allowed_is_not_read(folder: RunFolder, planted: Planted) -> None:
    with serving(folder, planted) as port:
        kind = "content-type: application/json"
        assert b" 413 " in raw(port, "POST /api/decide HTTP/1.1", kind, f"content-length: {1 << 40}")[:20]
        assert (
            b" 413 "
            in raw(port, "POST /api/decide HTTP/1.1", kind, "transfer-encoding: chunked", body=b"5\r\nhello\r\n")[:20]
        )
        assert b" 4" in raw(port, "POST /api/decide HTTP/1.1", kind, "content-length: 6", body=b"[[[[[[")[:14]
        long = "x" * 200_000
        assert b" 4" in (raw(port, "GET /api/run HTTP/1.1", f"x-long: {long}") or b"HTTP/1.1 431 ")[:14]
        assert b" 200 " in raw(port, "GET /api/run HTTP/1.1")[:20]


@pytest.mark.slow
def test_a_thousand_requests_at_once_and_two_reviewers(folder: RunFolder, planted: Planted) -> None:
    """Everybody is answered, and what two people decide at once is there once, in an order that both agree on."""
    import httpx2 as httpx

    requests, people = times(60, 1000), ("ann", "bob")
    with serving(folder, planted) as port:
        limits = httpx.Limits(max_connections=requests)
        client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"x-marvel-token": TOKEN}, limits=limits, timeout=120
        )
        items = client.get("/api/instances", params={"limit": 60}).json()["items"]
        slowest: list[float] = []

        def look(k: int) -> int:
            began = time.monotonic()
            path = ("/api/run", "/api/instances", f"/api/pictures/{k % 200}", f"/api/instances/{k % 200}")[k % 4]
            status = client.get(path).status_code
            slowest.append(time.monotonic() - began)
            return int(status)

        won: dict[str, list[int]] = {person: [] for person in people}

        def judge(person: str) -> None:
            for item in items:
                body = {"who": person, "changes": [{"index": item["index"], "action": "keep", "version": 0}]}
                status = client.post("/api/decide", json=body).status_code
                assert status in (200, 409)
                if status == 200:
                    won[person].append(item["index"])

        with concurrent.futures.ThreadPoolExecutor(requests + 2) as pool:
            judging = [pool.submit(judge, person) for person in people]
            statuses = list(pool.map(look, range(requests)))
            for one in judging:
                one.result()
        client.close()
    assert statuses == [200] * requests
    assert sorted(itertools.chain(*won.values())) == sorted(item["index"] for item in items), "each decided once"
    with Decisions(folder.decisions_file) as decisions:
        entries = decisions.since(0)
    assert {(entry.index, entry.who) for entry in entries} == {(i, who) for who in people for i in won[who]}
    assert [entry.version for entry in entries] == [1] * len(items)
    note(LOAD, requests_at_once=requests, decisions_of_two_reviewers=len(entries), slowest_seconds=max(slowest))
