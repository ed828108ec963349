"""Who owns an app: a token, changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from torchx_core.schedulers.stored import StoredApp
from torchx_core.supervisor.reading import DamagedFile, read_object
from torchx_core.supervisor.records import replace_whole

__all__ = ["owned_by", "owner_of", "set_owner"]

_OWNER = "owner.json"
_LOCK = "owner.lock"


def owner_of(record: StoredApp) -> str | None:
    """Return the owner's token, or None."""
    with record.naming_damage():
        path = record.path(_OWNER)
        content = read_object(path)
        if content is None:
            return None
        token = content.get("token")
        if not isinstance(token, str):
            raise DamagedFile(path, "has no token")
        return token


def set_owner(record: StoredApp, token: str, expected: str | None, *, force: bool) -> bool:
    """Change the owner if it is the expected one; return whether the token owns the app now."""
    with record.locked(_LOCK):
        if not force:  # else whatever is there gives way, damaged or not
            present = owner_of(record)
            if present == token:
                return True
            if present != expected:
                return False
        replace_whole(record.directory, _OWNER, {"token": token})
        return True


@contextmanager
def owned_by(record: StoredApp, token: str | None) -> Generator[bool]:
    """Yield whether the token owns the app, and keep it so inside the block; None is always right."""
    if token is None:
        yield True
        return
    with record.locked(_LOCK):
        yield owner_of(record) == token
