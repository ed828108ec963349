"""Reads a function as the text that travels, and refuses what could not run elsewhere."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final, TypeAlias

from torchx_core.errors import InvalidFunctionError
from torchx_core.functions.replica import compile_text

__all__ = ["FunctionSource", "check_function", "read_function"]

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_NOWHERE: Final = object()
_READS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_SET_BY_PYTHON: Final = frozenset({"__annotations__", "__builtins__", "__name__"})
"""In a class body or a module, beside what `builtins` has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSource:
    """A function that can run elsewhere."""

    name: str
    text: str
    """From its ``def`` to its end, without decorators; an indented one below an ``if``, so that what its
    texts of many lines hold stays as it is."""
    file: str
    """Without directories: a request must not depend on where a file lies."""
    line: int
    """Of the text's first line in that file."""
    signature: inspect.Signature
    is_async: bool


def check_function(function: Callable[..., object]) -> None:
    """Find out whether the function can run as an app, as `function_app` does, without any arguments.

    Raises:
        InvalidFunctionError: It cannot; all reasons at once.
    """
    read_function(function)


def read_function(function: Callable[..., object]) -> FunctionSource:
    """Return the function as text; raises as `check_function` does."""
    name = getattr(function, "__qualname__", repr(function))
    if not isinstance(function, FunctionType):
        raise InvalidFunctionError(name, [f"it is {_kind(function)}; write a plain `def`"])
    file, first = Path(function.__code__.co_filename).name, function.__code__.co_firstlineno
    if flaw := _flaw(function):
        raise InvalidFunctionError(name, [f"{file}:{first}: {flaw}"])
    definition, text, line = _undecorated(function, first)
    problems = sorted([*_foreign(function, text, file, line), *_relative(definition, first)])
    if problems:
        raise InvalidFunctionError(name, [f"{file}:{line}: {problem}" for line, problem in problems])
    return FunctionSource(
        name=definition.name,
        text=text,
        file=file,
        line=line,
        signature=_signature(function),
        is_async=inspect.iscoroutinefunction(function),
    )


def _signature(function: FunctionType) -> inspect.Signature:
    """Return the signature without annotations: what they stand for stays here."""
    parameters = inspect.signature(function).parameters.values()
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])


def _kind(function: object) -> str:
    if isinstance(function, type):
        return "a class"
    if isinstance(function, MethodType):
        return "a method, and its object would stay here"
    return f"a {type(function).__name__}"


def _flaw(function: FunctionType) -> str | None:
    if function.__name__ == "<lambda>":
        return "it is a lambda; write a `def`"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator; return a list"
    if hasattr(function, "__wrapped__"):
        return "a decorator wraps it, and would stay here; use that inside it"
    return None


def _undecorated(function: FunctionType, first: int) -> tuple[_Definition, str, int]:
    """Return the definition, its lines counted from the first decorator; its text; the line of that."""
    name = function.__qualname__
    try:
        found = inspect.getsource(function)
        definition = _definition(found)
    except (OSError, SyntaxError, ValueError) as err:
        problem = f"its text cannot be read ({err}); write it in a file that does not change"
        raise InvalidFunctionError(name, [problem]) from err
    if definition is None or definition.name != function.__code__.co_name:
        raise InvalidFunctionError(name, ["its file has changed since it was loaded; load it again"])
    text = "\n".join(found.split("\n")[definition.lineno - 1 :])
    line = first + definition.lineno - 1
    return (definition, f"if True:\n{text}", line - 1) if found[0].isspace() else (definition, text, line)


def _definition(text: str) -> _Definition | None:
    tree = ast.parse(f"if True:\n{text}" if text[:1].isspace() else text)
    if text[:1].isspace():
        ast.increment_lineno(tree, -1)
    return next((node for node in ast.walk(tree) if isinstance(node, _Definition)), None)


def _foreign(function: FunctionType, text: str, file: str, line: int) -> Iterator[tuple[int, str]]:
    try:
        names = foreign_names(compile_text(text, file, line))
    except SyntaxError as err:  # what is right in its place only, such as `nonlocal`
        yield err.lineno or line, f"{err.msg}; write it so that it can stand alone"
        return
    for name, used in names.items():
        yield used, f"it uses {name!r}, which is defined outside it; {_advice(function, name)}"


def _advice(function: FunctionType, name: str) -> str:
    value = _outside(function, name)
    if isinstance(value, ModuleType):
        alias = "" if value.__name__ == name else f" as {name}"
        return f"write `import {value.__name__}{alias}` inside it"
    if not callable(value):
        return "pass it as an argument, or define it inside"
    home = str(getattr(value, "__module__", ""))
    if home != function.__module__ and getattr(sys.modules.get(home), name, None) is value:
        return f"write `from {home} import {name}` inside it"
    return "define it inside, or import it from a module"


def _outside(function: FunctionType, name: str) -> object:
    """Return what the name stands for where the function is defined."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    if name not in cells:
        return function.__globals__.get(name, _NOWHERE)
    try:
        return cells[name].cell_contents
    except ValueError:  # not set yet
        return _NOWHERE


def _relative(definition: _Definition, first: int) -> Iterator[tuple[int, str]]:
    for node in ast.walk(definition):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = f"from {'.' * node.level}{node.module or ''} import …"
            yield first + node.lineno - 1, f"`{names}` is relative to its package; write the package's name"


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
