"""An image registry that takes pushes, from those who know the password."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs, urlsplit

__all__ = ["PASSWORD", "USER", "Registry", "registry"]

USER, PASSWORD = "pusher", "hunter2"


class Registry(ThreadingHTTPServer):
    """What was pushed, by name."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self._host = host
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        """By ``repository:tag``."""

    @property
    def address(self) -> str:
        """The first part of an image's name; the engine must have been told that it is no HTTPS."""
        return f"{self._host}:{self.server_port}"


@contextmanager
def registry(host: str) -> Iterator[Registry]:
    """Serve on this address of the host until the end of the context."""
    server = Registry(host)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's
        """Say nothing."""

    def do_GET(self) -> None:
        self._if_allowed(200)

    def do_HEAD(self) -> None:
        digest = self.path.rpartition("/")[2]
        self._if_allowed(200 if digest in self._registry.blobs else 404)

    def do_POST(self) -> None:
        self._body()
        self._if_allowed(
            202, Location=f"{self.path}{threading.get_ident()}-{len(self._registry.blobs)}", Range="0-0"
        )

    def do_PATCH(self) -> None:
        body = self._body()
        self._registry.blobs[self.path] = body
        self._if_allowed(202, Location=self.path, Range=f"0-{len(body) - 1}")

    def do_PUT(self) -> None:
        body, url = self._body(), urlsplit(self.path)
        if "/manifests/" in url.path:
            repository, _, tag = url.path.removeprefix("/v2/").partition("/manifests/")
            self._registry.manifests[f"{repository}:{tag}"] = body
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        else:
            digest = parse_qs(url.query)["digest"][0]
            self._registry.blobs[digest] = self._registry.blobs.pop(url.path, b"") + body
        self._if_allowed(201, **{"Docker-Content-Digest": digest})

    @property
    def _registry(self) -> Registry:
        return cast("Registry", self.server)

    def _if_allowed(self, status: int, **headers: str) -> None:
        known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {known}":
            status, headers = 401, {"WWW-Authenticate": 'Basic realm="tests"'}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body
