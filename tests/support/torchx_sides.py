"""The installed TorchX beside this package: the same name, the same call, on both."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

MISSING = inspect.Parameter.empty


def named(package: str, dotted: str) -> Any:
    """Return what a dotted name stands for in a package, ``specs.Role.pre_proc`` for example."""
    module, attributes = package, dotted.split(".")
    found: Any = import_module(package)
    for attribute in attributes:
        module = f"{module}.{attribute}"
        try:
            found = import_module(module)
        except ModuleNotFoundError:
            found = getattr(found, attribute)
    return found


def ours(dotted: str) -> Any:
    """Return this package's thing of that name."""
    return named("torchx_core", dotted)


def theirs(dotted: str) -> Any:
    """Return TorchX's."""
    return named("torchx", dotted)


def accepts(called: Callable[..., Any], parameters: list[tuple[str, Any]]) -> bool:
    """Return whether these parameters are taken in this order, with these defaults."""
    positional = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    taken = [
        p for p in inspect.signature(called).parameters.values() if p.kind in positional and p.name != "self"
    ]
    return [(p.name, p.default) for p in taken][: len(parameters)] == parameters


def told(called: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a call returns, or the name of the built-in error that it raises."""
    try:
        return called(*args, **kwargs)
    except Exception as err:  # noqa: BLE001  # whatever either side raises is the answer
        built_in = [cls for cls in type(err).__mro__ if cls.__module__ == "builtins"]
        return f"raises {built_in[0].__name__}"
