"""An engine that goes away in the middle of its progress, by a server that does nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from docker_apps import connected

from torchx_core.errors import SchedulerError

STEP = b'{"status": "Pulling"}\r\n'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cut = b""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's
        """Say nothing."""

    def do_GET(self) -> None:
        body = b'{"ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(STEP), STEP) + self.cut)
        self.close_connection = True


@pytest.fixture(params=[b"", b"1", b"40\r\n{", b'8\r\n{"status\r\n0\r\n\r\n'])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the server is, whose stream ends like that after its first step."""
    handler = type("Handler", (_Handler,), {"cut": request.param})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"tcp://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_pull_that_is_cut(url: str) -> None:
    """It is an engine that does not answer, so a submit's outcome is unknown, and trying again is safe."""
    with closing(connected(url)) as engine, pytest.raises(SchedulerError, match="cannot reach") as caught:
        engine.pull("image")
    assert caught.value.retryable
