"""Finds schedulers by name: the built-in ones, those of an installed TorchX, then entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from torchx_core import compat
from torchx_core.errors import SchedulerError, UnknownSchedulerException

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from torchx_core.schedulers import Scheduler

__all__ = ["ENTRY_POINT_GROUP", "SchedulerFactory", "is_not_installed", "scheduler_factories"]

SchedulerFactory: TypeAlias = Callable[..., "Scheduler[Any]"]
"""Called as ``factory(session_name, **scheduler_params)``; must be cheap and do no I/O."""

ENTRY_POINT_GROUP = "torchx_core.schedulers"

_BUILT_IN = {
    "local_cwd": "torchx_core.schedulers.local:create_cwd_scheduler",
    "local_dir": "torchx_core.schedulers.local:create_dir_scheduler",
    "local_docker": "torchx_core.schedulers.docker:create_scheduler",
    "slurm": "torchx_core.schedulers.slurm:create_scheduler",
}
_EXTRAS = {"local_docker": "docker"}
"""What pip installs the packages by that a built-in scheduler cannot be loaded without."""


class _Factories(Mapping[str, SchedulerFactory]):
    """The built-in schedulers at once; entry points when another name is asked for, or all names.

    Each name that begins with ``torchx:`` leads to the bridge, which alone can say whether TorchX has it.
    """

    def __getitem__(self, name: str) -> SchedulerFactory:
        if name.startswith(compat.PREFIX):
            return _bridge(name)
        return _lazy(name, _BUILT_IN[name] if name in _BUILT_IN else self._plugged_in[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**_BUILT_IN, **dict.fromkeys(self._bridged), **self._plugged_in})

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _bridged(self) -> list[str]:
        return compat.scheduler_names(self._installed(compat.ENTRY_POINT_GROUP))

    @cached_property
    def _plugged_in(self) -> Mapping[str, str]:
        return self._installed(ENTRY_POINT_GROUP)

    def _installed(self, group: str) -> dict[str, str]:
        return {entry.name: entry.value for entry in self._entry_points[group]}

    @cached_property
    def _entry_points(self) -> Mapping[str, EntryPoints]:
        from importlib.metadata import entry_points  # here: 30 ms that a built-in name should not pay

        found = entry_points()
        return {group: found.select(group=group) for group in (ENTRY_POINT_GROUP, compat.ENTRY_POINT_GROUP)}


def scheduler_factories() -> Mapping[str, SchedulerFactory]:
    """Return every known scheduler's factory; the first is the default.

    A factory imports its scheduler when it is called, so an unused scheduler costs nothing and a broken
    one harms nobody else. An entry point cannot take the name of a built-in scheduler. TorchX's schedulers
    are listed where TorchX is installed, without importing it.
    """
    return _Factories()


def is_not_installed(name: str, error: Exception) -> bool:
    """Return whether a built-in scheduler could not be loaded because its extra is not installed.

    Args:
        name: Of the scheduler.
        error: What its factory raised.
    """
    return name in _EXTRAS and isinstance(error.__cause__, ModuleNotFoundError)


def _lazy(name: str, target: str) -> SchedulerFactory:
    def create(session_name: str, **params: object) -> Scheduler[object]:
        return _load(name, target)(session_name, **params)

    return create


def _bridge(name: str) -> SchedulerFactory:
    def create(session_name: str, **params: object) -> Scheduler[Any]:
        return compat.find_factory(name)(session_name, **params)

    return create


def _load(name: str, target: str) -> SchedulerFactory:
    module, _, attribute = target.partition(":")
    try:
        return cast(SchedulerFactory, attrgetter(attribute)(import_module(module)))
    except (ImportError, AttributeError) as err:
        if isinstance(err, ModuleNotFoundError) and name in _EXTRAS:
            how = f"pip install 'torchx-core[{_EXTRAS[name]}]'"
            package = str(err.name).partition(".")[0]
            raise SchedulerError(f"scheduler {name!r} needs the package {package}: {how}") from err
        raise SchedulerError(f"scheduler {name!r} cannot be loaded from {target}: {err}") from err


def find_factory(factories: Mapping[str, SchedulerFactory], name: str) -> SchedulerFactory:
    """Return the named factory.

    Raises:
        UnknownSchedulerException: With the closest known name.
    """
    if name not in factories:
        raise UnknownSchedulerException(name, factories)
    return factories[name]
