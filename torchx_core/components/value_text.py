"""The text form of an argument's value.

::

    bool   = true, 1, yes, on | false, 0, no, off          in any case
    list   = item ("," item)*                              also a tuple; no text at all is the empty list
    dict   = pair (("," | ";") pair)*                      pair = key "=" value
    item, key, value = plain | quoted                      white space around them does not count
    quoted = "…" or '…', with the quote itself doubled: 'it''s'

A separator in a dict starts the next pair only when a key and ``=`` follow; else it belongs to the value, so
TorchX's ``A=v1,v2,B=v3`` needs no quotes. Quotes are for what holds a separator, or begins or ends with white
space or a quote.
"""

from __future__ import annotations

import re
from typing import Final, assert_never

from torchx_core.components.value_types import Scalar, ValueType
from torchx_core.specs.checks import is_list, is_map

__all__ = ["BadValue", "accept_value", "read_text", "write_text"]

_QUOTED = r""" "(?:[^"]|"")*+" | '(?:[^']|'')*+' """
_ITEM = re.compile(rf"\s* (?: ({_QUOTED}) \s* | ([^,]*) ) (,|\Z)", re.VERBOSE)
_PLAIN_KEY = r"[^=,;\s] [^=,;]*"
_PAIR = re.compile(
    rf"""\s* (?: ({_QUOTED}) \s* | ({_PLAIN_KEY}) ) =
         \s* (?: ({_QUOTED}) \s* | (.*?) )
         (?: \Z | [,;] (?= \s* (?: (?:{_QUOTED}) \s* | {_PLAIN_KEY} ) = ) )""",
    re.VERBOSE | re.DOTALL,
)
_BOOLS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


class BadValue(ValueError):
    """Why a value does not fit, as the end of a sentence that begins with its argument."""


def read_text(text: str, tp: ValueType) -> object:
    """Return the value that the text spells.

    Raises:
        BadValue: It spells none of that type.
    """
    match tp.shape:
        case "scalar":
            return _scalar(text, tp.scalars[0])
        case "list":
            return [_scalar(item, tp.scalars[0]) for item in _items(text)]
        case "tuple":
            return _tuple(_items(text), tp)
        case "dict":
            key, value = tp.scalars
            return {_scalar(k, key): _scalar(v, value) for k, v in _pairs(text)}
        case "value":
            raise BadValue(f"can only be given as a value of Python's, not as text: {text!r}")
        case _:
            assert_never(tp.shape)


def accept_value(value: object, tp: ValueType) -> object:
    """Return a value that is no text, as it comes from Python or JSON, with the right type; text is read.

    Raises:
        BadValue: It does not fit.
    """
    if isinstance(value, str):
        return read_text(value, tp)
    if tp.shape == "value" or (value is None and tp.optional):
        return value
    match tp.shape:
        case "scalar":
            return _scalar(value, tp.scalars[0])
        case "list" if is_list(value):
            return [_scalar(item, tp.scalars[0]) for item in value]
        case "tuple" if is_list(value):
            return _tuple(list(value), tp)
        case "dict" if is_map(value):
            key, item = tp.scalars
            return {_scalar(k, key): _scalar(v, item) for k, v in value.items()}
        case _:
            raise BadValue(f"must be {tp}: {value!r} ({type(value).__name__})")


def write_text(value: object) -> str:
    """Return the text that `read_text` reads back; None has none."""
    if is_map(value):
        return ",".join(
            f"{_plain_or_quoted(str(k), '=,;')}={_written_value(str(v))}" for k, v in value.items()
        )
    if is_list(value):
        return ",".join(_plain_or_quoted(str(item), ",") for item in value)
    return str(value)


def _written_value(value: str) -> str:
    return _plain_or_quoted(value, ",;") if value else ""


def _plain_or_quoted(text: str, special: str) -> str:
    plain = text and text == text.strip() and text[0] not in "\"'" and not set(special) & set(text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _items(text: str) -> list[str]:
    items: list[str] = []
    at, more = 0, bool(text.strip())
    while more:
        found = _ITEM.match(text, at)
        assert found  # the plain item takes whatever there is
        items.append(_content(found[1], found[2]))
        at, more = found.end(), found[3] == ","
    return items


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        found = _PAIR.match(text, at)
        if not found:
            raise BadValue(f"must be KEY=VALUE[,KEY=VALUE…]: {text[at:]!r}")
        pairs.append((_content(found[1], found[2]), _content(found[3], found[4])))
        at = found.end()
    return pairs


def _content(quoted: str | None, plain: str | None) -> str:
    if quoted is None:
        return (plain or "").strip()
    return quoted[1:-1].replace(quoted[0] * 2, quoted[0])


def _tuple(items: list[str] | list[object], tp: ValueType) -> tuple[object, ...]:
    if len(items) != len(tp.scalars):
        raise BadValue(f"must have {len(tp.scalars)} items, {tp}: {len(items)} given")
    return tuple(_scalar(item, scalar) for item, scalar in zip(items, tp.scalars, strict=True))


def _scalar(value: object, scalar: Scalar) -> str | int | float | bool:
    match value:
        case str():
            return _read_scalar(value, scalar)
        case bool() if scalar is bool:
            return value
        case int() if scalar is int and not isinstance(value, bool):
            return value
        case int() | float() if scalar is float and not isinstance(value, bool):
            return _float(value)
        case _:
            raise BadValue(f"must be {scalar.__name__}: {value!r} ({type(value).__name__})")


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError as err:
        raise BadValue("must be float: an integer that is too large for one") from err


def _read_scalar(text: str, scalar: Scalar) -> str | int | float | bool:
    if scalar is bool:
        if text.strip().lower() not in _BOOLS:
            raise BadValue(f"must be one of {', '.join(_BOOLS)}: {text!r}")
        return _BOOLS[text.strip().lower()]
    try:
        return scalar(text)
    except ValueError as err:
        raise BadValue(f"must be {scalar.__name__}: {text!r}") from err
