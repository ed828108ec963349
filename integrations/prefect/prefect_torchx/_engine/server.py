"""Questions to Prefect's server, from code that has an app to look after: one client for a whole process.

To make a client costs much more than a question, and each asks the server for a token of its own.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TypeVar, final

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_API_URL

from prefect_torchx._engine.tls import TlsOnDemand, is_encrypted
from prefect_torchx.own import Shared

__all__ = ["PAGE", "Client", "ask_briefly", "ask_patiently", "client_of_process", "kept_connection", "pages"]

TIMEOUT_S = 2.0
"""After a SIGTERM everything must be done within a few seconds."""
PATIENT_TIMEOUT_S = 30.0
PAGE = 200
"""How many logs, artifacts or runs Prefect's server returns at most."""
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)

T = TypeVar("T")


def ask_briefly(question: Callable[[SyncPrefectClient], T]) -> T:
    """Ask the server; a request that is not answered soon fails, and is not repeated.

    Args:
        question: May be put twice, where the connection has broken.
    """
    if not getattr(_of_this_thread, "is_brief", False):
        with kept_connection():
            return ask_briefly(question)
    with client_of_process() as client:
        is_new = not client.was_used
        try:
            return client.ask(question, TIMEOUT_S)
        except _BROKEN:
            if is_new:
                raise
        # The server was started again, say: what it has closed shows only when it is used.
        return client.ask(question, TIMEOUT_S)


def ask_patiently(question: Callable[[SyncPrefectClient], T]) -> T:
    """Ask the server for what cannot be done without: Prefect repeats a request that fails."""
    with client_of_process() as client:
        return client.ask(question, PATIENT_TIMEOUT_S)


def pages(read: Callable[[int, int], Sequence[T]]) -> Iterator[Sequence[T]]:
    """Yield what there is, one answer of the server's after the other.

    Args:
        read: Asks for so many, behind so many that have come.
    """
    count = 0
    while page := read(PAGE, count):
        yield page
        if len(page) < PAGE:
            return
        count += len(page)


@contextmanager
def kept_connection() -> Iterator[None]:
    """Keep the process's client as long as the block lasts, and let this thread ask briefly.

    For threads that ask again and again.
    """
    with _unrepeated(), client_of_process():
        _of_this_thread.is_brief = True
        try:
            yield
        finally:
            _of_this_thread.is_brief = False


@contextmanager
def _unrepeated() -> Iterator[None]:
    """Have requests of this thread fail at once: who makes them knows when to try again.

    Prefect's own `temporary_settings` reads the whole environment to change one setting: that takes longer
    than a few requests, and fails when another thread changes the environment meanwhile.
    """
    now = get_settings_context()
    client = now.settings.client.model_copy(update={"max_retries": 0})  # counts when a request is made
    settings = now.settings.model_copy(update={"client": client})
    with SettingsContext(profile=now.profile, settings=settings):
        yield


def client_of_process() -> AbstractContextManager[Client]:
    """Use the process's client for the API that the settings name."""
    return _clients.use(PREFECT_API_URL.value())


@final
class Client:
    """Is there as long as some thread uses it, and connects when it is first asked."""

    def __init__(self, _url: object) -> None:
        """Connect to nothing yet."""
        self.was_used = False
        self._open: Final = ExitStack()
        self._client: SyncPrefectClient | None = None
        self._connecting: Final = threading.Lock()

    def close(self) -> None:
        """Connect to nothing any more."""
        self._open.close()

    def ask(self, question: Callable[[SyncPrefectClient], T], timeout_s: float) -> T:
        """Put a question, each of whose requests may take so long."""
        before = _timeout_s.set(timeout_s)
        try:
            with self._connecting:
                if self._client is None:
                    self._client = self._open.enter_context(_new_client())
                    _fetch_token(self._client)
            answer = question(self._client)
        finally:
            _timeout_s.reset(before)
        self.was_used = True
        return answer


_clients: Final = Shared(Client, Client.close)
_of_this_thread: Final = threading.local()
"""Says whether the thread keeps the client and has the settings of brief requests."""
_timeout_s: Final = ContextVar("torchx_timeout_s", default=PATIENT_TIMEOUT_S)


def _new_client() -> SyncPrefectClient:
    # With settings of httpx, for otherwise it is the flow's own client, which has settings of its own.
    # No limit to connections: where many threads ask at once, none waits for another's answer.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=25)
    settings = {"limits": limits, "event_hooks": {"request": [_set_timeout]}}
    if not is_encrypted(PREFECT_API_URL.value()):
        settings["verify"] = TlsOnDemand(ssl.PROTOCOL_TLS_CLIENT)
    return get_client(settings, sync_client=True)


def _fetch_token(client: SyncPrefectClient) -> None:
    """Fetch the token now: threads that all find none would each fetch one, and only the last is valid."""
    http = client._client  # noqa: SLF001  (Prefect fetches it before the first change, and only so)
    add_headers: Callable[[httpx.Request], None] | None = getattr(http, "_add_csrf_headers", None)
    with suppress(Exception):  # the question will say what is wrong
        if add_headers is not None:
            add_headers(http.build_request("POST", "/"))


def _set_timeout(request: httpx.Request) -> None:
    request.extensions["timeout"] = httpx.Timeout(_timeout_s.get()).as_dict()
