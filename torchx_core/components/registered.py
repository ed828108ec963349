"""Components that installed packages register as entry points.

``[torchx_core.components]`` or ``[torchx.components]``, each line one of::

    team = my_package.components          all components of the module and, for a package, of its submodules:
                                          team.train, team.vision.train
    _0 = my_package.components            the same without a prefix: train, vision.train
    train = my_package.components:train   this one
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from torchx_core.components.modules import load_module
from torchx_core.components.places import ANYWHERE
from torchx_core.components.source_check import component_names, parse_source
from torchx_core.entry_points import entry_points
from torchx_core.errors import ComponentValidationException

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "Target", "all_registered", "registered"]

GROUPS: Final = ("torchx_core.components", "torchx.components")
"""Entry-point groups; the first that has a name wins."""

_logger = logging.getLogger(__name__)


class Target(NamedTuple):
    """Which function or class a name stands for."""

    name: str
    module: str
    attribute: str
    source: str
    """Where it comes from, for people."""
    sure: bool = True
    """Whether nothing else can be meant; an entry point without a prefix may lend any name."""
    exact: bool = False
    """Whether this very name is registered, so that the function or class must be there."""


def registered(name: str) -> Iterator[Target]:
    """Yield what the name may stand for; whether it is there is not looked at."""
    for entry in entry_points(*GROUPS):
        if entry.attr:
            if entry.name == name:
                yield Target(name, entry.module, entry.attr, _source(entry), exact=True)
        elif name.startswith(_prefix(entry)):
            path, _, attribute = name.removeprefix(_prefix(entry)).rpartition(".")
            module = ".".join(filter(None, [entry.module, path]))
            yield Target(name, module, attribute, _source(entry), sure=bool(_prefix(entry)))


def all_registered() -> Iterator[Target]:
    """Yield every registered component; imports the modules. One that fails is logged and left out."""
    for entry in entry_points(*GROUPS):
        if entry.attr:
            yield Target(entry.name, entry.module, entry.attr, _source(entry), exact=True)
            continue
        for module, attribute in _components_of(entry.module):
            relative = f"{module}.{attribute}".removeprefix(f"{entry.module}.")
            yield Target(f"{_prefix(entry)}{relative}", module, attribute, _source(entry))


def _prefix(entry: EntryPoint) -> str:
    return "" if entry.name.startswith("_") else f"{entry.name}."


def _source(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name}" if entry.dist else ""
    return f"entry point {entry.name}{package}"


def _components_of(name: str) -> Iterator[tuple[str, str]]:
    import pkgutil  # imported here: only listing needs it

    names: list[str] = []

    def look(file: str, text: str) -> None:
        names.extend(component_names(parse_source(name, file, text)))

    try:
        module = load_module(name, name, ANYWHERE, look)
    except ComponentValidationException as err:
        _logger.warning("registered components are left out: %s", err)
        return
    if module is None:
        _logger.warning("registered components are left out: there is no module %s", name)
        return
    yield from ((name, attribute) for attribute in names)
    for found in pkgutil.iter_modules(getattr(module, "__path__", None) or [], f"{name}."):
        yield from _components_of(found.name)
