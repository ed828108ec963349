"""Makes a component of what a module defines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Protocol, cast

from torchx_core.components.component import Component
from torchx_core.components.docstring import read_docstring
from torchx_core.components.modules import Look
from torchx_core.components.parameters import UnusableSignature, read_parameters
from torchx_core.components.problems import Flaw, refusal
from torchx_core.components.source_check import check_source, parse_source
from torchx_core.errors import ComponentNotFoundException

__all__ = ["component_from", "look_for", "read_component"]

_looked_at: set[tuple[str, str]] = set()
"""File and name of what passed: it is loaded, and a change on disk is the next process's."""


def look_for(component: str, attribute: str) -> Look:
    """Return what checks the text of the file that is about to run."""

    def look(file: str, text: str) -> None:
        if (file, attribute) not in _looked_at and text:
            check_source(component, file, parse_source(component, file, text), attribute)
            _looked_at.add((file, attribute))

    return look


def read_component(name: str, module: ModuleType, attribute: str, source: str) -> Component:
    """Return the module's function or class as a component.

    Raises:
        ComponentNotFoundException: The module has nothing of that name.
        ComponentValidationException: With everything that is wrong with it.
    """
    file = str(module.__file__)
    if attribute not in vars(module):
        raise ComponentNotFoundException(name, f"{file} defines no {attribute!r}")
    return _component(name, vars(module)[attribute], file, source)


def component_from(target: Callable[..., object]) -> Component:
    """Return a function, or a class, that is at hand already, as a component of its own name.

    An argument may have any type, or none, which is then str: one that no text can spell gets its value from
    Python, or keeps its default.

    Raises:
        ComponentValidationException: With everything that is wrong with it.
    """
    code = getattr(inspect.unwrap(target), "__code__", None)
    file = str(code.co_filename if code else target.__module__)
    name = str(getattr(target, "__name__", type(target).__name__))
    return _component(name, target, file, f"function {name}", any_type=True)


def _component(name: str, target: object, file: str, source: str, *, any_type: bool = False) -> Component:
    if not callable(target):
        raise refusal(name, file, 1, [Flaw("is no function", "write `def …(…) -> AppDef`")])
    line = _line(target)
    if isinstance(target, type) and not callable(getattr(target, "build", None)):
        flaw = Flaw("is a class without `build`", "add `def build(self) -> AppDef`")
        raise refusal(name, file, line, [flaw])
    try:
        parameters = read_parameters(target, any_type=any_type)
    except UnusableSignature as err:
        raise refusal(name, file, line, err.flaws) from None
    doc = read_docstring(inspect.getdoc(target))
    return Component(
        name=name,
        summary=doc.summary,
        description=doc.description,
        source=source,
        file=file,
        line=line,
        parameters=parameters,
        function=_builder(target) if isinstance(target, type) else target,
    )


class _Buildable(Protocol):
    def build(self) -> object: ...


def _builder(cls: type) -> Callable[..., object]:
    construct = cast("Callable[..., _Buildable]", cls)

    @functools.wraps(cls, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def make(*args: object, **kwargs: object) -> object:
        return construct(*args, **kwargs).build()

    return make


def _line(target: Callable[..., object]) -> int:
    try:
        return inspect.getsourcelines(inspect.unwrap(target))[1]
    except (OSError, TypeError):  # no text to look into, or it has changed
        return 1
