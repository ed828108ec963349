"""Labels: whose a thing on the engine is, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from torchx_core.schedulers.docker.names import app_key

__all__ = [
    "APP",
    "CONTENT",
    "INDEX",
    "KEY",
    "KIND",
    "REPLICA",
    "ROLE",
    "SESSION",
    "common",
    "of_app",
    "of_replica",
    "of_session",
]

_PREFIX: Final = "torchx-core."

KEY: Final = f"{_PREFIX}key"
"""`names.app_key`: on everything of the app."""
APP: Final = f"{_PREFIX}app"
SESSION: Final = f"{_PREFIX}session"
KIND: Final = f"{_PREFIX}kind"
"""``replica``, ``network`` or a record's kind."""
ROLE: Final = f"{_PREFIX}role"
REPLICA: Final = f"{_PREFIX}replica"
"""Number of the replica in its role."""
INDEX: Final = f"{_PREFIX}index"
"""Number of the replica in the app."""
CONTENT: Final = f"{_PREFIX}content"
"""What a record says, as JSON."""


def common(session: str, app_id: str, kind: str) -> dict[str, str]:
    """Return the labels that everything of an app has."""
    return {KEY: app_key(session, app_id), APP: app_id, SESSION: session, KIND: kind}


def of_replica(session: str, app_id: str, role: str, replica: int, index: int) -> dict[str, str]:
    """Return the labels of a container."""
    mine = {ROLE: role, REPLICA: str(replica), INDEX: str(index)}
    return common(session, app_id, "replica") | mine


def of_app(key: str) -> Mapping[str, list[str]]:
    """Return the filter for everything of one app, as lists and events take it."""
    return {"label": [f"{KEY}={key}"]}


def of_session(session: str) -> Mapping[str, list[str]]:
    """Return the filter for everything of one session."""
    return {"label": [f"{SESSION}={session}"]}
