"""Makes a value of what a record holds, and refuses what its type does not allow.

Types of records are classes whose annotations are text; each text below stands for one check. So a
flipped bit is found where the record is read, and not where a path is joined or a time is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import TypeVar, cast

from torchx_core.supervisor.reading import DamagedFile, read_object

T = TypeVar("T")

_LATEST = 253_402_300_799.0
"""The last second that a calendar has; seconds since the epoch."""
_LONGEST_SHOWN = 80
_MOST = 1e308


class Misshapen(Exception):  # it is caught by name, and told as damage of a file
    """What the record holds is not what its type says."""


def build(kind: type[T], record: object) -> T:
    """Return the value.

    Args:
        kind: A NamedTuple or a dataclass; a field that is no text, number or collection
            of texts is taken as it is, so the caller builds nested ones first.
        record: Its fields by name, out of JSON.

    Raises:
        Misshapen: A field is missing, unknown or of another type.
    """
    if not isinstance(record, dict):
        raise Misshapen(f"{kind.__name__} is no object")
    fields = cast("dict[str, object]", record)
    for name, fits in _checks_of(cast("Hashable", kind)):
        if name in fields and not fits(fields[name]):
            raise Misshapen(f"{kind.__name__}.{name} is {shown(fields[name])}")
    try:
        return kind(**fields)  # each was checked
    except TypeError as err:
        raise Misshapen(str(err)) from err


def read_shaped(kind: type[T], path: str) -> T | None:
    """Return the value in the file, without the fields that its type does not have; None if it is absent.

    Raises:
        DamagedFile: It is none.
    """
    record = read_object(path)
    if record is None:
        return None
    try:
        return build(kind, {name: record[name] for name in kind.__annotations__ if name in record})
    except Misshapen as err:
        raise DamagedFile(path, str(err)) from err


def rows(record: object, name: str) -> list[object]:
    """Return the list that the record holds under the name."""
    value = cast("dict[str, object]", record).get(name) if isinstance(record, dict) else None
    if not isinstance(value, list):
        raise Misshapen(f"{name} is no list")
    return cast("list[object]", value)


def shown(value: object) -> str:
    """Return the beginning of it, for a message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def is_text(value: object) -> bool:
    """Return whether it is text."""
    return isinstance(value, str)


def is_whole(value: object) -> bool:
    """Return whether it is a whole number that 64 bits can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_number(value: object) -> bool:
    """Return whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST


def is_time(value: object) -> bool:
    """Return whether it is a time since the epoch that a calendar has."""
    return is_number(value) and 0 <= cast("float", value) <= _LATEST


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(is_text, cast("list[object]", value)))


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(map(is_text, cast("dict[str, object]", value).values()))


_CHECKS: dict[str, Callable[[object], bool]] = {
    "str": is_text,
    "int": is_whole,
    "float": is_number,
    "bool": lambda value: isinstance(value, bool),
    "list[str]": _is_texts,
    "tuple[str, ...]": _is_texts,
    "dict[str, str]": _is_text_map,
}


@cache
def _checks_of(kind: Hashable) -> list[tuple[str, Callable[[object], bool]]]:
    """Return the fields to check; a plan has thousands of replicas, so this is asked once."""
    found: list[tuple[str, Callable[[object], bool]]] = []
    for name, annotation in cast("type[object]", kind).__annotations__.items():
        # NamedTuple wraps the text of an annotation.
        text = str(getattr(annotation, "__forward_arg__", annotation))
        check = _CHECKS.get(text.removesuffix(" | None"))
        if check is is_number and (name == "time" or name.endswith("_at")):
            check = is_time
        if check is not None:
            found.append((name, _or_none(check) if text.endswith(" | None") else check))
    return found


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)
