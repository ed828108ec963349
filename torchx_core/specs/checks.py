"""Checks of single values that say where a value is wrong, what it is and what was expected."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypeGuard, cast

from torchx_core.errors import InvalidAppError, InvalidAppTypeError, did_you_mean

__all__ = [
    "is_list",
    "is_map",
    "show",
    "want_app_metadata",
    "want_bool",
    "want_fields",
    "want_float",
    "want_int",
    "want_int_map",
    "want_list",
    "want_map",
    "want_plain",
    "want_plain_map",
    "want_str",
    "want_str_list",
    "want_str_map",
]

_SHOWN = 80
_MAX_DEPTH = 100


def show(value: object) -> str:
    """Return the value, shortened, with its type."""
    text = repr(value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}…"
    return f"{text} ({type(value).__name__})"


def is_map(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether it is a map of anything; tells type checkers so, as isinstance alone cannot."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether it is a list or a tuple of anything."""
    return isinstance(value, list | tuple)


def want_str(value: object, path: str) -> str:
    """Return the string, or raise InvalidAppError."""
    if not isinstance(value, str):
        raise InvalidAppTypeError(path, f"must be a string: {show(value)}; in YAML, quote it")
    return value


def want_int(value: object, path: str) -> int:
    """Return the integer (a bool is none), or raise InvalidAppError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidAppTypeError(path, f"must be an integer: {show(value)}")
    return value


def want_float(value: object, path: str) -> float:
    """Return the number (a bool is none), or raise InvalidAppError."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidAppTypeError(path, f"must be a number: {show(value)}")
    return value


def want_bool(value: object, path: str) -> bool:
    """Return the bool, or raise InvalidAppError."""
    if not isinstance(value, bool):
        raise InvalidAppTypeError(path, f"must be true or false: {show(value)}")
    return value


def want_list(value: object, path: str) -> list[object]:
    """Return a new list, or raise InvalidAppError; a tuple will do."""
    if not is_list(value):
        raise InvalidAppTypeError(path, f"must be a list: {show(value)}")
    return list(value)


def want_map(value: object, path: str) -> dict[str, object]:
    """Return a new dict, or raise InvalidAppError when it is not a map with strings as keys."""
    if not is_map(value):
        raise InvalidAppTypeError(path, f"must be a map: {show(value)}")
    return {want_str(key, f"{path} key"): item for key, item in value.items()}


def want_str_list(value: object, path: str) -> list[str]:
    """Return a new list of strings, or raise InvalidAppError."""
    return [want_str(item, f"{path}[{i}]") for i, item in enumerate(want_list(value, path))]


def want_str_map(value: object, path: str) -> dict[str, str]:
    """Return a new dict of strings, or raise InvalidAppError."""
    return {key: want_str(item, f"{path}[{key!r}]") for key, item in want_map(value, path).items()}


def want_app_metadata(value: object, path: str) -> dict[str, str]:
    """Return a new dict of strings, or raise InvalidAppError; maps of plain data (overlays) will do."""
    given = want_plain_map(value, path)
    for key, item in given.items():
        if not is_map(item):
            want_str(item, f"{path}[{key!r}]")
    return cast("dict[str, str]", given)


def want_int_map(value: object, path: str) -> dict[str, int]:
    """Return a new dict of integers, or raise InvalidAppError."""
    return {key: want_int(item, f"{path}[{key!r}]") for key, item in want_map(value, path).items()}


def want_plain(value: object, path: str, depth: int = 0) -> object:
    """Return a deep copy with tuples as lists, or raise InvalidAppError when JSON cannot hold the value."""
    if depth > _MAX_DEPTH:
        raise InvalidAppError(path, f"must not be nested deeper than {_MAX_DEPTH} levels")
    if is_map(value):
        return {k: want_plain(item, f"{path}[{k!r}]", depth + 1) for k, item in want_map(value, path).items()}
    if is_list(value):
        return [want_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    finite = not isinstance(value, float) or math.isfinite(value)
    if value is not None and not (isinstance(value, str | int | float) and finite):
        raise InvalidAppTypeError(path, f"must be plain data that JSON can hold: {show(value)}")
    return value


def want_plain_map(value: object, path: str) -> dict[str, object]:
    """Return a deep copy of a map of plain values (see `want_plain`), or raise InvalidAppError."""
    return {k: want_plain(item, f"{path}[{k!r}]") for k, item in want_map(value, path).items()}


def want_fields(
    value: object, path: str, known: Collection[str], required: Collection[str]
) -> dict[str, object]:
    """Return a new dict, or raise InvalidAppError for a field that is unknown or missing."""
    given = want_map(value, path)
    for name in given:
        if name not in known:
            raise InvalidAppError(
                path, f"unknown field {name!r}; known: {', '.join(known)}{did_you_mean(name, known)}"
            )
    for name in required:
        if name not in given:
            raise InvalidAppError(path, f"field {name!r} is missing")
    return given
