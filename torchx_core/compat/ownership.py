"""Who owns an app: a token, changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from torchx_core.compat.records import Record, text

__all__ = ["owned_by", "owner_of", "take_over"]


def owner_of(record: Record) -> str | None:
    """Return the owner's token, or None."""
    told = record.get("owner")
    return None if told is None else text(told, "token")


def take_over(record: Record, token: str, expected: str | None, *, force: bool) -> bool:
    """Change the owner if it is the expected one; return whether the token owns the app now."""
    with record.locked("owner"):
        present = owner_of(record)
        if present != token and (force or present == expected):
            record.replace("owner", {"token": token})
        return owner_of(record) == token


@contextmanager
def owned_by(record: Record, token: str | None) -> Generator[bool]:
    """Yield whether the token owns the app, and keep it so inside the block; None is always right."""
    if token is None:
        yield True
        return
    with record.locked("owner"):
        yield owner_of(record) == token
