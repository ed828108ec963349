"""What the text of a file says of its components, without running any of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from torchx_core.components.docstring import read_docstring
from torchx_core.components.source_check import Definition, component_names, definition_of

__all__ = ["components_in", "flags_in", "source_of"]


def components_in(file: Path) -> list[str]:
    """Return the names of what may be run; none where the file cannot be read."""
    tree = _tree(file)
    return [] if tree is None else component_names(tree)


def flags_in(file: Path, name: str) -> dict[str, str]:
    """Return flag -> explanation of each argument; none where there is no such component."""
    tree = _tree(file)
    node = None if tree is None else definition_of(tree, name)
    if node is None:
        return {}
    explained = read_docstring(ast.get_docstring(node)).arguments
    return {f"-{arg}" if len(arg) == 1 else f"--{arg}": explained.get(arg, "") for arg in _arguments(node)}


def source_of(component: str) -> tuple[Path, str] | None:
    """Return the file and the name that ``FILE.py:NAME`` or ``PACKAGE.MODULE.NAME`` leads to.

    Example:
        >>> source_of("train.py:main")
        (PosixPath('train.py'), 'main')
    """
    place, colon, name = component.rpartition(":")
    if colon and place.endswith(".py"):
        return Path(place).expanduser(), name
    module, _, name = component.rpartition(":" if colon else ".")
    inside = Path(*module.split(".")).with_suffix(".py") if module else Path()
    files = (Path(folder or ".") / inside for folder in ("", *sys.path))
    found = next((file for file in files if module and file.is_file()), None)
    return (found, name) if found else None


def _tree(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _arguments(node: Definition) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        for each in made:
            yield from (arg for arg in _arguments(each) if arg != "self")
        return
    args = node.args
    yield from (arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))
