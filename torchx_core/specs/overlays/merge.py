"""Merges an overlay into a request, or into an overlay that was stored before."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from torchx_core.errors import InvalidAppError, InvalidAppTypeError
from torchx_core.specs.checks import is_list, is_map, show
from torchx_core.specs.overlays.operators import read_key

__all__ = ["accumulate", "apply_overlay"]

_ABSENT = object()
_Map: TypeAlias = dict[str, object]
_Merge: TypeAlias = Callable[[_Map, Mapping[str, object], str], None]
_Take: TypeAlias = Callable[[object, str], object]


def apply_overlay(base: dict[str, object], overlay: Mapping[str, object]) -> None:
    """Merge the overlay into ``base``, in place; the overlay is not changed, and nothing of it is shared.

    Maps merge field by field, lists are appended, other values replaced; keys made by ``PUT``, ``JOIN`` and
    ``DEL`` say otherwise. No such key is left in ``base``, however deep it lay in the overlay.

    Raises:
        InvalidAppError: A list or a map meets something else, or JOIN something that is no list of maps.

    Example:
        >>> base = {"cpu": 1, "tags": ["a"], "spec": {"x": 1}}
        >>> apply_overlay(base, {"cpu": 2, "tags": ["b"], "spec": {"y": 2}})
        >>> base
        {'cpu': 2, 'tags': ['a', 'b'], 'spec': {'x': 1, 'y': 2}}
    """
    _apply(base, overlay, "overlay")


def accumulate(stored: dict[str, object], overlay: Mapping[str, object], path: str) -> None:
    """Merge the overlay into a stored one, in place, so that the operators still wait to be applied.

    For one field the last call counts; but maps merge, lists without an operator append, and JOIN merges into
    what JOIN, or a list without an operator, has stored.

    Args:
        stored: Changed.
        overlay: The caller's to give away: parts of it become parts of ``stored``.
        path: Where the overlay lies, for errors.

    Raises:
        InvalidAppError: As `apply_overlay`.
    """
    for name, value in overlay.items():
        key, where = read_key(name), f"{path}[{name!r}]"
        held = stored.get(name, stored.get(key.field))
        _forget(stored, key.field, but=name if key.operator == "merge" else None)
        match key.operator:
            case "merge":
                _merge(stored, name, value, where, accumulate, _verbatim)
            case "join":
                stored[name] = _joined(held if is_list(held) else [], value, key.on, where)
            case "put" | "del":
                stored[name] = _verbatim(value, where)


def _apply(base: _Map, overlay: Mapping[str, object], path: str) -> None:
    for name, value in overlay.items():
        key, where = read_key(name), f"{path}[{name!r}]"
        held = base.get(key.field, [])
        _forget(base, key.field, but=name if key.operator == "merge" else None)
        match key.operator:
            case "merge" if _is_tuple(value):  # replaces, as in TorchX
                base[name] = _resolved(value, where)
            case "merge":
                _merge(base, name, value, where, _apply, _resolved)
            case "join":
                base[key.field] = _joined(held, value, key.on, where)
            case "put":
                base[key.field] = _resolved(value, where)
            case "del":
                pass


def _merge(base: _Map, name: str, value: object, where: str, merge: _Merge, take: _Take) -> None:
    """Merge one field that has no operator."""
    held = base.get(name, _ABSENT)
    if is_map(held) and is_map(value):
        merge(cast("_Map", held), cast("_Map", value), where)
    elif is_list(held) and is_list(value):
        base[name] = [*held, *(take(item, where) for item in value)]
    elif held is not _ABSENT and any(is_map(side) or is_list(side) for side in (held, value)):
        raise InvalidAppTypeError(
            where, f"cannot be merged with {show(held)}: {show(value)}; use PUT to replace"
        )
    else:
        base[name] = take(value, where)


def _verbatim(value: object, where: str) -> object:  # noqa: ARG001  # one of two ways to take a value
    return value


def _resolved(value: object, where: str) -> object:
    """Return a copy in which no operator is left: there is nothing beneath that it could change."""
    if is_map(value):
        result: _Map = {}
        _apply(result, cast("_Map", value), where)
        return result
    if is_list(value):
        return [_resolved(item, f"{where}[{i}]") for i, item in enumerate(value)]
    return copy.deepcopy(value)


def _joined(held: object, value: object, on: str, where: str) -> list[_Map]:
    """Return the held items with the new ones merged in; an item's fields replace, they do not merge."""
    if not on:
        raise InvalidAppError(where, "is no key that JOIN(field, on=…) makes")
    result = list(_maps(held, where))
    known = {_plain(item[on], where): item for item in result if on in item}
    for item in _maps(value, where):
        new = cast("_Map", _resolved(item, where))
        match = known.setdefault(_plain(new[on], where), new) if on in new else new
        match.update(new)
        if match is new:
            result.append(new)
    return result


def _maps(value: object, where: str) -> list[_Map]:
    if not is_list(value) or not all(is_map(item) for item in value):
        raise InvalidAppTypeError(where, f"must be a list of maps, which JOIN needs: {show(value)}")
    items = cast("list[_Map]", value)
    if any(read_key(name).operator != "merge" for item in items for name in item):
        raise InvalidAppError(where, "items of JOIN set fields; they take no PUT, JOIN or DEL")
    return items


def _is_tuple(value: object) -> bool:
    return isinstance(value, tuple)


def _plain(value: object, where: str) -> object:
    if is_map(value) or is_list(value):
        raise InvalidAppTypeError(where, f"JOIN matches by plain values: {show(value)}")
    return value


def _forget(base: _Map, field: str, but: str | None = None) -> None:
    """Remove the field, whatever operator its key has."""
    for name in [name for name in base if name != but and read_key(name).field == field]:
        del base[name]
