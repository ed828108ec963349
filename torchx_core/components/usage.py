"""The text that explains a component on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import assert_never

from torchx_core.components.parameters import REQUIRED, Parameter
from torchx_core.components.value_text import write_text

__all__ = ["usage_text"]

_WIDTH = 100
_INDENT = 6


def usage_text(name: str, summary: str, description: str, parameters: Sequence[Parameter]) -> str:
    """Return how to write the arguments, what the component does, and what each argument means."""
    required = [f"{p.flags[-1]} {_kind(p)}" for p in parameters if p.default is REQUIRED and p.flags]
    options = ["[OPTIONS]"] if any(p.flags and p.default is not REQUIRED for p in parameters) else []
    varargs = [f"[--] [{p.name.upper()} ...]" for p in parameters if p.kind == "varargs"]
    parts = [" ".join(["usage:", name, *required, *options, *varargs])]
    parts += [text for text in (summary, description) if text]
    if parameters:
        parts.append("\n".join(["arguments:", *_explained(parameters)]))
    return "\n\n".join(parts) + "\n"


def _explained(parameters: Iterable[Parameter]) -> Iterable[str]:
    for p in parameters:
        yield f"  {', '.join(p.flags)} {_kind(p)}" if p.flags else f"  {p.name.upper()} ..."
        text = " ".join(part for part in (p.help, _default(p)) if part)
        yield from textwrap.wrap(text, _WIDTH, initial_indent=" " * _INDENT, subsequent_indent=" " * _INDENT)


def _kind(p: Parameter) -> str:
    names = [scalar.__name__.upper() for scalar in p.type.scalars]
    match p.type.shape:
        case "scalar":
            return names[0]
        case "list":
            return f"{names[0]},…"
        case "tuple":
            return ",".join(names)
        case "dict":
            return "=".join(names) + ",…"
        case _:
            assert_never(p.type.shape)


def _default(p: Parameter) -> str:
    if p.kind == "varargs":
        return ""
    if p.default is REQUIRED:
        return "(required)"
    return "" if p.default is None else f"(default: {write_text(p.default) or repr(p.default)})"
