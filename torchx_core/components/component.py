"""A component: a named function, or class, that makes an app from a few arguments."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never, cast

from torchx_core.components.arguments import call, fill, flags_of, from_words, to_words
from torchx_core.components.parameters import REQUIRED, Parameter
from torchx_core.components.problems import Flaw, refusal
from torchx_core.components.value_text import write_text
from torchx_core.components.words import read_words
from torchx_core.errors import ComponentArgumentError, ComponentHelpRequested
from torchx_core.specs import AppDef, snapshot_app
from torchx_core.specs.checks import is_map, show

__all__ = ["Component"]

_WIDTH = 100
_INDENT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A checked component; `find_component` makes them.

    Attributes:
        name: As it was asked for.
        summary: The first line of its docstring.
        description: The rest of its docstring, up to the first section.
        source: Where it comes from, for people.
        file: The file that defines it.
        line: Where in the file.
        parameters: Its arguments, in the order of its signature.
        function: What makes the app; for a class, it makes an object and calls its ``build()``.
    """

    name: str
    summary: str
    description: str
    source: str
    file: str
    line: int
    parameters: tuple[Parameter, ...]
    function: Callable[..., object]

    def build(
        self, args: Sequence[str] | Mapping[str, object] = (), defaults: Mapping[str, object] | None = None
    ) -> AppDef:
        """Call the component and return its app. What the component itself raises passes through.

        Args:
            args: The words of a command line, ``["-j", "2x2", "--script", "train.py", "--", "--lr", "3"]``,
                or argument -> value as from Python or JSON, ``{"j": "2x2", "script_args": ["--lr", "3"]}``;
                a text in the second form is read as on a command line.
            defaults: Argument -> text or value, for arguments that `args` does not give; they come before the
                defaults of the signature.

        Raises:
            ComponentArgumentError: An argument is unknown, missing, or does not fit.
            ComponentHelpRequested: The words have ``--help``, or ``-h`` where that is no argument.
            ComponentValidationException: The component returns something other than an app.
        """
        return self._app(call(self.function, self.parameters, self.values(args, defaults)))

    def values(
        self, args: Sequence[str] | Mapping[str, object] = (), defaults: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Return argument -> value, as `build` passes them; takes what it takes, and raises as it does."""
        given = (
            cast("Mapping[str, object]", args) if is_map(args) else self._read(cast("Sequence[str]", args))
        )
        return fill(self.name, self.parameters, given, defaults or {})

    def words(self, args: Mapping[str, object]) -> list[str]:
        """Return the words of a command line that mean these arguments; `build` takes either.

        Raises:
            ComponentArgumentError: An argument is unknown, does not fit, or is None, which no word means.
        """
        return to_words(self.name, self.parameters, args)

    def usage(self) -> str:
        """Return a text that explains the component and its arguments."""
        return usage_text(self.name, self.summary, self.description, self.parameters)

    def _read(self, words: Sequence[str]) -> dict[str, object]:
        if isinstance(words, str):
            raise ComponentArgumentError(self.name, words, "is one text; pass a list of words")
        for word in cast("Sequence[object]", words):
            if not isinstance(word, str):
                raise ComponentArgumentError(self.name, str(word), f"is no text: {show(word)}; quote it")
        read = read_words(self.name, words, flags_of(self.parameters))
        if read.help:
            raise ComponentHelpRequested(self.name, self.usage())
        return from_words(self.name, self.parameters, read)

    def _app(self, made: object) -> AppDef:
        if isinstance(made, AppDef):
            return made
        if hasattr(made, "roles"):
            return snapshot_app(made)  # TorchX's own, or one that looks like it
        flaw = Flaw(f"returned no AppDef: {show(made)}", "return one")
        raise refusal(self.name, self.file, self.line, [flaw])


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
        case "value":
            return "VALUE"
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
