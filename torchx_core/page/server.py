"""Serves the page of one app to browsers of this host's user."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, final
from urllib.parse import parse_qs

from torchx_core.errors import TorchXError
from torchx_core.page.app_page import AppPage
from torchx_core.page.html import content_security_policy

__all__ = ["HEADERS", "PageServer"]

HOST: Final = "127.0.0.1"
EVENTS: Final = "events"
"""Where the stream is, relative to the page."""
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}
"""What every answer says."""
_OUR_NAMES: Final = frozenset({"127.0.0.1", "localhost"})
"""What a browser may call us. A page of somebody else whose name leads here (DNS rebinding) says its own."""


@final
class PageServer:
    """Serves one app's page until it is closed; use it in a ``with`` statement.

    It listens on loopback only. Other users of the host can connect there too, so the address has a token
    that nobody can guess, and without it there is nothing. The page can be looked at, and changes nothing.
    """

    def __init__(self, page: AppPage, port: int = 0) -> None:
        """Listen, and serve nothing yet.

        Args:
            page: What is served.
            port: Where; 0 for a port that is free.

        Raises:
            OSError: The port is taken.
        """
        self._token = secrets.token_urlsafe(24)
        self._stopping = threading.Event()
        self._http = _Http((HOST, port), _Handler)
        self._http.page, self._http.token, self._http.stopping = page, self._token, self._stopping
        self._thread = threading.Thread(target=self._http.serve_forever, name="torchx-page", daemon=True)

    @property
    def url(self) -> str:
        """The page's address, token included."""
        return f"http://{HOST}:{self._http.server_address[1]}/{self._token}/"

    def __enter__(self) -> PageServer:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Serve no more: streams end, and the port is free when this returns."""
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()  # joins the threads of streams, which have noticed by their next tick


class _Http(ThreadingHTTPServer):
    page: AppPage
    token: str
    stopping: threading.Event
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a browser that has gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]  # which makes handlers for itself alone
    timeout = 60  # of a browser that connects and says nothing

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the signature that is called
        """Say nothing: the address has the token."""

    def do_GET(self) -> None:
        """Answer with the page, its stream, or nothing."""
        path, _, query = self.path.partition("?")
        if not self._may_ask(path):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        what = path.split("/", 2)[2]
        if what == "":
            self._answer_page()
        elif what == EVENTS:
            place = parse_qs(query).get("after", [""])[0]
            self._answer_events(self.headers.get("Last-Event-ID") or place)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _may_ask(self, path: str) -> bool:
        name = self.headers.get("Host", "").partition(":")[0]
        token = path.split("/", 2)[1] if path.count("/") > 1 else ""
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        return known and name in _OUR_NAMES

    def _answer_page(self) -> None:
        try:
            body = self.server.page.live_html(EVENTS).encode()
        except TorchXError as err:
            self._begin(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8")
            self.wfile.write(f"{err}\n".encode())
            return
        self._begin(HTTPStatus.OK, "text/html; charset=utf-8")
        self.wfile.write(body)

    def _answer_events(self, place: str) -> None:
        self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8")
        self.wfile.write(b"retry: 2000\n\n")
        for text in self._until_stopped(self.server.page.events(place or None)):
            self.wfile.write(text.encode())

    def _until_stopped(self, texts: Iterator[str]) -> Iterator[str]:
        for text in texts:
            if self.server.stopping.is_set() or (not text and self._browser_has_gone()):
                return
            yield text

    def _browser_has_gone(self) -> bool:
        """Return whether the connection has been closed at the other end."""
        self.connection.settimeout(0)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(self.timeout)

    def _begin(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", content_security_policy(frames="'none'"))
        self.end_headers()

    def _refuse(self, status: HTTPStatus) -> None:
        """Say that there is nothing, whatever is missing: the token, or the right to ask."""
        self._begin(status, "text/plain; charset=utf-8")
        self.wfile.write(b"There is no such page. Its address is what `torchx-core page` has printed.\n")
