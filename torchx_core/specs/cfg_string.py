r"""The text form of a cfg: ``key=value`` pairs, separated by ``,`` or ``;``.

::

    cfg    = pair (sep pair)*             sep    = "," | ";"
    pair   = key "=" item (sep item)*     key    = letter or "_", then letters, digits, "_", "." and "-"
    item   = plain                        plain  = characters up to the next separator
           | quoted                       quoted = "…" or '…', with the quote itself doubled: 'it''s'
           | quoted ":" quoted            (an entry of a dict)

A separator starts the next pair when a key and ``=`` follow it; else it belongs to the value, where lists
and dicts read it as theirs. So TorchX's ``FOO=v1,v2,BAR=v3`` needs no quotes, and neither does a ``=`` in
a value. Quotes are for values that hold what looks like a pair, or that begin or end with white space. As in
TorchX, nothing is escaped inside quotes, and a list or dict that is quoted as a whole is still split: one
item with a separator is ``FOO="a,b",``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, assert_never

from torchx_core.specs.cfg_types import CfgVal, Kind

__all__ = ["CfgSyntaxError", "RawValue", "is_key", "read_text", "read_value", "split_cfg", "write_value"]

_KEY = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*=\s*")
_SEPARATOR = re.compile("[,;]")
_QUOTE = re.compile(r"\s*([\"'])")
_QUOTED = re.compile(r"""\s*(?:"((?:[^"]|"")*+)"|'((?:[^']|'')*+)')\s*""")
_BOOLS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


class CfgSyntaxError(ValueError):
    """Why a text cannot be read; the caller adds which option it is about."""


class _Item(NamedTuple):
    text: str
    quoted: bool = False
    key: str | None = None
    """Set for a quoted dict entry, whose value is the text."""


class RawValue(NamedTuple):
    """A value, not yet given a type."""

    text: str
    items: tuple[_Item, ...]


def is_key(name: str) -> bool:
    """Return whether the text form can name such an option."""
    return _KEY.fullmatch(f"{name}=") is not None and name == name.strip()


def split_cfg(text: str) -> list[tuple[str, RawValue]]:
    """Split into keys and raw values, in the order given.

    Raises:
        CfgSyntaxError: A pair does not start with a key and ``=``, or a quote is wrong.
    """
    text = text.strip()
    pairs: list[tuple[str, RawValue]] = []
    at = 0
    while at < len(text):
        key = _KEY.match(text, at)
        if not key:
            raise CfgSyntaxError(f"expected KEY=VALUE[,KEY=VALUE…] at {text[at:]!r}")
        value, at = _scan_value(text, key.end())
        pairs.append((key[1], value))
    return pairs


def _scan_value(text: str, start: int, *, alone: bool = False) -> tuple[RawValue, int]:
    items: list[_Item] = []
    at = start
    while True:
        item, end = _scan_item(text, at)
        items.append(item)
        at = end + 1
        if end >= len(text) or (not alone and _KEY.match(text, at)):
            return RawValue(text[start:end], tuple(items)), at


def _scan_item(text: str, at: int) -> tuple[_Item, int]:
    if not _QUOTE.match(text, at):
        separator = _SEPARATOR.search(text, at)
        end = separator.start() if separator else len(text)
        return _Item(text[at:end]), end
    item, end = _scan_quoted(text, at)
    if text.startswith(":", end) and _QUOTE.match(text, end + 1):
        value, end = _scan_quoted(text, end + 1)
        item = value._replace(key=item.text)
    if text[end : end + 1] not in ("", ",", ";"):
        raise CfgSyntaxError(f"expected ',' or ';' after the closing quote at {text[end:]!r}")
    return item, end


def _scan_quoted(text: str, at: int) -> tuple[_Item, int]:
    found = _QUOTED.match(text, at)
    if not found:
        raise CfgSyntaxError(f"a quote is never closed at {text[at:]!r}; put it into other quotes")
    double, single = found.groups()
    content = single.replace("''", "'") if double is None else double.replace('""', '"')
    return _Item(content, quoted=True), found.end()


def read_text(text: str, kind: Kind) -> CfgVal:
    """Read a value that stands alone, as in a configuration file: no pair can follow it.

    So a number or a text is taken literally, unless quotes enclose all of it; in a list or a dict, a line
    break separates like a comma.

    Raises:
        CfgSyntaxError: It does not spell a value of that type.
    """
    if kind in ("list[str]", "dict[str, str]"):
        lines = [_scan_value(line, 0, alone=True)[0] for line in text.split("\n")]
        return read_value(RawValue(text, tuple(item for line in lines for item in line.items)), kind)
    item = _scan_quoted(text, 0)[0] if _QUOTED.fullmatch(text) else _Item(text)
    return read_value(RawValue(text, (item,)), kind)


def read_value(raw: RawValue, kind: Kind) -> CfgVal:
    """Give the raw value its type.

    Raises:
        CfgSyntaxError: It does not spell a value of that type.
    """
    match kind:
        case "str":
            return _scalar(raw)
        case "bool":
            return _bool(_scalar(raw))
        case "int":
            return _number(int, _scalar(raw))
        case "float":
            return _number(float, _scalar(raw))
        case "list[str]":
            return [_list_item(item) for item in _items(raw)]
        case "dict[str, str]":
            return dict(_dict_item(item) for item in _items(raw))
        case _:
            assert_never(kind)


def _scalar(raw: RawValue) -> str:
    if not any(item.quoted for item in raw.items):
        return raw.text.strip()
    first, *others = raw.items
    if others or first.key is not None:
        raise CfgSyntaxError(f'expected one quoted text, as in "a,b": {raw.text}')
    return first.text


def _bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in _BOOLS:
        raise CfgSyntaxError(f"expected one of {', '.join(_BOOLS)}: {text!r}")
    return _BOOLS[word]


def _number(tp: type[int | float], text: str) -> int | float:
    try:
        return tp(text)
    except ValueError as err:
        raise CfgSyntaxError(f"expected {tp.__name__}: {text!r}") from err


def _items(raw: RawValue) -> Iterable[_Item]:
    items = raw.items
    if len(items) == 1 and items[0].quoted and items[0].key is None:
        items = tuple(map(_Item, _SEPARATOR.split(items[0].text)))
    return (item for item in items if item.quoted or item.text)


def _list_item(item: _Item) -> str:
    if item.key is not None:
        raise CfgSyntaxError(f"expected a text, not key and value: {item.key!r}:{item.text!r}")
    return item.text


def _dict_item(item: _Item) -> tuple[str, str]:
    if item.key is not None:
        return item.key, item.text
    key, colon, value = item.text.partition(":")
    if not colon:
        raise CfgSyntaxError(f"expected key:value: {key!r}")
    return key, value


def write_value(value: CfgVal) -> str:
    """Return the text that `read_value` reads back; None has none."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value if _is_plain(value) else _quote(value)
        case list():
            return _write_list(value)
        case dict():
            return ",".join(_write_entry(key, item) for key, item in value.items())
        case _:
            return repr(value)


def _is_plain(text: str) -> bool:
    return not (text.startswith(("'", '"')) or _SEPARATOR.search(text) or text != text.strip())


def _write_list(items: list[str]) -> str:
    written = ",".join(item if item and _is_plain_item(item) else _quote(item) for item in items)
    quoted_as_a_whole = len(items) == 1 and written != items[0]
    return f"{written}," if quoted_as_a_whole else written


def _is_plain_item(text: str) -> bool:
    return "=" not in text and _is_plain(text)


def _write_entry(key: str, value: str) -> str:
    plain = _is_plain_item(key) and _is_plain_item(value) and ":" not in key
    return f"{key}:{value}" if plain else f"{_quote(key)}:{_quote(value)}"


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
