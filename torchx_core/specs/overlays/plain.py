"""Writes an overlay out as plain data."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum

from torchx_core.errors import InvalidAppTypeError
from torchx_core.specs.checks import is_list, is_map, show, want_map, want_plain
from torchx_core.specs.overlays.operators import PUT, read_key

__all__ = ["as_overlay"]


def as_overlay(overlay: object, path: str = "overlay") -> dict[str, object]:
    """Return a copy of a map or dataclass that JSON can hold.

    Fields of dataclasses that are None are left out, enums become their values, and a tuple in place of a
    list becomes what it means in TorchX: PUT.

    Raises:
        InvalidAppTypeError: It is neither, or something in it is no plain data.
    """
    if is_dataclass(overlay) and not isinstance(overlay, type):
        return _written(_fields(overlay), path)
    if not is_map(overlay):
        raise InvalidAppTypeError(path, f"must be a map or a dataclass: {show(overlay)}")
    return _written(overlay, path)


def _fields(value: object) -> dict[str, object]:
    """Return the fields of a dataclass that are not None."""
    names = [field.name for field in fields(value)]  # type: ignore[arg-type]  # the caller knows that it is one
    return {name: item for name in names if (item := getattr(value, name)) is not None}


def _written(given: object, path: str) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in want_map(given, path).items():
        written = _plain(value, f"{path}[{key!r}]")
        replaces = isinstance(value, tuple) and read_key(key).operator == "merge"
        result[PUT(key) if replaces else key] = written
    return result


def _plain(value: object, path: str) -> object:
    if isinstance(value, Enum):
        return _plain(value.value, path)
    if is_map(value) or is_dataclass(value):
        return as_overlay(value, path)
    if is_list(value):
        return [_plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
    return want_plain(value, path)
