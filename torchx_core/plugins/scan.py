"""Finds what modules below ``torchx_plugins`` offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from torchx_core.plugins.registration import KIND, NAME, PluginType

__all__ = ["registered"]

_ROOT: Final = "torchx_plugins"


TellError: TypeAlias = Callable[[str, Exception], None]
"""Told of a module that cannot be imported: its name, and why."""


def log_error(name: str, error: Exception) -> None:
    """Tell of it in the log."""
    import logging  # here: who has no plugin does not pay for it

    logging.getLogger(__name__).warning("a plugin is left out: %s: %s", name, error, exc_info=error)


def registered(kind: PluginType, tell: TellError = log_error) -> dict[str, Callable[..., object]]:
    """Return name -> function of all that is registered, whether by this package or by TorchX.

    All modules of that kind are imported. Of two that register a name, the first in alphabetical order
    counts. Names that begin with ``_`` are no plugins.

    Args:
        kind: What the functions make.
        tell: Told of each module that cannot be imported, and is left out.
    """
    found: dict[str, Callable[..., object]] = {}
    for module in _modules(f"{_ROOT}.{kind.value.removeprefix('torchx.')}", tell):
        for value in list(vars(module).values()):
            # what a module imports from another is the other's
            if getattr(value, KIND, None) == kind and getattr(value, "__module__", "") == module.__name__:
                found.setdefault(getattr(value, NAME), value)
    return found


def _modules(name: str, tell: TellError) -> Iterator[ModuleType]:
    package = _loaded(name, tell)
    if package is None:
        return
    yield package
    for inner in sorted(_inner_names(list(getattr(package, "__path__", ())))):
        yield from _modules(f"{name}.{inner}", tell)


def _inner_names(places: list[str]) -> set[str]:
    """Return the modules of a package, and the directories of modules, with an ``__init__.py`` or without."""
    import pkgutil  # here: few have such packages

    named = {found.name for found in pkgutil.iter_modules(places)}
    named |= {path.parent.name for place in places for path in Path(place).glob("*/*.py")}
    return {name for name in named if not name.startswith("_")}


def _loaded(name: str, tell: TellError) -> ModuleType | None:
    try:
        return import_module(name)
    except Exception as err:  # noqa: BLE001  # somebody's program, which may raise anything; the others go on
        missing = isinstance(err, ModuleNotFoundError) and f"{name}.".startswith(f"{err.name}.")
        if not missing:
            tell(name, err)
        return None
