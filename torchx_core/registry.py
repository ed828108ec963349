"""Finds schedulers by name: the built-in ones, then entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from torchx_core.errors import SchedulerError, UnknownSchedulerException

if TYPE_CHECKING:
    from torchx_core.schedulers import Scheduler

__all__ = ["ENTRY_POINT_GROUP", "SchedulerFactory", "scheduler_factories"]

SchedulerFactory: TypeAlias = Callable[..., "Scheduler[Any]"]
"""Called as ``factory(session_name, **scheduler_params)``; must be cheap and do no I/O."""

ENTRY_POINT_GROUP = "torchx_core.schedulers"

_BUILT_IN = {
    "local_cwd": "torchx_core.schedulers.local:create_cwd_scheduler",
    "local_dir": "torchx_core.schedulers.local:create_dir_scheduler",
}


def scheduler_factories() -> dict[str, SchedulerFactory]:
    """Return every known scheduler's factory; the first is the default.

    A factory imports its scheduler when it is called, so an unused scheduler costs nothing and a broken
    one harms nobody else. An entry point replaces a built-in scheduler of the same name.
    """
    return {name: _lazy(name, target) for name, target in {**_BUILT_IN, **_entry_points()}.items()}


def _entry_points() -> Mapping[str, str]:
    from importlib.metadata import entry_points  # imported here: 15 ms that only a look-up should pay

    return {e.name: e.value for e in entry_points(group=ENTRY_POINT_GROUP)}


def _lazy(name: str, target: str) -> SchedulerFactory:
    def create(session_name: str, **params: object) -> Scheduler[object]:
        return _load(name, target)(session_name, **params)

    return create


def _load(name: str, target: str) -> SchedulerFactory:
    module, _, attribute = target.partition(":")
    try:
        return cast(SchedulerFactory, attrgetter(attribute)(import_module(module)))
    except (ImportError, AttributeError) as err:
        raise SchedulerError(f"scheduler {name!r} cannot be loaded from {target}: {err}") from err


def find_factory(factories: Mapping[str, SchedulerFactory], name: str) -> SchedulerFactory:
    """Return the named factory.

    Raises:
        UnknownSchedulerException: With the closest known name.
    """
    if name not in factories:
        raise UnknownSchedulerException(name, factories)
    return factories[name]
