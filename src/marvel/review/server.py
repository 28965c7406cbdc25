"""The server of the review page: for one person on their own machine, and for nobody else there.

It listens on the loopback address only. Everything but the bare page needs a token that is made anew each time and
stands in the fragment of the address, which no browser sends; the page sends it in a header of its own, which no other
site can. Requests under another host name (DNS rebinding) or from another origin are refused.
"""

import hmac
import secrets
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from marvel.errors import InvalidInput
from marvel.review.decisions import Change, Decisions, Entry, Stale
from marvel.review.suspects import Filter, Suspects
from marvel.runs import RunFolder

if TYPE_CHECKING:
    from marvel.data.shown import Instances

HOSTS = ("127.0.0.1", "localhost", "::1")
TOKEN = "x-marvel-token"
LARGEST_BODY = 1 << 20
MOST_AT_ONCE = 10_000
"""Decisions in one request: as many as a person can have selected in the grid."""
LONGEST_NAME = 64
LARGEST = 2**53
"""Of numbers in a request: what JavaScript counts to, and what a database can hold."""

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class OneChange(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    index: int = Field(ge=0, le=LARGEST)
    action: str
    label: int | None = None
    version: int = Field(ge=0, le=LARGEST)


class Decided(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    who: str = Field(min_length=1, max_length=LONGEST_NAME)
    changes: list[OneChange] = Field(min_length=1, max_length=MOST_AT_ONCE)


class Undone(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    who: str = Field(min_length=1, max_length=LONGEST_NAME)


def create_app(folder: RunFolder, decisions: Decisions, instances: "Instances", token: str) -> FastAPI:
    """The page of a run and what it asks for."""
    suspects = Suspects(folder, decisions)
    name = (folder.config or {}).get("data", {}).get("name", folder.path.name)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.suspects = suspects

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refused = refusal(request, token)
        response = await call_next(request) if refused is None else _said(*refused)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(InvalidInput)
    async def invalid(request: Request, error: InvalidInput) -> Response:
        return _said(400, str(error))

    @app.exception_handler(Stale)
    async def stale(request: Request, error: Stale) -> Response:
        """What is there now, so that the page can show it."""
        suspects.refresh()
        said = {"now": [_entry(entry) for entry in error.now], "progress": suspects.progress()}
        return JSONResponse(said, 409)

    @app.exception_handler(sqlite3.Error)
    async def unwritten(request: Request, error: sqlite3.Error) -> Response:
        return _said(507, f"this could not be written, and is not decided: {error}")

    for path, (content, kind) in page_files().items():
        app.add_api_route(path, _file(content, kind), methods=["GET"])

    @app.get("/api/run")
    def run() -> dict[str, Any]:
        suspects.refresh()
        return {
            "name": name,
            "run": str(folder.path),
            "classes": suspects.classes,
            "all": len(suspects.orders["all"]),
            "estimated": suspects.estimated,
            "warmup": (folder.record or {}).get("chosen", {}).get("warmup"),
            "pairs": suspects.pairs(),
            "progress": suspects.progress(),
        }

    @app.get("/api/instances")
    def page(
        scope: str = "listed",
        state: str = "undecided",
        given: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
        suggested: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
        low: Annotated[float, Query(ge=0, le=1)] = 0.0,
        high: Annotated[float, Query(ge=0, le=1)] = 1.0,
        after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> dict[str, Any]:
        suspects.refresh()
        wanted = Filter(scope, state, given, suggested, low, high)
        return {**suspects.page(wanted, after, limit), "progress": suspects.progress()}

    @app.get("/api/instances/{index}")
    def instance(index: int) -> dict[str, Any]:
        suspects.check(index)
        return {
            "index": index,
            "fields": instances.fields(index),
            "margins": suspects.margins_of(index),
            "history": [_entry(entry) for entry in decisions.history(index)],
        }

    @app.get("/api/pictures/{index}")
    def picture(index: int, largest: Annotated[int, Query(ge=16, le=2048)] = 1024) -> Response:
        suspects.check(index)
        content = instances.picture(index, largest)
        if content is None:
            return Response(status_code=204)
        kind = "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
        return Response(content, media_type=kind)

    @app.get("/api/changes")
    def changes(since: Annotated[int, Query(ge=0, le=LARGEST)]) -> dict[str, Any]:
        suspects.refresh()
        return {"entries": [_entry(entry) for entry in decisions.since(since)], "progress": suspects.progress()}

    @app.get("/api/pairs")
    def pairs() -> list[dict[str, Any]]:
        suspects.refresh()
        return suspects.pairs()

    @app.post("/api/decide")
    def decide(decided: Decided) -> dict[str, Any]:
        wanted = [Change(one.index, one.action, one.label, one.version) for one in decided.changes]
        entries = suspects.decide(wanted, decided.who)
        return {"entries": [_entry(entry) for entry in entries], "progress": suspects.progress()}

    @app.post("/api/undo")
    def undo(undone: Undone) -> dict[str, Any]:
        entries = suspects.undo(undone.who)
        return {"entries": [_entry(entry) for entry in entries], "progress": suspects.progress()}

    return app


def refusal(request: Request, token: str) -> tuple[int, str] | None:
    """Why a request is not answered, and with which status; None where it is."""
    headers = request.headers
    host = headers.get("host", "")
    if _hostname(host) not in HOSTS:
        return 421, "this page is served on the loopback address only"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return 403, "requests from other sites are refused"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return 403, "requests from other sites are refused"
    if not request.url.path.startswith("/api/"):
        return None
    if not hmac.compare_digest(headers.get(TOKEN, "").encode(), token.encode()):
        return 401, "the token is missing or wrong: open the address that `marvel review` printed"
    length = headers.get("content-length", "")
    if request.method == "POST" and (not length.isdigit() or int(length) > LARGEST_BODY):
        return 413, "the request is too large"
    if request.method == "POST" and headers.get("content-type") != "application/json":
        return 415, "decisions are sent as JSON"
    return None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by the path they are asked for under, with their kinds."""
    files = [*resources.files("marvel.review").joinpath("page").iterdir()]
    files.append(resources.files("marvel.report").joinpath("templates", "colours.css"))
    found = {}
    for file in files:
        kind = KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = (file.read_bytes(), f"{kind}; charset=utf-8")
    return found


def _file(content: bytes, kind: str) -> Callable[[], Response]:
    def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


def _said(status: int, words: str) -> Response:
    return JSONResponse({"error": words}, status)


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "index": entry.index,
        "version": entry.version,
        "action": entry.action,
        "label": entry.label,
        "at": entry.at,
        "who": entry.who,
        "undoes": entry.undoes,
    }


# ------------------------------------------------------------ serving


def new_token() -> str:
    return secrets.token_urlsafe(32)


def listen(port: int = 0) -> socket.socket:
    """A socket on the loopback address; port 0 is any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()  # from here on a browser is not refused, it waits
    except (OSError, OverflowError):  # the second where there is no such port
        listener.close()
        raise InvalidInput(f"port {port} is in use or not allowed: leave out --port for a free one") from None
    return listener


def address(listener: socket.socket, token: str) -> str:
    """Where to point the browser. The fragment stays in the browser: it is in no log and no referrer."""
    return f"http://127.0.0.1:{listener.getsockname()[1]}/#token={token}"


def serve(app: FastAPI, listener: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Answer until Ctrl-C; `started` is called once the page can be opened."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                started()

    # Connections are kept longer than the usual five seconds: one that is closed just as a browser uses it again is a
    # request that nobody answers, and with a thousand at once they wait that long.
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    try:
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
