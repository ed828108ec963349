"""Evaluates an annotation from its text, without running anything."""

from __future__ import annotations

import ast
import builtins
import typing
from types import GenericAlias
from typing import Final, cast

from torchx_core.components.value_types import UnsupportedType

__all__ = ["NameUnknown", "evaluate"]

_GENERICS: Final = {"List": list, "Dict": dict, "Tuple": tuple}
_SUPPORTED_GENERICS: Final = (list, dict, tuple, typing.Optional, typing.Union, typing.Annotated)


class NameUnknown(Exception):
    """The text alone cannot tell: the annotation names something of the file's own."""


def evaluate(node: ast.expr) -> object:
    """Return the type that an annotation stands for, as far as builtins and `typing` go.

    Raises:
        NameUnknown: It needs a name that is neither of them.
        UnsupportedType: No argument can have such a type.
    """
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str() as text):
            return evaluate(_parsed(text))
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _named(name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return typing.Union[evaluate(left), evaluate(right)]  # noqa: UP007  # built at run time
        case ast.Subscript(value=generic, slice=args):
            return _subscript(node, evaluate(generic), args)
        case _:
            raise UnsupportedType(f"has the unsupported type {ast.unparse(node)}")


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as err:
        raise UnsupportedType(f"has the annotation {text!r}, which is not Python") from err


def _named(name: str) -> object:
    if name in _GENERICS:
        return _GENERICS[name]
    known: object = getattr(builtins, name, None)
    if not isinstance(known, type):
        known = getattr(typing, name, None)
    if known is None:
        raise NameUnknown
    return known


def _subscript(node: ast.expr, generic: object, args: ast.expr) -> object:
    if generic not in _SUPPORTED_GENERICS:
        raise UnsupportedType(f"has the unsupported type {ast.unparse(node)}")
    parts = args.elts if isinstance(args, ast.Tuple) else [args]
    if generic is typing.Annotated:
        return evaluate(parts[0])
    types = tuple(evaluate(part) for part in parts)
    if generic is typing.Optional:
        return typing.Optional[types[0]]  # noqa: UP045  # built at run time
    return typing.Union[types] if generic is typing.Union else GenericAlias(cast(type, generic), types)  # noqa: UP007
