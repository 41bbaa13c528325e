"""What the page can ask for. Files come from a dictionary made at start: no path of a request reaches the disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from naq.errors import NaqError, with_flags
from naq.graph import Graph
from naq_studio import exports
from naq_studio.card import card, nodes_with_word, search
from naq_studio.requests import accept_check, box_of, check_names, draw_check, entries_of, import_entries, shown_cells
from naq_studio.security import Guard, Keys
from naq_studio.session import Session

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "txt": "text/plain"}
TABLES = {"predictions.csv": exports.predictions_csv, "labels.csv": exports.labels_csv}
EXPORTS = TABLES | {"report.html": exports.report, "repeat.py": exports.code}
MOST_EDGES = 30_000
REGIONS, NODES, WORDS = 40, 50, 2
"""Regions at most, their nodes on average at least, and the words that name one."""
SAMPLE = 20_000
"""Nodes by whose places regions are found."""
FEWEST = 5
"""Nodes of a region that is named."""
LONGEST = 200
"""Characters of a node's text that are shown where it is pointed at."""
HEARTBEAT = 0.5
"""Seconds after which an idle stream of events says something, so that tabs that are gone are noticed."""


class Json(JSONResponse):
    def render(self, content: Any) -> bytes:
        # ASCII: a name may hold half a character
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def static_files() -> dict[str, tuple[bytes, str]]:
    """The front end by name: content and type."""
    folder = files("naq_studio").joinpath("static")
    return {
        one.name: (one.read_bytes(), TYPES[ending])
        for one in folder.iterdir()
        if one.is_file() and (ending := one.name.rsplit(".", 1)[-1]) in TYPES
    }


def application(session: Session, keys: Keys, port: int) -> Guard:
    """The whole server, guarded."""
    static = static_files()

    def get(work: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that answers what ``work`` returns as JSON."""

        async def answer(request: Request) -> Response:
            return Json(await run_in_threadpool(work, request))

        return answer

    def post(work: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Awaitable[Response]]:
        """The same for the JSON object of the request."""

        async def answer(request: Request) -> Response:
            try:
                asked = json.loads(await request.body())
            except (ValueError, RecursionError, ClientDisconnect) as error:
                raise HTTPException(400, "expected JSON.") from error
            if not isinstance(asked, dict):
                raise HTTPException(400, "expected a JSON object.")
            return Json(await run_in_threadpool(work, asked))

        return answer

    async def page(request: Request) -> Response:
        found = static.get(request.path_params.get("name", "index.html"))
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1])

    async def arrays(_: Request) -> Response:
        version, content = await run_in_threadpool(session.arrays)
        return Response(content, media_type="application/octet-stream", headers={"x-version": str(version)})

    def places(request: Request) -> np.ndarray:
        found = session.model.layouts.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return found

    async def layout(request: Request) -> Response:
        return Response(places(request).astype("<f4").tobytes(), media_type="application/octet-stream")

    async def edges(request: Request) -> Response:
        box = box_of(request.query_params.get("box", ""))
        total, ends = await run_in_threadpool(edges_in_view, session.graph, places(request), box)
        return Response(
            ends.astype("<u4").tobytes(), media_type="application/octet-stream", headers={"x-total": str(total)}
        )

    def regions(request: Request) -> list[tuple[float, float, int, str]]:
        found, name = places(request), request.path_params["name"]
        return session.graph.kept(f"studio/regions/{name}", lambda: name_regions(session.graph, found))

    async def values(request: Request) -> Response:
        found = await run_in_threadpool(session.columns.read, column(request))
        return Response(found.values.astype("<f8").tobytes(), media_type="application/octet-stream")

    async def image(request: Request) -> Response:
        if session.images is None:
            raise HTTPException(404)
        content, kind = await run_in_threadpool(session.images.read, below(request, session.graph.num_nodes))
        return Response(content, media_type=kind)

    async def export(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in EXPORTS:
            raise HTTPException(404)
        content = await run_in_threadpool(EXPORTS[name], session)
        kind = {"csv": "text/csv", "html": "text/html", "py": "text/x-python"}[name.rsplit(".", 1)[-1]]
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content.encode("utf-8", "replace"), media_type=kind, headers=headers)

    async def events(request: Request) -> Response:
        queue = session.listen(asyncio.get_running_loop())
        if queue is None:
            raise HTTPException(503, "too many pages are open; close some.")
        return StreamingResponse(_stream(request, session, queue), media_type="text/event-stream")

    def act(asked: dict[str, Any]) -> dict[str, Any]:
        check_names(session, asked)
        with session.lock:
            return session.write(entries_of(session, asked))

    def check(asked: dict[str, Any]) -> dict[str, Any]:
        with session.lock:
            if "right" not in asked:
                return draw_check(session, asked)
            entries, outcome = accept_check(session, asked)
            return session.write(entries) | {"said": outcome}

    def take(asked: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(text := asked.get("text"), str):
            raise HTTPException(400, "expected a table of labels.")
        entries, problems = import_entries(session.graph, text)
        return session.write(entries) | {"problems": problems}

    def column(request: Request) -> int:
        return below(request, len(session.columns.titles))

    def below(request: Request, count: int) -> int:
        """The number in the path, which has to be below a count."""
        if request.path_params["number"] >= count:
            raise HTTPException(404)
        return int(request.path_params["number"])

    routes = [
        Route("/", page),
        Route("/static/{name}", page),
        Route("/api/state", get(lambda _: session.state())),
        Route("/api/names", get(lambda _: session.names())),
        Route("/api/arrays", arrays),
        Route("/api/layout/{name}", layout),
        Route("/api/node/{number:int}", get(lambda r: card(session, below(r, session.graph.num_nodes)))),
        Route("/api/image/{number:int}", image),
        Route(
            "/api/text/{number:int}", get(lambda r: session.graph.text_of(below(r, session.graph.num_nodes))[:LONGEST])
        ),
        Route("/api/edges/{name}", edges),
        Route("/api/regions/{name}", get(regions)),
        Route("/api/columns", get(lambda _: {"titles": session.columns.titles, "shown": session.columns.shown})),
        Route("/api/column/{number:int}", get(lambda r: session.columns.read(column(r)).facts())),
        Route("/api/values/{number:int}", values),
        Route(
            "/api/holding/{number:int}", get(lambda r: session.columns.holding(column(r), r.query_params.get("q", "")))
        ),
        Route("/api/cells", post(lambda asked: shown_cells(session, asked)), methods=["POST"]),
        Route("/api/search", get(lambda r: search(session, r.query_params.get("q", "")))),
        Route(
            "/api/word/{number:int}",
            get(lambda r: nodes_with_word(session.graph, below(r, session.graph.num_features))),
        ),
        Route("/api/act", post(act), methods=["POST"]),
        Route("/api/check", post(check), methods=["POST"]),
        Route("/api/import", post(take), methods=["POST"]),
        Route("/api/invite", post(lambda _: {"address": keys.invite()}), methods=["POST"]),
        Route("/api/export/{name}", export),
        Route("/api/events", events),
    ]
    handlers: dict[Any, Any] = {NaqError: _mistake, HTTPException: _http}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, keys, port)


def edges_in_view(
    graph: Graph, places: np.ndarray, box: tuple[float, float, float, float], most: int = MOST_EDGES
) -> tuple[int, np.ndarray]:
    """How many edges have an end in the box (x0, y0, x1, y1), and their ends (edges, 2) uint32.

    At most so many; which of them depends on nothing but their ends, so that they stay while the map moves.
    """
    x, y = places.T
    seen = (x >= box[0]) & (y >= box[1]) & (x <= box[2]) & (y <= box[3])
    rows = np.flatnonzero(seen)
    part = graph.adjacency if len(rows) == len(seen) else graph.adjacency[rows]
    one = np.repeat(rows, np.diff(part.indptr)).astype(np.uint32)
    two = part.indices.astype(np.uint32)
    once = (one < two) | ~seen[two]
    one, two = one[once], two[once]
    total = len(one)
    if total > most:
        low, high = np.minimum(one, two).astype(np.uint64), np.maximum(one, two).astype(np.uint64)
        mixed = (low * np.uint64(graph.num_nodes) + high) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing
        kept = np.argpartition(mixed ^ (mixed >> np.uint64(32)), most)[:most]
        one, two = one[kept], two[kept]
    return total, np.stack([one, two], axis=1)


def name_regions(graph: Graph, places: np.ndarray) -> list[tuple[float, float, int, str]]:
    """Parts of a map, the largest first: middle, nodes, and the words that its nodes have more often than others."""
    from naq.classifier.table import LARGEST_PROFILE, class_profiles, weighted_words
    from naq.classifier.views import thin_out

    if graph.vocab is None or not graph.sparse_features or REGIONS * graph.num_features > LARGEST_PROFILE:
        return []
    columns, words = weighted_words(graph)
    own = np.concatenate([np.arange(0), *(np.arange(b.start, b.stop) for b in graph.blocks if b.kind == "words")])
    columns, words = np.intersect1d(columns, own), sp.csr_array(words[:, np.isin(columns, own)])
    some = np.unique(thin_out(places, SAMPLE), axis=0)
    count = min(REGIONS, len(some), max(1, len(places) // NODES))
    if not len(columns):
        return []
    from sklearn.cluster import KMeans

    model = KMeans(count, n_init=1, max_iter=50, random_state=0).fit(some)
    home = model.predict(places)
    profile, sizes = class_profiles(words, home, count), np.bincount(home, minlength=count)
    found = []
    for region in np.argsort(-sizes, kind="stable").tolist():
        best = np.argsort(-profile[region], kind="stable")[:WORDS]
        name = ", ".join(str(graph.vocab[columns[one]])[:30] for one in best if profile[region, one] > 0)
        if name and sizes[region] >= FEWEST:
            x, y = np.median(places[home == region], axis=0)
            found.append((float(x), float(y), int(sizes[region]), name))
    return found


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


async def _mistake(_: Request, error: Exception) -> Response:
    return Json({"error": with_flags(error)}, 409)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json({"error": error.detail}, error.status_code)
