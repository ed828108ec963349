"""Names on the engine: the same from everywhere, so creating a thing twice is an error, not a second app."""

from __future__ import annotations

import hashlib
import json
import re

__all__ = ["alias", "app_key", "app_name", "is_record_name", "record_name", "replica_name"]

_FORBIDDEN = re.compile(r"[^a-z0-9-]+")
_RECORD = re.compile(r"[a-z0-9-]+-[0-9a-f]{12}\.[0-9a-f]{12}\.[a-z]+[0-9.-]*")
_APP_CHARS, _ROLE_CHARS = 24, 16  # a host name has room for 63 characters


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
