"""``naq studio``: a server for one person on one computer."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naq.errors import DataError, MissingDependency, OptionError, plain
from naq.graph import Graph

if TYPE_CHECKING:
    import uvicorn

    from naq_studio.security import Keys
    from naq_studio.session import Session

PORT = 8735
TRIES = 20


def journal_path(graph: Graph, given: Path | None = None) -> Path:
    """Where the labels are kept: next to the graph's file, or in the current folder for a graph with only a name."""
    if given is not None:
        return given.expanduser().absolute()
    source = Path(graph.source) if graph.source else Path(graph.name)
    if source.is_absolute():
        return source.with_name(f"{source.name.split('.')[0] or source.name}.studio.csv")
    safe = "".join(one if one.isalnum() or one in "-_" else "-" for one in graph.name)[:60] or "graph"
    return Path.cwd() / f"{safe}.studio.csv"


def may_write(path: Path) -> bool:
    """Whether a file can be made or changed there."""
    if path.exists():
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return path.parent.is_dir() and os.access(path.parent, os.W_OK)


def bind_socket(port: int | None) -> tuple[socket.socket, bool]:
    """A socket on 127.0.0.1 at the port, or at the next that is free, and whether the wanted one was."""
    first = PORT if port is None else port
    if not 0 <= first <= 65_535:
        raise OptionError(f"port is {first}; expected a number from 0 to 65535.")
    for wanted in range(first, min(first + TRIES, 65_536)):
        # Named as TCP, asyncio sends answers at once; else they wait 40 ms for more.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", wanted))
            listener.listen(64)
        except OSError:
            listener.close()
            continue
        return listener, wanted == first
    raise DataError(f"ports {first} to {first + TRIES - 1} are all in use; give another with --port.")


def serve(
    graph: Graph,
    labels: Path | None = None,
    *,
    read_with: Mapping[str, Any] | None = None,
    images: str | None = None,
    port: int | None = None,
    browser: bool = True,
    check: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page of a graph until interrupted.

    Args:
        labels: the journal; None: :func:`journal_path`.
        read_with: what else the graph was read with, by argument of :func:`naq.load`.
        images: a column of the table of nodes that names local files of pictures; None: no file is served.
        port: the next free one is taken where it is in use.
        browser: whether to open it.
        check: answer one request and end; nothing is learned, and nothing is written where ``labels`` is None.
        say: prints a line.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependency("naq studio needs starlette, uvicorn and pacmap: pip install 'naq[studio]'.") from error
    from naq.io.tables.features import class_columns
    from naq_studio.images import Images
    from naq_studio.session import Session

    pictures = None if images is None else Images(graph, images)
    with ExitStack() as stack:
        if check and labels is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="naq-studio-"))
            labels = Path(folder) / "check.csv"
        session = Session(graph, journal_path(graph, labels), read_with=read_with, images=pictures)
        stack.callback(session.stop)
        listener, free = bind_socket(port)
        stack.callback(listener.close)
        number = listener.getsockname()[1]
        if not free and port != 0:
            say(f"Port {PORT if port is None else port} is in use; using {number}.")
        server, keys = _server(session, number)
        for problem in session.journal.problems[:10]:
            say(f"{session.journal.path}, {problem}")
        given = session.given_labels().labels
        for note in class_columns(
            graph, np.array([*given], dtype=np.int64), np.array([*given.values()], dtype=np.str_)
        ):
            say(plain(note))
        if check:
            _check(server, listener, keys)
            say(f"naq studio answers for {plain(graph.name, 80)}: ok")
            return
        session.start()
        say(f"Labels are kept in {session.journal.path}")
        say(f"Open {keys.invite()}")
        say("(the address works once; Ctrl-C ends the studio, nothing is lost)")
        if browser:
            page = stack.enter_context(entrance(keys.invite()))
            threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        server.run(sockets=[listener])


@contextmanager
def entrance(address: str) -> Iterator[Path]:
    """A page that leads to a one-time address, readable by this user alone, which a command line is not.

    It is in the home folder if there is one, since browsers in a sandbox do not see that of temporary files.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  (never an error)
    folder = home if home.is_dir() and os.access(home, os.W_OK) else None
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="naq-studio-", suffix=".html") as file:
        file.write(f'<!doctype html><title>naq studio</title><meta http-equiv="refresh" content="0;url={address}">')
        file.flush()
        yield Path(file.name)


def _server(session: Session, port: int) -> tuple[uvicorn.Server, Keys]:
    """The server, and what opens it."""
    import uvicorn

    from naq_studio.routes import application
    from naq_studio.security import Keys, TimedProtocol

    keys = Keys(port)
    off = dict.fromkeys(("access_log", "server_header", "date_header", "proxy_headers"), False)
    limits = {"timeout_keep_alive": 75, "timeout_graceful_shutdown": 3, "limit_concurrency": 200}
    settings: dict[str, Any] = {"log_level": "error", "ws": "none", "lifespan": "off", **off, **limits}
    server = uvicorn.Server(uvicorn.Config(application(session, keys, port), http=TimedProtocol, **settings))
    session.ending = lambda: server.should_exit
    return server, keys


def _check(server: uvicorn.Server, listener: socket.socket, keys: Keys) -> None:
    """Start the server, ask it for the page as a browser would, and stop it."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
        opener.addheaders = [("X-Naq-Key", keys.key)]
        for place in (keys.invite(), f"http://127.0.0.1:{keys.port}/api/state"):
            with opener.open(place, timeout=60) as answer:
                if answer.status != 200 or not answer.read():
                    raise DataError(f"the studio answered its own request with {answer.status}.")
    except OSError as error:
        raise DataError(f"the studio did not answer its own request: {error}.") from error
    finally:
        server.should_exit = True
        thread.join(timeout=10)
