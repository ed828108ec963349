"""Questions to Prefect's server, from code that has an app to look after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeVar, final

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

__all__ = ["ask_briefly", "ask_patiently", "kept_connection"]

TIMEOUT_S = 2.0
"""After a SIGTERM everything must be done within a few seconds."""
PATIENT_TIMEOUT_S = 30.0
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)

T = TypeVar("T")


def ask_briefly(question: Callable[[SyncPrefectClient], T]) -> T:
    """Ask the server; a request that is not answered soon fails, and is not repeated.

    Args:
        question: May be put twice, where the thread has a `kept_connection` and that has broken.
    """
    kept: _Kept | None = getattr(_of_this_thread, "kept", None)
    if kept is not None:
        return kept.ask(question)
    with kept_connection():
        return ask_briefly(question)


def ask_patiently(question: Callable[[SyncPrefectClient], T]) -> T:
    """Ask the server for what cannot be done without: Prefect repeats a request that fails."""
    with _client(PATIENT_TIMEOUT_S) as client:
        return question(client)


@contextmanager
def kept_connection() -> Iterator[None]:
    """Let this thread ask briefly through one connection as long as the block lasts.

    For threads that ask again and again: to make a client costs much more than a question.
    """
    # Settings count when a request is made, those of the client when that is.
    brief: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: 0}
    kept = _Kept()
    with temporary_settings(brief):
        _of_this_thread.kept = kept
        try:
            yield
        finally:
            del _of_this_thread.kept
            kept.close()


@final
class _Kept:
    """A client that is made when it is first needed, and made anew when its connection has broken."""

    def __init__(self) -> None:
        self._open: Final = ExitStack()
        self._client: SyncPrefectClient | None = None

    def ask(self, question: Callable[[SyncPrefectClient], T]) -> T:
        is_new = self._client is None
        try:
            return question(self._connected())
        except _BROKEN:
            self.close()
            if is_new:
                raise
        # The server was started again, say: what it has closed shows only when it is used.
        return question(self._connected())

    def close(self) -> None:
        self._client = None
        self._open.close()

    def _connected(self) -> SyncPrefectClient:
        if self._client is None:
            self._client = self._open.enter_context(_client(TIMEOUT_S))
        return self._client


_of_this_thread: Final = threading.local()
"""Has a `_Kept` where the thread keeps its connection. A forked child has none of its parent's threads."""


def _client(timeout_s: float) -> SyncPrefectClient:
    # With settings of httpx, for otherwise it is the flow's own client, which has settings of its own.
    return get_client({"timeout": timeout_s}, sync_client=True)
