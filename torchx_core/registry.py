"""Finds schedulers by name: the built-in ones, those of an installed TorchX, then entry points."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

from torchx_core import compat
from torchx_core.entry_points import entry_points
from torchx_core.errors import (
    BackendAbsentError,
    InvalidInputError,
    SchedulerError,
    UnknownSchedulerException,
)
from torchx_core.schedulers import Scheduler, SchedulerFactory
from torchx_core.specs import split_place

__all__ = ["ENTRY_POINT_GROUP", "SchedulerFactory", "scheduler_factories"]

ENTRY_POINT_GROUP = "torchx_core.schedulers"

_BUILT_IN = {
    "local_cwd": "torchx_core.schedulers.local:create_scheduler",
    "local_dir": "torchx_core.schedulers.local:create_dir_scheduler",
    "local_docker": "torchx_core.schedulers.docker:create_scheduler",
    "slurm": "torchx_core.schedulers.slurm:create_scheduler",
}
_AT_A_PLACE = {
    "local_cwd": "torchx_core.schedulers.local.remote:RemoteLocalScheduler",
    "local_dir": "torchx_core.schedulers.local.remote:RemoteLocalScheduler",
    "slurm": "torchx_core.schedulers.slurm.remote.scheduler:RemoteSlurmScheduler",
}
"""What asks a scheduler on another host, for names such as ``local_cwd@gpu-box``."""
_EXTRAS = {"local_docker": "docker"}
"""What pip installs the packages by that a built-in scheduler cannot be loaded without."""


class _Factories(Mapping[str, SchedulerFactory]):
    """The built-in schedulers at once; entry points when another name is asked for, or all names.

    Modules below ``torchx_plugins`` come last: their names are in their code, which a list does not run.

    Each name that begins with ``torchx:`` leads to the bridge, which alone can say whether TorchX has it. One
    with a place, as in ``local_cwd@gpu-box``, leads to that scheduler on another host.
    """

    def __getitem__(self, name: str) -> SchedulerFactory:
        if name.startswith(compat.PREFIX):
            return _bridge(name)
        base, place = split_place(name)
        if place is not None:
            return _placed(name, base, place)
        if name in _BUILT_IN or name in self._plugged_in:
            return _lazy(name, _BUILT_IN.get(name) or self._plugged_in[name])
        return self._decorated[name]

    def __iter__(self) -> Iterator[str]:
        yield from _BUILT_IN  # first: whoever wants the default alone reads no entry points
        others = {**dict.fromkeys(self._bridged), **self._plugged_in}
        yield from (name for name in others if name not in _BUILT_IN)

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _bridged(self) -> list[str]:
        return compat.scheduler_names(self._installed(compat.ENTRY_POINT_GROUP))

    @cached_property
    def _plugged_in(self) -> Mapping[str, str]:
        return self._installed(ENTRY_POINT_GROUP)

    @cached_property
    def _decorated(self) -> Mapping[str, SchedulerFactory]:
        """Those in ``torchx_plugins.schedulers``; what TorchX's decorator has marked is ``torchx:<name>``."""
        from torchx_core.plugins.registration import KIND, PluginType  # here: few names come to this
        from torchx_core.plugins.scan import registered

        found = registered(PluginType.SCHEDULER)
        ours = {name: make for name, make in found.items() if isinstance(getattr(make, KIND), PluginType)}
        return cast("Mapping[str, SchedulerFactory]", ours)

    def _installed(self, group: str) -> dict[str, str]:
        return {entry.name: entry.value for entry in entry_points(group)}


def scheduler_factories() -> Mapping[str, SchedulerFactory]:
    """Return every known scheduler's factory; the first is the default.

    A factory imports its scheduler when it is called, so an unused scheduler costs nothing and a broken
    one harms nobody else. An entry point cannot take the name of a built-in scheduler. TorchX's schedulers
    are listed where TorchX is installed, without importing it.
    """
    return _Factories()


def _lazy(name: str, target: str) -> SchedulerFactory:
    def create(session_name: str, **params: object) -> object:
        return _load(name, target)(session_name, **params)

    return create


def _placed(name: str, base: str, place_name: str) -> SchedulerFactory:
    if base not in _AT_A_PLACE:
        raise InvalidInputError(
            f"scheduler {base!r} cannot be asked for at a place: {name!r}; {', '.join(_AT_A_PLACE)} can, and"
            " local_docker reaches another host by docker_host=ssh://…"
        )

    def create(
        session_name: str, *, places: Mapping[str, str] | str | None = None, **_others: object
    ) -> Scheduler[Any]:
        from torchx_core.schedulers.remote.places import find_place  # here: few go elsewhere

        place = find_place(place_name, places, os.environ)
        make = _load(name, _AT_A_PLACE[base])
        return cast("Scheduler[Any]", make(name, session_name, place.host, state_dir=place.state_dir))

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
            raise BackendAbsentError(f"scheduler {name!r} needs the package {package}: {how}") from err
        raise SchedulerError(f"scheduler {name!r} cannot be loaded from {target}: {err}") from err


def make_scheduler(
    factories: Mapping[str, SchedulerFactory], name: str, session_name: str, params: Mapping[str, object]
) -> Scheduler[object]:
    """Return a new scheduler of the named factory; one that was written for TorchX comes with its bridge.

    Args:
        factories: Of all that there are.
        name: Of the factory.
        session_name: Of the runner.
        params: Passed to the factory.

    Raises:
        UnknownSchedulerException: With the closest known name.
    """
    made: object = find_factory(factories, name)(session_name, **params)
    if not isinstance(made, Scheduler):
        from torchx_core.compat.create import bridged

        state_dir = params.get("state_dir")
        made = bridged(name, session_name, made, None if state_dir is None else str(state_dir))
    return cast("Scheduler[object]", made)


def find_factory(factories: Mapping[str, SchedulerFactory], name: str) -> SchedulerFactory:
    """Return the named factory.

    Raises:
        UnknownSchedulerException: With the closest known name.
    """
    if name not in factories:
        raise UnknownSchedulerException(name, factories)
    return factories[name]
