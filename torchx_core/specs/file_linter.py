"""The names of ``torchx.specs.file_linter``: what is wrong with a component's text, and what it tells."""

from __future__ import annotations

import ast
import inspect
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from torchx_core.components.docstring import read_docstring
from torchx_core.components.source_check import check_source, parse_source
from torchx_core.errors import ComponentNotFoundException, ComponentValidationException

__all__ = ["LinterMessage", "get_fn_docstring", "validate"]


@dataclass
class LinterMessage:
    """One thing that is wrong; `char` is not known, and 0."""

    name: str
    description: str
    line: int
    char: int = 0
    severity: str = "error"


class _Validator(Protocol):
    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]: ...


def validate(
    path: str, component_function: str, validators: Iterable[_Validator] | None = None
) -> list[LinterMessage]:
    """Return what keeps a function, or class, of a file from being a component; nothing of it runs.

    Args:
        path: The file.
        component_function: The name of the function.
        validators: Asked in place of the checks that `find_component` makes; each is given the function.

    Raises:
        OSError: The file cannot be read.
    """
    with tokenize.open(path) as file:
        text = file.read()
    name = f"{path}:{component_function}"
    try:
        tree = parse_source(name, path, text)
        if validators is not None:
            found = [
                n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == component_function
            ]
            return [message for each in validators for message in each.validate(found[0])] if found else []
        check_source(name, path, tree, component_function)
    except ComponentNotFoundException as err:
        return [LinterMessage("TorchXValidator", str(err), 0)]
    except ComponentValidationException as err:
        return [_message(problem) for problem in err.problems]
    return []


def _message(problem: dict[str, object]) -> LinterMessage:
    argument = f"argument {problem['argument']!r} " if problem["argument"] else ""
    description = f"{argument}{problem['problem']}, {problem['advice']}"
    return LinterMessage("TorchXValidator", description, int(str(problem["line"])))


def get_fn_docstring(fn: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Return what the docstring says ahead of the first section, else the name, and argument -> explanation.

    An argument that the docstring does not explain has a space.
    """
    doc = read_docstring(inspect.getdoc(fn))
    told = "\n".join(text for text in (doc.summary, doc.description) if text)
    return told or fn.__name__, {
        name: doc.arguments.get(name, " ") for name in inspect.signature(fn).parameters
    }
