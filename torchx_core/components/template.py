"""A component's own text, to begin a component of one's own with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from torchx_core.components.component import Component

__all__ = ["template"]


def template(component: Component) -> str:
    """Return its definition with the imports, helpers and constants of its file that it uses.

    Nothing runs. The text is a whole file: it makes the same apps.
    """
    text = Path(component.file).read_text(encoding="utf-8")
    body = ast.parse(text).body
    homes = {name: statement for statement in body for name in _bound(statement)}
    name = component.function.__name__
    wanted: set[ast.stmt] = set()
    open_names = [name]
    while open_names:
        statement = homes.get(open_names.pop())
        if statement is not None and statement not in wanted:
            wanted.add(statement)
            open_names += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    parts = [_text(statement, text) for statement in body if statement in wanted or _is_future(statement)]
    return "\n\n".join(parts) + "\n"


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in aliases)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case _:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _text(statement: ast.stmt, text: str) -> str:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(each.lineno for each in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
