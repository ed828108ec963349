"""The names of ``torchx.specs.builders``: apps from a component and words, and mounts from options."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from torchx_core.components.component import Component
from torchx_core.components.reading import component_from
from torchx_core.specs.app import AppDef
from torchx_core.specs.handles import make_app_handle
from torchx_core.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount, parse_mounts

__all__ = [
    "AppDef",
    "BindMount",
    "ComponentArgs",
    "DeviceMount",
    "MountType",
    "VolumeMount",
    "component_args_from_str",
    "make_app_handle",
    "materialize_appdef",
    "parse_args",
    "parse_mounts",
]


class ComponentArgs(NamedTuple):
    """The values that a component is called with."""

    positional_args: dict[str, object]
    var_args: list[str]
    kwargs: dict[str, object]


def materialize_appdef(
    cmpnt_fn: Callable[..., object],
    cmpnt_args: Sequence[str],
    cmpnt_defaults: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
) -> AppDef:
    """Call a component with the words of a command line and return its app.

    Args:
        cmpnt_fn: The function, or a class whose ``build()`` returns the app; `find_component` knows more.
        cmpnt_args: The words, ``["--script", "train.py", "--", "--lr", "3"]``; they come first.
        cmpnt_defaults: Argument -> text or value; they come before the defaults of the signature.
        config: The same; it comes between the two. In both, names of no argument are left aside.

    Raises:
        ComponentArgumentError: An argument is unknown, missing, or does not fit.
        ComponentHelpRequested: The words ask for help.
        ComponentValidationException: The function can be no component, or returns no app.
    """
    component = component_from(cmpnt_fn)
    return component.build(cmpnt_args, _defaults(component, cmpnt_defaults, config))


def component_args_from_str(
    cmpnt_fn: Callable[..., object],
    cmpnt_args: Sequence[str],
    cmpnt_args_defaults: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
) -> ComponentArgs:
    """Return the values that `materialize_appdef` would call the component with; raises as it does."""
    component = component_from(cmpnt_fn)
    values = component.values(cmpnt_args, _defaults(component, cmpnt_args_defaults, config))
    by_kind: dict[str, dict[str, object]] = {"positional": {}, "varargs": {}, "keyword": {}}
    for p in component.parameters:
        by_kind[p.kind][p.name] = values[p.name]
    words = [word for listed in by_kind["varargs"].values() for word in cast("list[str]", listed)]
    return ComponentArgs(by_kind["positional"], words, by_kind["keyword"])


def parse_args(
    cmpnt_fn: Callable[..., object],
    cmpnt_args: Sequence[str],
    cmpnt_defaults: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
) -> Namespace:
    """Return the same values as attributes; raises as `materialize_appdef` does."""
    component = component_from(cmpnt_fn)
    return Namespace(**component.values(cmpnt_args, _defaults(component, cmpnt_defaults, config)))


def _defaults(component: Component, *given: Mapping[str, object] | None) -> dict[str, object]:
    known = {p.name for p in component.parameters}
    return {name: value for each in given for name, value in (each or {}).items() if name in known}
