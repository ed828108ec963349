"""Keys of an overlay that say more than "merge": ``PUT``, ``JOIN`` and ``DEL``."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torchx_core.errors import InvalidInputError

__all__ = ["DEL", "JOIN", "PUT", "Key", "read_key"]

_PUT = "__put__:"
_JOIN = "__join__:"
_DEL = "__del__:"


class Key(NamedTuple):
    """What a key of an overlay means."""

    operator: Literal["merge", "put", "join", "del"]
    field: str
    on: str = ""
    """The field by which JOIN matches."""


def PUT(key: str) -> str:  # noqa: N802  (TorchX's name)
    """Return the key that replaces the field's value, whatever it was.

    Example:
        >>> PUT("containers")
        '__put__:containers'
    """
    return f"{_PUT}{key}"


def JOIN(key: str, *, on: str) -> str:  # noqa: N802  (TorchX's name)
    """Return the key that merges a list of maps into the field's by a field of the maps.

    An item that has the same value for ``on`` as one that is there sets its fields; any other is appended.

    Raises:
        InvalidInputError: The names cannot be told apart again.

    Example:
        >>> JOIN("containers", on="name")
        '__join__:containers:name'
    """
    if not on or ":" in key:
        raise InvalidInputError(f"cannot join {key!r} on {on!r}; 'on' names a field, the key has no colon")
    return f"{_JOIN}{key}:{on}"


def DEL(key: str) -> str:  # noqa: N802  (TorchX's name)
    """Return the key that removes the field; its value means nothing, None by convention.

    ``{"field": None}`` on the other hand sets the field to null.

    Example:
        >>> DEL("hostNetwork")
        '__del__:hostNetwork'
    """
    return f"{_DEL}{key}"


def read_key(key: str) -> Key:
    """Return what the key means; one without an operator means "merge"."""
    if key.startswith(_PUT):
        return Key("put", key.removeprefix(_PUT))
    if key.startswith(_DEL):
        return Key("del", key.removeprefix(_DEL))
    if key.startswith(_JOIN):
        field, _, on = key.removeprefix(_JOIN).partition(":")
        return Key("join", field, on)
    return Key("merge", key)
