"""Reads a docstring in Google style."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import NamedTuple

__all__ = ["Docstring", "read_docstring"]

_SECTION = re.compile(r"(?!\s)[A-Z][\w ]*:\s*")
_ARGUMENTS = ("args:", "arguments:", "parameters:")
_ENTRY = re.compile(r"(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Docstring(NamedTuple):
    """What a docstring tells people."""

    summary: str
    """Its first line."""
    description: str
    """What follows, up to the first section."""
    arguments: dict[str, str]
    """Argument -> explanation, on one line each."""


def read_docstring(text: str | None) -> Docstring:
    """Split a docstring; what it does not have is empty.

    Example:
        >>> read_docstring('''Train a model.
        ...
        ...     Args:
        ...         epochs: How
        ...             often.
        ... ''')
        Docstring(summary='Train a model.', description='', arguments={'epochs': 'How often.'})
    """
    lines = cleandoc(text or "").splitlines()
    first = next((i for i, line in enumerate(lines) if i and _SECTION.fullmatch(line)), len(lines))
    summary = lines[0].strip() if lines else ""
    return Docstring(summary, "\n".join(lines[1:first]).strip(), _arguments(lines[first:]))


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    inside, indent, current = False, "", ""
    for line in lines:
        if _SECTION.fullmatch(line):
            inside, indent = line.strip().lower() in _ARGUMENTS, ""
        entry = _ENTRY.fullmatch(line) if inside else None
        if entry and entry[1] == (indent or entry[1]):
            indent, current = entry[1], entry[2]
            found[current] = [entry[3]]
        elif inside and current and line.startswith(indent + " "):
            found[current].append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}
