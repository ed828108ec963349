"""Says in what two JSON values differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from torchx_core.schedulers.secrets import MASK, looks_secret

__all__ = ["differences"]

_MOST = 10
_ABSENT = object()


def differences(stored: object, given: object) -> list[str]:
    """Return ``path: stored -> given`` for the first few differences; secrets are masked.

    Example:
        >>> differences({"a": [1, 2]}, {"a": [1, 3]})
        ['a[1]: 2 -> 3']
    """
    found = [f"{path}: {_show(path, a)} -> {_show(path, b)}" for path, a, b in _walk("", stored, given)]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return found[:_MOST] + more


def _walk(path: str, a: object, b: object) -> Iterator[tuple[str, object, object]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        left, right = cast("Mapping[str, object]", a), cast("Mapping[str, object]", b)
        for key in sorted({*left, *right}):
            yield from _walk(f"{path}.{key}".lstrip("."), left.get(key, _ABSENT), right.get(key, _ABSENT))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
        one, two = cast("Sequence[object]", a), cast("Sequence[object]", b)
        for i in range(max(len(one), len(two))):
            yield from _walk(f"{path}[{i}]", _at(one, i), _at(two, i))
    elif a != b:
        yield path, a, b


def _at(values: Sequence[object], i: int) -> object:
    return values[i] if i < len(values) else _ABSENT


def _show(path: str, value: object) -> str:
    if value is _ABSENT:
        return "absent"
    return MASK if looks_secret(path.rpartition(".")[2]) else repr(value)
