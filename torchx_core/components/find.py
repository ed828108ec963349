"""Finds components by name."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from torchx_core.components.component import Component
from torchx_core.components.modules import load_file, load_module
from torchx_core.components.places import ANYWHERE, Places, allowed_places
from torchx_core.components.reading import look_for, read_component
from torchx_core.components.registered import Target, all_registered, registered
from torchx_core.errors import (
    ComponentNotFoundException,
    ComponentValidationException,
    InvalidInputError,
    NotFoundError,
)

__all__ = ["find_component", "list_components"]

_logger = logging.getLogger(__name__)
_BUILT_IN: Final = ("dist", "utils")


def find_component(name: str, *, paths: Iterable[str | Path] | None = None) -> Component:
    """Return the component of that name; the first place that has it counts.

    1. a component that an installed package registers, by an entry point,
    2. a built-in one, such as ``dist.torchrun``,
    3. ``path/to/file.py:function``; ``~`` is the home directory,
    4. ``package.module.function`` or ``package.module:function``.

    In place of a function there may be a class: its constructor takes the arguments, its ``build()`` returns
    the app.

    This runs code: the module that defines the component is imported, after the component's definition was
    checked in its text. Use `paths` where names come from somebody whom you would not let run programs.

    Args:
        name: The name.
        paths: Absolute directories; files and modules of 3 and 4 that lie elsewhere are refused before they
            run. None for those of ``$TORCHX_COMPONENT_PATHS``, or anywhere when that is not set.

    Raises:
        ComponentNotFoundException: There is none.
        ComponentValidationException: It cannot be used as it is written; says where and what to write.
        InvalidInputError: It lies where it may not.

    Example:
        >>> find_component("utils.echo").build(["--msg", "hi"]).roles[0].args
        ['hi']
    """
    places = allowed_places(paths)
    failed: list[ComponentValidationException] = []
    component = (
        _registered(name, failed) or _built_in(name) or _in_file(name, places) or _in_module(name, places)
    )
    if component:
        return component
    if failed:
        raise failed[0]
    known = [each.name for each in list_components()]
    raise ComponentNotFoundException(name, f"not registered, not built in, and {_no_module(name)}", known)


def list_components() -> list[Component]:
    """Return what is registered and what is built in, without what the former hides; for a table.

    Imports every registered module. What cannot be used is logged and left out.
    """
    found: dict[str, Component] = {}
    for target in (*all_registered(), *_all_built_in()):
        try:
            component = _load(target, ANYWHERE)
        except (InvalidInputError, NotFoundError) as err:
            _logger.warning("component %s is left out: %s", target.name, err)
        else:
            if component:
                found.setdefault(target.name, component)
    return list(found.values())


def _registered(name: str, failed: list[ComponentValidationException]) -> Component | None:
    """Return the component; what fails without being the one that is meant is collected."""
    for target in registered(name):
        try:
            component = _load(target, ANYWHERE)
        except ComponentNotFoundException:
            if target.exact:
                raise
            continue  # a module may lack it: go on looking
        except ComponentValidationException as err:
            if target.sure:
                raise
            failed.append(err)
        else:
            if component:
                return component
    return None


def _built_in(name: str) -> Component | None:
    return next((_load(target, ANYWHERE) for target in _all_built_in() if target.name == name), None)


def _all_built_in() -> Iterator[Target]:
    for short in _BUILT_IN:
        module = f"{__package__}.{short}"
        for attribute in import_module(module).__all__:
            yield Target(f"{short}.{attribute}", module, attribute, "built-in")


def _in_file(name: str, places: Places) -> Component | None:
    path, colon, attribute = name.rpartition(":")
    if not colon or not (path.endswith(".py") or os.sep in path):
        return None
    file = Path(os.path.expanduser(path))  # noqa: PTH111  # Path's raises for an unknown user
    if not os.path.isfile(file):  # noqa: PTH113  # Path's raises where it may not look, and for a long name
        raise ComponentNotFoundException(name, f"there is no file {path!r}")
    if file.suffix != ".py":
        raise ComponentNotFoundException(name, f"{path!r} is no Python file; its name must end in .py")
    module = load_file(name, str(file), places, look_for(name, attribute))
    return read_component(name, module, attribute, f"file {file}")


def _in_module(name: str, places: Places) -> Component | None:
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    return _load(Target(name, module, attribute, f"module {module}"), places)


def _load(target: Target, places: Places) -> Component | None:
    if all(part.isidentifier() for part in (*target.module.split("."), target.attribute)):
        look = look_for(target.name, target.attribute)
        module = load_module(target.name, target.module, places, look)
        if module is not None and module.__file__ is not None:
            return read_component(target.name, module, target.attribute, target.source)
    if target.exact:
        problem = f"{target.source} leads to {target.module}:{target.attribute}, which is not there"
        raise ComponentNotFoundException(target.name, problem)
    return None


def _no_module(name: str) -> str:
    if name.endswith(".py"):
        return _only_a_file(name)
    module = name.rpartition(":" if ":" in name else ".")[0]
    return (
        f"there is no module {module!r}" if module else "it is neither FILE.py:FUNCTION nor MODULE.FUNCTION"
    )


def _only_a_file(name: str) -> str:
    """Say what to write in place of a script, which is no component."""
    if not os.path.isfile(name):  # noqa: PTH113  # the same
        return f"there is no file {name!r}"
    return (
        f"a script is no component: write utils.python or dist.torchrun with --script {name},"
        f" or {name}:FUNCTION for a component in it"
    )
