"""How Prefect's server is asked while an app runs: seldom with a new client, and never for long."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest
from answer_cutter import AnswerCutter, cutting
from certificates import make_certificates
from flow_work import in_a_flow
from keepers import Keeper
from prefect import flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.context import FlowRunContext
from prefect.settings import (
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_TLS_INSECURE_SKIP_VERIFY,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from prefect_torchx._engine import flow_state, server
from prefect_torchx._engine.flow_state import FlowRunWatch, watches
from prefect_torchx._engine.position_store import ServerPositionStore
from prefect_torchx._engine.server import ask_briefly, kept_connection
from prefect_torchx.page import RunPage
from prefect_torchx.position import Position
from prefect_torchx.saved_position import SavedPosition
from torchx_core.schedulers import LogLines
from torchx_core.specs import AppDef, AppState, AppStatus
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("prefect_api")]


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[SyncPrefectClient]:
    """Return the clients that are made from now on."""
    made: list[SyncPrefectClient] = []

    def make(*args: Any, **kwargs: Any) -> SyncPrefectClient:
        made.append(get_client(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(server, "get_client", make)
    monkeypatch.setattr(server, "TIMEOUT_S", 30.0)  # a busy host's server is slow
    return made


@pytest.fixture
def proxy(prefect_api: str) -> Iterator[AnswerCutter]:
    """Return a proxy before the server that cuts off answers to what is read; this process uses it."""
    port = urlsplit(prefect_api).port
    assert port is not None
    with cutting(port) as proxy, temporary_settings({PREFECT_API_URL: proxy.url}):
        proxy.requests = b"GET "
        yield proxy


def _version(client: SyncPrefectClient) -> str:
    return client.api_version()


def _is_closed(client: SyncPrefectClient) -> bool:
    return client._client.is_closed  # noqa: SLF001  (httpx's client, which has the connections)


def test_the_environment_may_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's own way to change a setting reads all of it again, and fails where it is wrong just then."""
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "many")
    with kept_connection():
        assert PREFECT_CLIENT_MAX_RETRIES.value() == 0
        assert ask_briefly(_version)
    assert PREFECT_CLIENT_MAX_RETRIES.value() > 0


def test_what_asks_again_and_again_keeps_its_connection(clients: list[SyncPrefectClient]) -> None:
    """Until the block ends; without it every question has a connection of its own."""
    with kept_connection():
        for _ in range(3):
            ask_briefly(_version)
        [kept] = clients
        assert not _is_closed(kept)
    ask_briefly(_version)
    assert [_is_closed(client) for client in clients] == [True, True]


def test_threads_share_a_client(clients: list[SyncPrefectClient]) -> None:
    """Each would ask the server for a token of its own; who leaves last closes it."""
    with kept_connection():
        ask_briefly(_version)
        other = threading.Thread(target=copy_context().run, args=(ask_briefly, _version))
        other.start()
        other.join()
        ask_briefly(_version)
        assert [_is_closed(client) for client in clients] == [False]
    assert [_is_closed(client) for client in clients] == [True]


def test_many_apps_share_a_client(clients: list[SyncPrefectClient], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their logs, their positions and the look at the flow run's state; it gets one token from the server."""
    asked: list[str] = []
    send = httpx.Client.send

    def count(client: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        if clients and client is clients[0]._client:  # noqa: SLF001  (httpx's client)
            asked.append(request.url.path)
        return send(client, request, **options)

    def work() -> None:
        monkeypatch.setattr(httpx.Client, "send", count)
        with kept_connection(), watches.use(str(_flow_run_id())), ThreadPoolExecutor(10) as pool:
            ask_briefly(_version)  # or the first apps may be over before the next ones begin
            shown = [pool.submit(copy_context().run, show, number) for number in range(10)]
            wait_until(lambda: all(each.done() for each in shown), 240)
            monkeypatch.setattr(httpx.Client, "send", send)

    def show(number: int) -> None:
        places = SavedPosition(ServerPositionStore(str(_flow_run_id()), ""))
        page = RunPage(AppDef("app", []), keeper=places)
        handle = f"local_cwd://torchx/app-{number}"
        page.submitted(handle, places.open(handle, fresh=True))
        page.write(LogLines("r", 0, 0, "stdout", (str(number),), 1000.0))
        page.mark("1")
        page.close(AppStatus(state=AppState.SUCCEEDED))

    run = in_a_flow(work)
    assert len(clients) == 1
    assert sum("csrf-token" in path for path in asked) == 1
    assert sorted(line for line in run.lines() if line.startswith("[r/0]")) == [
        f"[r/0] {n}" for n in range(10)
    ]


def test_a_connection_that_breaks_is_made_anew(proxy: AnswerCutter, clients: list[SyncPrefectClient]) -> None:
    """As by a server that was started again: the question is put once more, at once."""
    with kept_connection():
        ask_briefly(_version)
        proxy.cuts = 1
        assert ask_briefly(_version)
        assert [_is_closed(client) for client in clients] == [False]


def test_a_server_that_does_not_answer_is_asked_no_more_than_twice(
    proxy: AnswerCutter, clients: list[SyncPrefectClient]
) -> None:
    """Who asks has other things to do; the next question makes a new connection."""
    with kept_connection():
        ask_briefly(_version)
        proxy.cuts = 2
        with pytest.raises(httpx.TransportError):
            ask_briefly(_version)
        assert ask_briefly(_version)
    assert (len(clients), proxy.cuts) == (1, 0)


def test_a_watch_has_one_client_and_closes_it(
    clients: list[SyncPrefectClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it looks every second for as long as the app runs."""
    monkeypatch.setattr(flow_state, "LOOK_EVERY_S", 0.01)
    looks: list[bool] = []
    look = FlowRunWatch.look

    def count(watch: FlowRunWatch) -> bool:
        looks.append(look(watch))
        return looks[-1]

    monkeypatch.setattr(FlowRunWatch, "look", count)

    @flow
    def pipeline() -> None:
        with watches.use(str(_flow_run_id())):
            wait_until(lambda: len(looks) >= 5, 240)

    pipeline()
    assert all(looks)
    wait_until(lambda: [_is_closed(client) for client in clients] == [True], 240)


def test_a_log_shipper_has_one_client_for_what_it_saves(
    clients: list[SyncPrefectClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far a log is, is saved once a second; the client is closed when nobody sends any more."""
    monkeypatch.setattr("prefect_torchx.log_shipper.SAVE_EVERY_S", 0.0)
    saved: list[Position] = []

    def work() -> None:
        position_store = ServerPositionStore(str(_flow_run_id()), "")
        handle = "local_cwd://torchx/app"
        position_store.open(handle, fresh=True)
        clients.clear()

        class Saving(Keeper):
            def save(self) -> bool:
                super().save()
                position_store.note(handle, saved[-1])
                return position_store.save(handle)

        page = RunPage(AppDef("app", []), keeper=Saving(saved))
        for number in range(3):
            page.write(LogLines("r", 0, 0, "stdout", (str(number),), 1000.0))
            page.mark(str(number))
            page.flush()
            wait_until(lambda number=number: saved and saved[-1].cursor == str(number), 240)  # type: ignore[misc]
        page.close(None)

    in_a_flow(work)
    assert len(saved) == 3
    wait_until(lambda: [_is_closed(client) for client in clients] == [True], 240)


def _flow_run_id() -> UUID:
    context = FlowRunContext.get()
    assert context
    assert context.flow_run
    return context.flow_run.id


@pytest.fixture
def redirected(prefect_api: str, tmp_path: Path) -> Iterator[str]:
    """Return the address of an API at http:// that leads to an encrypted one, whose authority few know."""
    make_certificates(tmp_path, "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server-cert.pem", tmp_path / "server-key.pem")
    secret = _Redirect(lambda path: prefect_api.removesuffix("/api") + path)
    secret.socket = tls.wrap_socket(secret.socket, server_side=True)
    plain = _Redirect(lambda path: f"https://127.0.0.1:{secret.server_port}{path}")
    with secret.running(), plain.running():
        yield f"http://127.0.0.1:{plain.server_port}/api"


class _Redirect(ThreadingHTTPServer):
    """Leads whoever asks to somewhere else."""

    def __init__(self, lead: Callable[[str], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(307)
                self.send_header("Location", cast("_Redirect", self.server).lead(self.path))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *_args: object) -> None: ...  # noqa: A002  # its name there

        super().__init__(("127.0.0.1", 0), Handler)
        self.lead = lead

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        yield
        self.shutdown()
        thread.join()
        self.server_close()


def test_a_client_of_what_is_not_encrypted_reads_no_certificates(
    clients: list[SyncPrefectClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes 25 ms of each client; Prefect's own reads them for every address."""

    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("certificates are read")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refuse)
    assert ask_briefly(_version)
    assert len(clients) == 1


def test_where_it_leads_to_an_encrypted_one_that_must_be_trusted(redirected: str, tmp_path: Path) -> None:
    """By the authorities that Prefect's settings name."""
    with temporary_settings({PREFECT_API_URL: redirected}):
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            ask_briefly(_version)
        with temporary_settings({PREFECT_API_SSL_CERT_FILE: str(tmp_path / "ca.pem")}):
            assert ask_briefly(_version)
        with temporary_settings({PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True}):
            assert ask_briefly(_version)
