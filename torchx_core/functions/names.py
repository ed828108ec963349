"""Finds the names that a function's code reads and that nobody defines where it will run."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator
from types import CodeType
from typing import Final

__all__ = ["foreign_names"]

_READS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_SET_BY_PYTHON: Final = frozenset({"__annotations__", "__builtins__", "__name__"})
"""In a class body or a module, beside what `builtins` has."""


def foreign_names(code: CodeType) -> dict[str, int]:
    """Return the names that the code and the functions in it need from elsewhere.

    Bytecode is asked, not the text: the compiler has already told locals from globals, in comprehensions,
    nested functions and classes alike.

    Args:
        code: Of a module that defines the function and does nothing else.

    Returns:
        Name -> first line that reads it, in the order of lines.
    """
    known = {*dir(builtins), *_SET_BY_PYTHON, *_names(code, {"STORE_NAME"})}
    known.update(name for each in _codes(code) for name in _names(each, {"STORE_GLOBAL"}))
    found: dict[str, int] = {}
    for each in _codes(code):
        own = set(_names(each, {"STORE_NAME"}))  # a class reads its own names as if they were global
        for name, line in _names(each, _READS).items():
            if name not in known | own:
                found[name] = min(line, found.get(name, line))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names(code: CodeType, instructions: frozenset[str] | set[str]) -> dict[str, int]:
    """Return the names that these instructions work on, each with its first line."""
    found: dict[str, int] = {}
    for each in dis.get_instructions(code):
        if each.opname in instructions:
            line = each.positions.lineno if each.positions else None
            found.setdefault(str(each.argval), line or code.co_firstlineno)
    return found
