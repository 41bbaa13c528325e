"""What the page can ask for. Files come from a dictionary made at start: no path from a request reaches the file system."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from naq.errors import NaqError
from naq_studio import exports
from naq_studio.card import card
from naq_studio.lines import import_rows
from naq_studio.requests import accepted, check_names, draw_check, rows_of
from naq_studio.search import nodes_with_word, search
from naq_studio.security import Guard, Keys
from naq_studio.session import Session

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
EXPORTS: dict[str, tuple[Callable[[Session], str], str]] = {
    "predictions.csv": (exports.predictions_csv, "text/csv; charset=utf-8"),
    "labels.csv": (exports.labels_csv, "text/csv; charset=utf-8"),
    "report.html": (exports.report, "text/html; charset=utf-8"),
    "repeat.py": (exports.code, "text/x-python; charset=utf-8"),
}
HEARTBEAT = 0.5
"""Seconds after which an idle stream of events says something, so that a tab that is gone and a server that ends are noticed."""


class Json(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json.dumps(
            content, allow_nan=False, separators=(",", ":")
        ).encode()  # ASCII: a name may hold half a character


def static_files() -> dict[str, tuple[bytes, str]]:
    """The front end by name: content and type."""
    folder = files("naq_studio").joinpath("static")
    return {
        one.name: (one.read_bytes(), TYPES["." + one.name.rsplit(".", 1)[-1]])
        for one in folder.iterdir()
        if one.is_file() and "." + one.name.rsplit(".", 1)[-1] in TYPES
    }


def application(session: Session, keys: Keys, port: int) -> Guard:
    """The whole server, guarded."""
    static = static_files()

    async def page(_: Request) -> Response:
        return Response(static["index.html"][0], media_type=static["index.html"][1])

    async def file(request: Request) -> Response:
        found = static.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1])

    async def state(_: Request) -> Response:
        return Json(await run_in_threadpool(session.state))

    async def names(_: Request) -> Response:
        return Json(await run_in_threadpool(session.names))

    async def arrays(_: Request) -> Response:
        version, content = await run_in_threadpool(session.arrays)
        return Response(content, media_type="application/octet-stream", headers={"x-version": str(version)})

    async def layout(request: Request) -> Response:
        places = session.model.layouts.get(request.path_params["name"])
        if places is None:
            raise HTTPException(404)
        return Response(places.astype("<f4").tobytes(), media_type="application/octet-stream")

    async def node(request: Request) -> Response:
        number = request.path_params["node"]
        if number >= session.graph.num_nodes:
            raise HTTPException(404)
        return Json(await run_in_threadpool(card, session, number))

    async def find(request: Request) -> Response:
        return Json(await run_in_threadpool(search, session, request.query_params.get("q", "")))

    async def word(request: Request) -> Response:
        number = request.path_params["word"]
        if number >= session.graph.num_features:
            raise HTTPException(404)
        return Json(await run_in_threadpool(nodes_with_word, session.graph, number))

    async def act(request: Request) -> Response:
        asked = await _body(request)

        def work() -> dict[str, Any]:
            if isinstance(asked, dict):
                check_names(session, asked)
            with session.lock:
                rows = rows_of(session, asked)
                session.write(rows)
                return {"version": session.version, "changed": len(rows)}

        return Json(await run_in_threadpool(work))

    async def check(request: Request) -> Response:
        asked = await _body(request)

        def work() -> dict[str, Any]:
            with session.lock:
                if not isinstance(asked, dict) or "right" not in asked:
                    return draw_check(session, asked if isinstance(asked, dict) else {})
                rows, said = accepted(session, asked)
                session.write(rows)
                return {"version": session.version, "changed": len(rows), "said": said}

        return Json(await run_in_threadpool(work))

    async def take(request: Request) -> Response:
        asked = await _body(request)
        text = asked.get("text") if isinstance(asked, dict) else None
        if not isinstance(text, str):
            raise HTTPException(400, "expected a table of labels.")

        def work() -> dict[str, Any]:
            rows, problems = import_rows(session.graph, text)
            session.write(rows)
            return {"version": session.version, "changed": len(rows), "problems": problems}

        return Json(await run_in_threadpool(work))

    async def invite(_: Request) -> Response:
        return Json({"address": keys.invite()})

    async def export(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in EXPORTS:
            raise HTTPException(404)
        make, kind = EXPORTS[name]
        content = await run_in_threadpool(make, session)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content.encode("utf-8", "replace"), media_type=kind, headers=headers)

    async def events(request: Request) -> Response:
        queue = session.listen(asyncio.get_running_loop())
        if queue is None:
            raise HTTPException(503, "too many pages are open; close some.")
        return StreamingResponse(_stream(request, session, queue), media_type="text/event-stream")

    routes = [
        Route("/", page),
        Route("/static/{name}", file),
        Route("/api/state", state),
        Route("/api/names", names),
        Route("/api/arrays", arrays),
        Route("/api/layout/{name}", layout),
        Route("/api/node/{node:int}", node),
        Route("/api/search", find),
        Route("/api/word/{word:int}", word),
        Route("/api/act", act, methods=["POST"]),
        Route("/api/check", check, methods=["POST"]),
        Route("/api/import", take, methods=["POST"]),
        Route("/api/invite", invite, methods=["POST"]),
        Route("/api/export/{name}", export),
        Route("/api/events", events),
    ]
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        NaqError: _mistake,
        HTTPException: _http,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    app.router.redirect_slashes = False
    return Guard(app, keys, port)


async def _stream(request: Request, session: Session, queue: asyncio.Queue[int]) -> AsyncIterator[bytes]:
    try:
        yield b"retry: 1000\ndata: 0\n\n"
        while not session.ending() and not await request.is_disconnected():
            try:
                version = await asyncio.wait_for(queue.get(), HEARTBEAT)
                yield f"data: {version}\n\n".encode()
            except TimeoutError:
                yield b": still here\n\n"
    finally:
        session.leave(queue)


async def _body(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError, ClientDisconnect) as error:
        raise HTTPException(400, "expected JSON.") from error


async def _mistake(_: Request, error: Exception) -> Response:
    return Json({"error": str(error)}, 409)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json({"error": error.detail}, error.status_code)
