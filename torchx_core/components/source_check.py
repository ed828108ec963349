"""Checks a component in the text of its file, before any of the file's code runs.

What text alone cannot tell, such as a type that is an alias, is left to the check of what was loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

from torchx_core.components.annotation_text import NameUnknown, evaluate
from torchx_core.components.problems import Flaw, refusal
from torchx_core.components.value_types import UnsupportedType, value_type
from torchx_core.errors import ComponentNotFoundException

__all__ = ["Definition", "check_source", "component_names", "definition_of", "parse_source"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = _Function | ast.ClassDef
_APP: Final = "AppDef"


def parse_source(component: str, file: str, text: str) -> ast.Module:
    """Return the file's syntax tree.

    Raises:
        ComponentValidationException: It is not Python.
    """
    try:
        return ast.parse(text, file)
    except (SyntaxError, ValueError) as err:  # ValueError: a NUL byte
        line = err.lineno or 1 if isinstance(err, SyntaxError) else 1
        what = err.msg if isinstance(err, SyntaxError) else str(err)
        raise refusal(component, file, line, [Flaw(f"is not Python: {what}", "correct it")]) from err


def component_names(tree: ast.Module) -> list[str]:
    """Return the public functions that say they return an AppDef, and the classes whose ``build`` does."""
    return [
        name
        for name, node in _definitions(tree).items()
        if not name.startswith("_") and any(_returns_app(function) for function in _makers(node))
    ]


def definition_of(tree: ast.Module, name: str) -> Definition | None:
    """Return the function or class of that name, or None."""
    return _definitions(tree).get(name)


def check_source(component: str, file: str, tree: ast.Module, name: str) -> None:
    """Check the component's definition.

    Args:
        component: The name asked for, for messages.
        file: The same.
        tree: The syntax tree of the file.
        name: The function or class.

    Raises:
        ComponentNotFoundException: The file does not define it.
        ComponentValidationException: With everything that is wrong.
    """
    definitions = _definitions(tree)
    if name not in definitions:
        known = component_names(tree)
        problem = f"{file} defines no {name!r}; it has {', '.join(known) or 'no component'}"
        place = component.removesuffix(name)
        alike = [place + each for each in known if component.endswith(name)]  # not for an entry point's name
        raise ComponentNotFoundException(component, problem, alike)
    flaws = list(_flaws(definitions[name]))
    if flaws:
        raise refusal(component, file, definitions[name].lineno, flaws)


def _definitions(tree: ast.Module) -> dict[str, Definition]:
    """Return what the module itself defines, also below ``if`` and ``try``; the last definition counts."""
    return {node.name: node for node in _top_level(tree)}


def _top_level(node: ast.AST) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _top_level(child)


def _makers(node: Definition) -> Iterator[_Function]:
    """Yield the function itself, or the methods called ``build`` of a class."""
    if not isinstance(node, ast.ClassDef):
        yield node
        return
    yield from (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "build")


def _flaws(node: Definition) -> Iterator[Flaw]:
    match node:
        case ast.AsyncFunctionDef():
            yield Flaw("is async", "write a plain `def`")
        case ast.FunctionDef():
            yield from _argument_flaws(node.args)
            yield from _return_flaws(node)
        case ast.ClassDef():
            yield from _class_flaws(node)


def _class_flaws(node: ast.ClassDef) -> Iterator[Flaw]:
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
    if "__init__" in methods:
        yield from _argument_flaws(methods["__init__"].args, skip=1)
    if "build" in methods:
        yield from _return_flaws(methods["build"])
    elif not node.bases:
        yield Flaw("is a class without `build`", "add `def build(self) -> AppDef`")


def _return_flaws(node: ast.FunctionDef) -> Iterator[Flaw]:
    if node.returns is None:
        yield Flaw("does not say what it returns", "add `-> AppDef`", line=node.lineno)
    elif not _returns_app(node):
        given = ast.unparse(node.returns)
        yield Flaw(f"returns {given}", "write `-> AppDef`", line=node.returns.lineno)


def _returns_app(node: _Function) -> bool:
    match node.returns:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == _APP
        case ast.Constant(value=str() as text):
            return text.rpartition(".")[2].strip() == _APP
        case _:
            return False


def _argument_flaws(args: ast.arguments, skip: int = 0) -> Iterator[Flaw]:
    named = [*args.posonlyargs, *args.args][skip:]
    for arg in (*named, *([args.vararg] if args.vararg else []), *args.kwonlyargs):
        yield from _annotation_flaws(arg)
    if args.kwarg:
        advice = "name each argument, or take a dict[str, str]"
        yield Flaw("takes any name (**)", advice, args.kwarg.arg, args.kwarg.lineno)


def _annotation_flaws(arg: ast.arg) -> Iterator[Flaw]:
    if arg.annotation is None:
        advice = f"write `{arg.arg}: str`, or another type"
        yield Flaw("has no type annotation", advice, arg.arg, arg.lineno)
        return
    try:
        value_type(evaluate(arg.annotation))
    except UnsupportedType as err:
        yield Flaw(str(err), err.advice, arg.arg, arg.lineno)
    except NameUnknown:  # an alias, or a class of the file: the loaded object will tell
        return
