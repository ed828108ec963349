from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from local_apps import app_of

from torchx_core import Runner
from torchx_core.errors import UnknownAppException
from torchx_core.page import AppPage, PageServer
from torchx_core.testing import Exit, Hold, Print, PrintMany, ReportMetric, Step, python_program, wait_until

WRITER = """
import os, sys, time
for i in range(200):
    print(i, flush=True)
    if i % 50 == 0:
        while not os.path.exists(f"{sys.argv[1]}/{i}"):
            time.sleep(0.01)
"""


def _run(runner: Runner, *steps: Step) -> str:
    program, args = python_program(*steps)
    return runner.run(app_of(program, *args), "local_cwd")


def _lines(events: list[dict[str, Any]]) -> list[str]:
    return [line for event in events for run in event.get("lines", []) for line in run[-1]]


def _parse(text: str) -> list[dict[str, Any]]:
    """Return the increments of a stream, each with the id of its event."""
    found: list[dict[str, Any]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields and "event" not in fields:
            found.append({**json.loads(fields["data"]), "id": fields.get("id", "")})
    return found


class Browser:
    """Asks as a browser does."""

    def __init__(self, server: PageServer) -> None:
        address = urlsplit(server.url)
        self.host, self.port = address.hostname or "", address.port or 0
        self.path = address.path

    def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=240)
        connection.request(
            "GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()}
        )
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, {name.lower(): value for name, value in answer.getheaders()}


@pytest.fixture
def server(runner: Runner) -> Iterator[PageServer]:
    """Serve the page of an app that has ended."""
    handle = _run(runner, Print("hello"), ReportMetric("loss", 0.5, 1), Exit(3))
    runner.wait(handle, timeout_s=240)
    with PageServer(AppPage(runner, handle)) as server:
        yield server


def test_the_page_and_its_stream(server: PageServer) -> None:
    """What was run at once, and then all that has happened."""
    browser = Browser(server)
    status, html, headers = browser.get(browser.path)
    assert status == 200
    assert "Replica r/0 failed with exit code 3" in html
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    _, text, headers = browser.get(f"{browser.path}events")
    (whole,) = _parse(text)
    assert _lines([whole]) == ["hello"]
    assert whole["failure"]["replica"] == "r/0"
    assert headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("path", ["/", "/events", "/x/", "/x/events", "//", "/%2e%2e/", "/?token="])
def test_without_the_token_there_is_nothing(server: PageServer, path: str) -> None:
    """Another user of this host may connect; whoever does not know the address learns nothing."""
    status, text, _ = Browser(server).get(path)
    assert status == 404
    assert "hello" not in text
    assert "app" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "localhost."]
)
@pytest.mark.parametrize("what", ["", "events"])
def test_a_page_of_somebody_else_learns_nothing(server: PageServer, host: str, what: str) -> None:
    """One whose name was made to lead here (DNS rebinding) says its own name, whatever else it knows."""
    browser = Browser(server)
    status, text, headers = browser.get(browser.path + what, Host=host)
    assert status == 404
    assert "hello" not in text
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1"])
def test_a_tunnel_to_this_host_works(server: PageServer, host: str) -> None:
    """With ssh -L the port is another one."""
    browser = Browser(server)
    assert browser.get(browser.path, Host=host)[0] == 200


def test_only_this_host_can_connect(server: PageServer) -> None:
    """It listens on loopback, and at no other address of the host."""
    listening = Path("/proc/net/tcp").read_text().split("\n")
    port = f":{urlsplit(server.url).port:04X} "
    assert {row.split()[1][:8] for row in listening if port in row and " 0A " in row} == {"0100007F"}


def test_nothing_can_be_changed(server: PageServer) -> None:
    """There is only GET."""
    browser = Browser(server)
    connection = http.client.HTTPConnection(browser.host, browser.port, timeout=240)
    connection.request("POST", browser.path, body=b"{}")
    assert connection.getresponse().status == 501
    connection.close()


def test_a_reload_and_a_second_tab_lose_and_repeat_nothing(runner: Runner, tmp_path: Path) -> None:
    """A stream that breaks off goes on after the last event that arrived; a new page has everything."""
    handle = runner.run(app_of("python3", "-c", WRITER, str(tmp_path)), "local_cwd")
    page = AppPage(runner, handle)
    seen: list[dict[str, Any]] = []
    for i in (0, 50, 100, 150):
        for text in page.events(seen[-1]["id"] if seen else None):  # a new stream each time
            seen += _parse(text)
            if str(i) in _lines(seen):
                break
        (tmp_path / str(i)).touch()
    for text in page.events(seen[-1]["id"]):
        seen += _parse(text)
    assert _lines(seen) == [str(i) for i in range(200)]
    assert seen[-1]["over"] is True
    (whole,) = [each for text in page.events() for each in _parse(text)]
    assert _lines([whole]) == [str(i) for i in range(200)]


def test_the_same_on_an_event_loop(runner: Runner) -> None:
    """An engine's server follows hundreds of apps without a thread for each."""
    handle = _run(runner, PrintMany(1000), Exit(0))
    page = AppPage(runner, handle)

    async def read() -> list[dict[str, Any]]:
        return [each async for text in page.aevents() for each in _parse(text)]

    assert _lines(asyncio.run(read())) == [str(i) for i in range(1000)]


def test_closing_ends_the_streams(runner: Runner) -> None:
    """Also that of an app which goes on; then the port is free."""
    handle = _run(runner, Print("up"), Hold())
    with PageServer(AppPage(runner, handle)) as server:
        browser = Browser(server)
        connection = socket.create_connection((browser.host, browser.port), timeout=240)
        connection.sendall(f"GET {browser.path}events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received = b""
        while b'"up"' not in received:
            received += connection.recv(65536)
    while connection.recv(65536):
        pass
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((browser.host, browser.port), timeout=240)


def test_a_browser_that_goes_is_noticed(runner: Runner) -> None:
    """Its stream's thread ends although nothing happens that could not be sent."""
    import threading

    handle = _run(runner, Print("up"), Hold())
    before = threading.active_count()
    with PageServer(AppPage(runner, handle)) as server:
        browser = Browser(server)
        connection = socket.create_connection((browser.host, browser.port), timeout=240)
        connection.sendall(f"GET {browser.path}events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert connection.recv(10)
        connection.close()
        wait_until(lambda: threading.active_count() == before + 1, 240)


def test_no_page_of_an_app_that_is_not_there(runner: Runner) -> None:
    """Asked for, or deleted while somebody looks."""
    with pytest.raises(UnknownAppException):
        AppPage(runner, "local_cwd://torchx/none")
    handle = _run(runner, Exit(0))
    runner.wait(handle, timeout_s=240)
    page = AppPage(runner, handle)
    runner.delete(handle)
    (trouble,) = page.events()
    assert '"gone": true' in trouble


def test_a_place_that_is_none_is_said(runner: Runner) -> None:
    """A made-up place is no reason for a traceback."""
    handle = _run(runner, Exit(0))
    (trouble,) = AppPage(runner, handle).events("nonsense")
    assert trouble.startswith("event: trouble\n")
