"""A stand-in for Prefect's API that keeps log records and artifacts, and fails in ways a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

__all__ = ["LogApi", "serving"]

PAGE = 200


class LogApi:
    """What it has been given, and how it is to fail."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.cuts = 0
        """How many requests with records to serve without an answer."""
        self.cut_from = 1
        """Only of so many records or more."""
        self.refuses: Callable[[dict[str, Any]], bool] = lambda _: False
        """Which record makes it refuse the whole request."""
        self.away = threading.Event()
        """While set, it breaks off every request unserved."""
        self.stuck = threading.Event()
        """While set, requests with records wait."""
        self.port = 0

    @property
    def messages(self) -> list[str]:
        """The text of each record, in the order of arrival."""
        return [record["message"] for record in self.records]

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/api"

    def answer(self, method: str, path: str, body: Any) -> tuple[int, object] | None:
        """Serve a request; None breaks the connection off."""
        self.requests.append(f"{method} {path}")
        if self.away.is_set():
            return None
        if path == "/api/logs/":
            return self._store(body)
        if path == "/api/logs/filter":
            return 200, self._find(body)
        if path.startswith("/api/artifacts/"):
            return self._draw(path, body)
        return 404, {}

    def _store(self, records: list[dict[str, Any]]) -> tuple[int, object] | None:
        while self.stuck.is_set() and not self.away.wait(0.01):
            pass
        if any(map(self.refuses, records)):
            return 422, {"detail": "no such record, please"}
        self.records += records
        if self.cuts and len(records) >= self.cut_from:
            self.cuts -= 1
            return None
        return 201, None

    def _find(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        runs = wanted["logs"]["flow_run_id"]["any_"]
        found = [record for record in self.records if record["flow_run_id"] in runs]
        return found[wanted["offset"] :][: min(wanted["limit"], PAGE)]

    def _draw(self, path: str, body: dict[str, Any]) -> tuple[int, object]:
        known = path.rpartition("/")[2]
        if known and known not in self.artifacts:
            return 404, {"detail": "somebody has deleted it"}
        key = known or str(uuid4())
        self.artifacts[key] = self.artifacts.get(key, {"id": key}) | body
        return 201, self.artifacts[key]


@contextmanager
def serving() -> Iterator[LogApi]:
    """Serve on a free port."""
    api = LogApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            answer = api.answer(self.command, self.path, body)
            if answer is None:
                self.close_connection = True
                return
            status, value = answer
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_POST  # noqa: N815  (the base class's names)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        api.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield api
        finally:
            api.away.set()
            server.shutdown()
            thread.join()
