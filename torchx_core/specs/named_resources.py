"""Resources by name: the tables of this package, a module of the deployment's, and installed packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from torchx_core.errors import InvalidInputError, UnknownNamedResourceError
from torchx_core.specs.checks import show, want_int, want_int_map, want_map
from torchx_core.specs.resource import RESOURCE_NAME_TAG, Resource, null_resource

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["NamedResources", "get_named_resources", "named_resources", "resource"]

ENTRY_POINT_GROUPS: Final = ("torchx.named_resources", "torchx_core.named_resources")
ENV_CUSTOM_MODULE: Final = "TORCHX_CUSTOM_NAMED_RESOURCES"

_Factory: TypeAlias = Callable[[], object]


def resource(
    cpu: int | None = None,
    gpu: int | None = None,
    memMB: int | None = None,  # noqa: N803  (TorchX's name)
    h: str | None = None,
) -> Resource:
    """Return the resource of that name, or one made of figures.

    Args:
        cpu: Logical cores; None or 0 for "do not care", which is -1.
        gpu: Devices.
        memMB: Memory in MB; likewise.
        h: A named resource, in lower or upper case; the figures are ignored then.

    Raises:
        UnknownNamedResourceError: With the closest name.
        InvalidInputError: What should provide the named resource is broken.

    Example:
        >>> resource(cpu=4, memMB=512)
        Resource(cpu=4, gpu=0, memMB=512, capabilities={}, devices={}, tags={})
        >>> resource(h="GPU.Small").get_resource_name()
        'gpu.small'
    """
    return named_resources[h] if h else Resource(cpu=cpu or -1, gpu=gpu or 0, memMB=memMB or -1)


def get_named_resources(res: str) -> Resource:
    """Return ``resource(h=res)``; TorchX's older name for it."""
    return resource(h=res)


class NamedResources(Mapping[str, Resource]):
    """Every named resource; each look-up makes a new one, tagged with its name.

    Where a name is registered twice, the later of these wins: the generic table, the table of AWS, the dict
    ``NAMED_RESOURCES`` of the module that ``$TORCHX_CUSTOM_NAMED_RESOURCES`` names, entry points in the group
    ``torchx.named_resources``, entry points in ``torchx_core.named_resources``, modules below
    ``torchx_plugins.named_resources`` (`torchx_core.plugins`). A factory takes no arguments and returns a
    Resource, of this package or of TorchX. An entry point is imported when its name is looked up, those
    modules at the first look-up of any.
    """

    def __getitem__(self, name: str) -> Resource:
        """Make the resource; a name in other case will do where it is unique."""
        factories = self._factories()
        registered = _registered(name, factories)
        return _make(registered, factories[registered])

    def __contains__(self, name: object) -> bool:
        """Return whether there is one, without making it."""
        return isinstance(name, str) and name.lower() in map(str.lower, self)

    def __iter__(self) -> Iterator[str]:
        """Yield the names as registered."""
        return iter(self._factories())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._factories())

    def _factories(self) -> dict[str, _Factory]:
        # imported here: who names no resource pays for no table
        from torchx_core.specs import named_resources_aws, named_resources_generic

        return {
            **named_resources_generic.NAMED_RESOURCES,
            **named_resources_aws.NAMED_RESOURCES,
            **_custom_module(os.environ.get(ENV_CUSTOM_MODULE, "")),
            **self._plugged_in,
            "NULL": null_resource,
            "MISSING": null_resource,
        }

    @cached_property
    def _plugged_in(self) -> Mapping[str, _Factory]:
        # here: only a look-up needs them, and no other host that this package is sent to
        from torchx_core.entry_points import entry_points
        from torchx_core.plugins import PluginType, registered

        found = {entry.name: _lazy(entry) for entry in entry_points(*ENTRY_POINT_GROUPS)}
        return {**found, **registered(PluginType.NAMED_RESOURCE)}


named_resources: Final = NamedResources()


def _custom_module(name: str) -> Mapping[str, _Factory]:
    if not name:
        return {}
    try:
        table: object = import_module(name).NAMED_RESOURCES
    except (ImportError, AttributeError) as err:
        raise InvalidInputError(
            f"named resources cannot be loaded from ${ENV_CUSTOM_MODULE}={name}: {err};"
            " expected a module with a dict NAMED_RESOURCES"
        ) from err
    return {
        key: _callable(factory, key) for key, factory in want_map(table, f"{name}.NAMED_RESOURCES").items()
    }


def _lazy(entry: EntryPoint) -> _Factory:
    def make() -> object:
        try:
            factory: object = entry.load()
        except (ImportError, AttributeError) as err:
            raise InvalidInputError(
                f"named resource {entry.name!r} cannot be loaded from {entry.value}: {err}"
            ) from err
        return _callable(factory, entry.name)()

    return make


def _callable(factory: object, name: str) -> _Factory:
    if not callable(factory):
        raise InvalidInputError(
            f"named resource {name!r} must be a function without arguments that returns a Resource:"
            f" {show(factory)}"
        )
    return factory


def _registered(name: str, factories: Mapping[str, _Factory]) -> str:
    if name in factories:
        return name
    alike = [known for known in factories if known.lower() == name.lower()]
    if len(alike) > 1:
        raise InvalidInputError(
            f"named resource {name!r} may be any of {', '.join(alike)}; write it exactly so"
        )
    if not alike:
        raise UnknownNamedResourceError(name, factories)
    return alike[0]


def _make(name: str, factory: _Factory) -> Resource:
    """Call the factory; copy the result, so that no two callers share one, and TorchX's becomes ours."""
    made = factory()
    where = f"named resource {name!r}"
    own = Resource(
        cpu=want_int(getattr(made, "cpu", None), f"{where}.cpu"),
        gpu=want_int(getattr(made, "gpu", None), f"{where}.gpu"),
        memMB=want_int(getattr(made, "memMB", None), f"{where}.memMB"),
        capabilities=want_map(getattr(made, "capabilities", {}), f"{where}.capabilities"),
        devices=want_int_map(getattr(made, "devices", {}), f"{where}.devices"),
        tags=want_map(getattr(made, "tags", {}), f"{where}.tags"),
    )
    if own != null_resource():
        own.tags.setdefault(RESOURCE_NAME_TAG, name)
    return own
