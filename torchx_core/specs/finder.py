"""The names of ``torchx.specs.finder``: components by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torchx_core.components import Component, find_component, list_components
from torchx_core.components.template import template
from torchx_core.errors import ComponentNotFoundException, ComponentValidationException

__all__ = [
    "ComponentNotFoundException",
    "ComponentValidationException",
    "CustomComponentsFinder",
    "FoundComponent",
    "get_builtin_source",
    "get_component",
    "get_components",
]


@dataclass(frozen=True, slots=True)
class FoundComponent:
    """A component as TorchX describes one; `find_component` gives all that is known of it.

    Attributes:
        name: As it was asked for.
        description: What its docstring says ahead of the first section, else the function's name.
        fn_name: The function's name.
        fn: What makes the app; for a class, it makes an object and calls its ``build()``.
        validation_errors: Always empty: what cannot be used is an error, or is not listed.
    """

    name: str
    description: str
    fn_name: str
    fn: Callable[..., object]
    validation_errors: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class CustomComponentsFinder:
    """Finds the component that is one function of a file.

    Attributes:
        filepath: The file, absolute or below the working directory.
        function_name: The function's name.
    """

    filepath: str
    function_name: str

    def find(self, group: str | None = None) -> list[FoundComponent]:  # noqa: ARG002  (TorchX's parameter)
        """Return the component, in a list; finds, and raises, as `find_component` does."""
        return [get_component(f"{self.filepath}:{self.function_name}")]


def get_component(name: str) -> FoundComponent:
    """Return the component of that name; finds, and raises, as `find_component` does."""
    return _found(find_component(name))


def get_components() -> dict[str, FoundComponent]:
    """Return name -> component of what is registered and of what is built in; see `list_components`."""
    return {component.name: _found(component) for component in list_components()}


def get_builtin_source(name: str) -> str:
    """Return a file's text that defines the same component, to change as you need it.

    Raises:
        ComponentNotFoundException: There is none of that name.
    """
    return template(find_component(name))


def _found(component: Component) -> FoundComponent:
    name = str(getattr(component.function, "__name__", component.name))
    told = "\n".join(text for text in (component.summary, component.description) if text)
    return FoundComponent(component.name, told or name, name, component.function)
