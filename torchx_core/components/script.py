"""A Python script that is named where a component is expected, as an app of one process."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from torchx_core.components.image import IMAGE
from torchx_core.components.peek import components_in
from torchx_core.components.structured_arg import program_of
from torchx_core.errors import InvalidInputError
from torchx_core.specs import AppDef, Role

__all__ = ["check_imports", "is_script", "script_app"]

_PYTORCH = "torch"


def is_script(name: str) -> bool:
    """Return whether the name is that of a Python file which is there.

    Example:
        >>> is_script("dist.torchrun")
        False
    """
    return name.endswith(".py") and os.path.isfile(name)  # noqa: PTH113  # Path's raises for a long name


def script_app(file: str, args: Sequence[str], python: str) -> AppDef:
    """Return the app that runs the script in one process.

    Args:
        file: The script.
        args: Its arguments.
        python: The Python that runs it.

    Raises:
        InvalidInputError: The file has components, so that nobody can tell what is meant.
    """
    components = components_in(Path(file))
    if components:
        named = " or ".join(f"{file}:{each}" for each in components)
        raise InvalidInputError(
            f"{file!r} has components: write {named} to run one of them,"
            f" or utils.python --script {file} to run the file as a script"
        )
    name = program_of(file, None)
    role = Role(name=name, image=IMAGE, entrypoint=python, args=["-u", file, *args])
    return AppDef(name=name, roles=[role])


def check_imports(file: str) -> None:
    """Refuse a script that cannot begin, because it needs PyTorch and the Python of this process has none.

    Only what the script imports in any case counts, not what it imports inside of something.

    Raises:
        InvalidInputError: It would fail at once.
    """
    if _PYTORCH not in _imported(file):
        return
    if PathFinder.find_spec(_PYTORCH, [os.path.dirname(file), *sys.path]) is None:  # noqa: PTH120  # as Python does
        raise InvalidInputError(
            f"{file!r} imports torch, which {sys.executable} does not have: install PyTorch there"
            f" ({sys.executable} -m pip install torch), or run the script by the Python that PATH finds"
            f" first: torchx-core run utils.python --script {file}"
        )


def _imported(file: str) -> set[str]:
    """Return the top-level packages that the script's own lines import."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return set()  # Python will say what is wrong with it
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}
