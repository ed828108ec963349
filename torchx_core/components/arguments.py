"""Gives every argument of a component its value: what was asked for, else a default."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from torchx_core.components.parameters import REQUIRED, Parameter
from torchx_core.components.value_text import BadValue, accept_value, write_text
from torchx_core.components.words import Words
from torchx_core.errors import ComponentArgumentError, did_you_mean
from torchx_core.specs.checks import is_list

__all__ = ["call", "fill", "flags_of", "from_words", "to_words"]


def flags_of(parameters: Iterable[Parameter]) -> dict[str, str]:
    """Return flag -> argument."""
    return {flag: p.name for p in parameters for flag in p.flags}


def from_words(component: str, parameters: Iterable[Parameter], words: Words) -> dict[str, object]:
    """Return argument -> text, and the varargs as a list.

    Raises:
        ComponentArgumentError: The component takes no varargs.
    """
    found: dict[str, object] = {**words.options}
    if words.varargs is None:
        return found
    for p in parameters:
        if p.kind == "varargs":
            return {**found, p.name: words.varargs}
    if words.varargs:
        raise ComponentArgumentError(component, words.varargs[0], "has no flag; write --NAME=VALUE")
    return found


def fill(
    component: str,
    parameters: Sequence[Parameter],
    given: Mapping[str, object],
    defaults: Mapping[str, object],
) -> dict[str, object]:
    """Return a value for every argument: the given one, else the default, else the signature's.

    Raises:
        ComponentArgumentError: One is unknown, does not fit, or is missing.
    """
    _refuse_unknown(component, parameters, [*given, *defaults])
    asked = {**defaults, **given}
    missing = [p for p in parameters if p.name not in asked and p.default is REQUIRED and p.flags]
    if missing:
        names = ", ".join(p.flags[-1] for p in missing)
        raise ComponentArgumentError(component, missing[0].name, f"is missing; give {names}")
    return {
        p.name: _accept(component, p, asked[p.name]) if p.name in asked else _default(p) for p in parameters
    }


def call(
    function: Callable[..., object], parameters: Iterable[Parameter], values: Mapping[str, object]
) -> object:
    """Call the function with the values."""
    positional: list[object] = []
    keywords: dict[str, object] = {}
    for p in parameters:
        value = values[p.name]
        match p.kind:
            case "positional":
                positional.append(value)
            case "varargs":
                assert is_list(value)
                positional += value
            case "keyword":
                keywords[p.name] = value
    return function(*positional, **keywords)


def to_words(component: str, parameters: Sequence[Parameter], given: Mapping[str, object]) -> list[str]:
    """Return the words that mean these arguments.

    Raises:
        ComponentArgumentError: One is unknown, does not fit, or is None, which no word means.
    """
    _refuse_unknown(component, parameters, given)
    words: list[str] = []
    for p in parameters:
        if p.name not in given or p.kind == "varargs":
            continue
        value = _accept(component, p, given[p.name])
        if value is None:
            raise ComponentArgumentError(component, p.name, "is None, which no word means; leave it out")
        words.append(f"{p.flags[-1]}={write_text(value)}")
    for p in parameters:
        if p.name in given and p.kind == "varargs":
            words += ["--", *map(str, _words(component, p, given[p.name]))]
    return words


def _refuse_unknown(component: str, parameters: Iterable[Parameter], names: Iterable[str]) -> None:
    known = [p.name for p in parameters]
    for name in names:
        if name not in known:
            hint = f"known: {', '.join(known)}{did_you_mean(name, known)}"
            raise ComponentArgumentError(component, name, f"is unknown; {hint}")


def _default(p: Parameter) -> object:
    return [] if p.kind == "varargs" else p.default


def _accept(component: str, p: Parameter, value: object) -> object:
    if p.kind == "varargs":
        return _words(component, p, value)
    try:
        return accept_value(value, p.type)
    except BadValue as err:
        raise ComponentArgumentError(component, p.name, str(err)) from err


def _words(component: str, p: Parameter, value: object) -> list[object]:
    try:
        words = _split(value) if isinstance(value, str) else value
        return [accept_value(word, p.type) for word in _listed(words)]
    except BadValue as err:
        raise ComponentArgumentError(component, p.name, str(err)) from err


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as err:  # a quote is never closed
        raise BadValue(f"must be words as a shell reads them: {text!r} ({err})") from err


def _listed(value: object) -> Sequence[object]:
    if not is_list(value):
        raise BadValue(f"must be a list of words: {value!r}")
    return value
