"""Questions to Prefect's server, from code that has an app to look after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

__all__ = ["brief_client", "patient_client"]

TIMEOUT_S = 2.0
"""After a SIGTERM everything must be done within a few seconds."""
PATIENT_TIMEOUT_S = 30.0


@contextmanager
def brief_client() -> Iterator[SyncPrefectClient]:
    """Connect to the server; a request that is not answered soon fails, and is not repeated."""
    brief: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: 0, PREFECT_API_REQUEST_TIMEOUT: TIMEOUT_S}
    # With settings of httpx, for otherwise it is the flow's own client, which has settings of its own.
    with temporary_settings(brief), get_client({"timeout": TIMEOUT_S}, sync_client=True) as client:
        yield client


@contextmanager
def patient_client() -> Iterator[SyncPrefectClient]:
    """Connect to the server for what cannot be done without: Prefect repeats a request that fails."""
    with get_client({"timeout": PATIENT_TIMEOUT_S}, sync_client=True) as client:
        yield client
