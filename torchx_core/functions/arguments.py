"""Checks a call, and puts it on a command line."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Final

from torchx_core.errors import FunctionArgumentError, InvalidAppError
from torchx_core.functions.replica import Call
from torchx_core.functions.source import FunctionSource
from torchx_core.specs.checks import want_plain

__all__ = ["command_line"]

MAX_CALL_BYTES: Final = 256 << 10
"""Text and arguments. All command line and environment together may take 1 MiB on macOS, 2 MiB on Linux."""
WORD_BYTES: Final = 100 << 10
"""A single word may take 128 KiB (execve(2), MAX_ARG_STRLEN), so that a longer call is cut."""


def command_line(
    python: str, source: FunctionSource, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[str]:
    """Return the words that run the function with these arguments, to put into ``Role.args``.

    The call is one JSON document, in as many words as it takes. It is ASCII, so that no locale changes it.
    Nothing in it is a macro: a ``$`` arrives as it is.

    Raises:
        FunctionArgumentError: The arguments do not fit, are no plain data, or are too large.
    """
    bound = _plain(source, _bind(source, args, kwargs))
    call = Call(
        name=source.name,
        is_async=source.is_async,
        args=list(bound.args),
        kwargs=bound.kwargs,
        file=source.file,
        line=source.line,
        text=source.text,
    )
    document = json.dumps(call)
    if len(document) > MAX_CALL_BYTES:
        raise _too_large(source, bound.arguments)
    words = [document[i : i + WORD_BYTES] for i in range(0, len(document), WORD_BYTES)]
    return [python, "-c", *_without_macros([_program(), *words])]


def _bind(
    source: FunctionSource, args: Sequence[object], kwargs: Mapping[str, object]
) -> inspect.BoundArguments:
    try:
        return source.signature.bind(*args, **kwargs)
    except TypeError as err:
        raise FunctionArgumentError(source.name, f"{err}; it takes {source.signature}") from None


def _plain(source: FunctionSource, bound: inspect.BoundArguments) -> inspect.BoundArguments:
    """Return the same call with copies of its arguments, all of them plain data."""
    arguments: dict[str, object] = {}
    for name, value in bound.arguments.items():
        try:
            arguments[name] = want_plain(value, f"argument {name!r}")
        except InvalidAppError as err:
            raise FunctionArgumentError(source.name, f"{err.path} {err.problem}", name) from None
    return inspect.BoundArguments(source.signature, arguments)


def _too_large(source: FunctionSource, arguments: Mapping[str, object]) -> FunctionArgumentError:
    sizes = {name: len(json.dumps(value)) for name, value in arguments.items()}
    name = max(sizes, key=lambda name: sizes[name], default="")
    size = sizes.get(name, 0)
    limit = f"text and arguments of a call may take {MAX_CALL_BYTES}"
    if size < len(source.text):
        return FunctionArgumentError(source.name, f"its text takes {len(source.text)} bytes; {limit}")
    return FunctionArgumentError(
        source.name,
        f"argument {name!r} takes {size} bytes; {limit}; write it to a file and pass the path",
        name,
    )


def _program() -> str:
    return files("torchx_core.functions").joinpath("replica.py").read_text("utf-8")


def _without_macros(words: Iterable[str]) -> list[str]:
    return [word.replace("$", "$$") for word in words]
