"""Names and labels: what a thing on the engine is called, whose it is, and what it says.

A name is the same from everywhere, so that to create a thing twice is an error and not a second app.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final

__all__ = [
    "APP",
    "CONTENT",
    "INDEX",
    "KEY",
    "KIND",
    "NONCE",
    "REPLICA",
    "ROLE",
    "SESSION",
    "alias",
    "app_key",
    "app_name",
    "common",
    "is_record_name",
    "of_app",
    "of_replica",
    "of_session",
    "record_name",
    "replica_name",
]

_PREFIX: Final = "torchx-core."

KEY: Final = f"{_PREFIX}key"
"""`names.app_key`: on everything of the app."""
APP: Final = f"{_PREFIX}app"
SESSION: Final = f"{_PREFIX}session"
KIND: Final = f"{_PREFIX}kind"
"""``replica``, ``network`` or a record's kind."""
NONCE: Final = f"{_PREFIX}nonce"
"""Of which submit of the app a container is; those of an earlier release have none."""
ROLE: Final = f"{_PREFIX}role"
REPLICA: Final = f"{_PREFIX}replica"
"""Number of the replica in its role."""
INDEX: Final = f"{_PREFIX}index"
"""Number of the replica in the app."""
CONTENT: Final = f"{_PREFIX}content"
"""What a record says, as JSON."""
_FORBIDDEN = re.compile(r"[^a-z0-9-]+")
_RECORD = re.compile(r"[a-z0-9-]+-[0-9a-f]{12}\.[0-9a-f]{12}\.[a-z]+[0-9.-]*")
_APP_CHARS, _ROLE_CHARS = 24, 16  # a host name has room for 63 characters


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


def app_key(session: str, app_id: str) -> str:
    """Return what labels name the app by; any session and id make a key that every filter can hold.

    Example:
        >>> app_key("s", "one")
        '54b078eb6902'
    """
    return hashlib.sha256(json.dumps([session, app_id]).encode()).hexdigest()[:12]


def app_name(session: str, app_id: str) -> str:
    """Return the name of the app's volume and network."""
    return f"{_slug(app_id, _APP_CHARS)}-{app_key(session, app_id)}"


def replica_name(session: str, app_id: str, role: str, replica: int) -> str:
    """Return the name of the replica's container, which is its host name too."""
    key = app_key(app_key(session, app_id), role)
    return f"{_slug(app_id, _APP_CHARS)}-{_slug(role, _ROLE_CHARS)}-{replica}-{key}"


def alias(role: str, replica: int) -> str:
    """Return the short name by which the app's other replicas find it, for example ``trainer-0``."""
    return f"{_slug(role, 63 - len(str(replica)))}-{replica}"


def record_name(app: str, nonce: str, kind: str, number: int = 1) -> str:
    """Return the name of one of the app's records, the first or a later one for it.

    The nonce is the one of this submit: what an app that was deleted left behind is no record of the next.
    """
    return f"{app}.{nonce}.{kind}{f'-{number}' if number > 1 else ''}"


def is_record_name(name: str) -> bool:
    """Return whether only a record can have that name.

    Example:
        >>> is_record_name("train-54b078eb6902.0123456789ab.owner.3"), is_record_name("train-54b078eb6902")
        (True, False)
    """
    return _RECORD.fullmatch(name) is not None


def _slug(text: str, size: int) -> str:
    return _FORBIDDEN.sub("-", text.lower()).strip("-")[:size].rstrip("-") or "x"
