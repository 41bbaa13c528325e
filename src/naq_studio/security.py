"""Who may ask: this computer only, a browser that came with the one-time address, and only from the page itself.

Another site that is open in the same browser can send requests to 127.0.0.1, and a name that it controls can be made
to point there (DNS rebinding). So every request must name this server as its host, must not come from another site
(``Sec-Fetch-Site``, ``Origin``) and must have the cookie, which other sites cannot make the browser send.

Other users of the computer can connect too, and a server of theirs on another port is sent the cookie, since cookies
do not tell ports apart. So everything below ``/api/`` must also have the key, which the page keeps where only pages
of this host and port can read it. The one-time address is in no command line: a browser is given a file that only its
user can read.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import h11
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 4 << 20
LONGEST_QUERY = 1 << 10
LONGEST_PATH = 1 << 9
PATIENCE = 20.0
"""Seconds that a request may take to arrive, from the first byte, or the connection, to the last byte."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
LOCKED = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>naq studio</title><h1>This page is locked</h1>
<p>Open the address that <code>naq studio</code> printed in the terminal. It works once; afterwards this browser is
remembered until the studio is stopped. For another browser, press <b>Another browser</b> under
<b>Save and export</b> in the page that is open, or start <code>naq studio</code> again.</p></html>"""

ENTER = """<!doctype html><html lang="en" data-key="{}"><meta charset="utf-8"><title>naq studio</title>
<script src="/static/enter.js"></script>
<noscript>This page needs JavaScript, which comes from this computer only.</noscript></html>"""


class Keys:
    """One-time tokens, and the cookie and the key that a browser gets for one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie_name = f"naq-studio-{port}-{secrets.token_hex(4)}"  # of this port and this start
        self.cookie, self.key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._tokens: list[str] = []

    def invite(self) -> str:
        """An address with a new one-time token; of many that nobody used, the oldest is forgotten."""
        token = secrets.token_urlsafe(24)
        self._tokens = [*self._tokens[-7:], token]
        return f"http://127.0.0.1:{self.port}/?token={token}"

    def redeem(self, token: str) -> bool:
        found = [one for one in self._tokens if secrets.compare_digest(one.encode(), token.encode())]
        self._tokens = [one for one in self._tokens if one not in found]
        return bool(found)

    def knows(self, header: str) -> bool:
        """Whether a Cookie header holds ours, whatever other servers on this computer put there."""
        pairs = (one.strip().partition("=") for one in header.split(";"))
        return any(
            name == self.cookie_name and secrets.compare_digest(value.encode(), self.cookie.encode())
            for name, _, value in pairs
        )


class TimedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is closed where a request does not arrive in :data:`PATIENCE`."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._late = self.loop.call_later(PATIENCE, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._late.cancel()
        elif self._late.cancelled():  # the next request on this connection has begun
            self._late = self.loop.call_later(PATIENCE, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)


class Guard:
    """Wraps the application: what it lets through is allowed."""

    def __init__(self, app: Asgi, keys: Keys, port: int) -> None:
        self.app, self.keys = app, keys
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets
        answer = self._refusal(scope)
        if answer is None:
            answer = self._entrance(scope)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """Why a request is refused before anyone looks at its cookie."""
        headers = scope["headers"]
        client = scope.get("client")
        if client is not None and client[0] != "127.0.0.1":
            return PlainTextResponse("This page answers this computer only.", 403)
        if scope.get("http_version") not in ("1.0", "1.1"):
            return PlainTextResponse("Only HTTP/1.1 is answered.", 400)
        hosts = _all(headers, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return PlainTextResponse("Another host was asked for; open the address that naq studio printed.", 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST are answered.", 405)
        if len(scope["query_string"]) > LONGEST_QUERY or len(scope.get("raw_path") or b"") > LONGEST_PATH:
            return PlainTextResponse("The address is too long.", 414)
        writes = scope["method"] == "POST"
        site, origins = _all(headers, b"sec-fetch-site"), _all(headers, b"origin")
        if _token(scope) is not None:  # from a file, a terminal or another page: what counts is the token
            site = []
        if any(one not in ("same-origin", "none") for one in site) or (writes and "none" in site):
            return PlainTextResponse("Another site may not ask.", 403)
        if any(one != f"http://{hosts[0].lower()}" for one in origins) or (writes and not origins and not site):
            return PlainTextResponse("Another origin may not ask.", 403)
        if writes:
            if _all(headers, b"content-type") != ["application/json"]:
                return PlainTextResponse("Expected application/json.", 415)
            length = _all(headers, b"content-length")
            if len(length) != 1 or not length[0].isdigit() or _all(headers, b"transfer-encoding"):
                return PlainTextResponse("Expected one Content-Length, and no Transfer-Encoding.", 411)
            if len(length[0]) > 9 or int(length[0]) > LARGEST_BODY:
                return PlainTextResponse(f"Too large; {LARGEST_BODY:,} bytes at most.", 413)
        return None

    def _entrance(self, scope: Scope) -> Response | None:
        """Cookie and key for the one-time token; the locked page for those who lack one of them."""
        known = any(self.keys.knows(one) for one in _all(scope["headers"], b"cookie"))
        if (token := _token(scope)) is not None:
            if self.keys.redeem(token):
                answer = HTMLResponse(ENTER.format(self.keys.key))
                answer.set_cookie(self.keys.cookie_name, self.keys.cookie, httponly=True, samesite="strict", path="/")
                return answer
            return RedirectResponse("/", 303) if known else HTMLResponse(LOCKED, 403)
        if known and scope["path"].startswith("/api/"):
            given = _all(scope["headers"], b"x-naq-key")
            if scope["path"] == "/api/events":  # browsers send no header of ours there
                given = [scope["query_string"].decode("latin-1").removeprefix("key=")]
            known = len(given) == 1 and secrets.compare_digest(given[0].encode(), self.keys.key.encode())
        return None if known else HTMLResponse(LOCKED, 403)


def _token(scope: Scope) -> str | None:
    """The token of a request that wants to enter."""
    query = scope["query_string"].decode("latin-1")
    enters = scope["path"] == "/" and scope["method"] == "GET" and query.startswith("token=")
    return query.removeprefix("token=") if enters else None


def _all(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            present = {key for key, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((key.encode(), value.encode()) for key, value in HEADERS.items() if key.encode() not in present),
            ]
        await send(message)

    return sent
