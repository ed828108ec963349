"""The decorator that says what a function offers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import wraps
from typing import Final, TypeVar, cast

from torchx_core.plugins.fractions import WHOLE, SomeResource

__all__ = ["KIND", "NAME", "NAMED_RESOURCES_ATTR", "PluginType", "register", "resource_tags"]

F = TypeVar("F", bound=Callable[..., object])

KIND: Final = "_plugin_type"
"""The attribute of a function that says which kind of plugin it is, as TorchX marks them."""
NAME: Final = "_plugin_name"
NAMED_RESOURCES_ATTR: Final = "NAMED_RESOURCES"
"""The attribute of a module that has its named resources by their names."""


class PluginType(str, Enum):
    """What a function offers; the values are TorchX's entry-point groups."""

    SCHEDULER = "torchx.schedulers"
    NAMED_RESOURCE = "torchx.named_resources"
    TRACKER = "torchx.tracker"
    """Of TorchX: nothing here reads it."""
    EVENT_HANDLER = "torchx.event_handlers"
    """The same."""


class resource_tags:  # noqa: N801  # TorchX's name
    """Keys of ``Resource.tags``; `Resource.get_resource_name` and `Resource.is_fractional` read them."""

    RESOURCE_NAME: Final = "torchx/named_resources.name"
    IS_FRACTIONAL: Final = "torchx/named_resources.is_fractional"


class register:  # noqa: N801  # TorchX's name
    """Marks a function of a module below ``torchx_plugins`` as one that makes something by name.

    Example:
        >>> @register.scheduler(name="mine")
        ... def create(session_name: str, **params: object) -> object: ...
    """

    def __init__(self, type: PluginType, name: str | None = None) -> None:  # noqa: A002  # TorchX's name
        """Say what the function makes, and its name; None for the function's own."""
        self._type = type
        self._name = name

    def __call__(self, fn: F) -> F:
        """Mark the function, and return it."""
        return _marked(fn, self._type, self._name or fn.__name__)

    @classmethod
    def scheduler(cls, name: str | None = None) -> register:
        """Mark a scheduler's factory; see `torchx_core.schedulers.SchedulerFactory`."""
        return cls(PluginType.SCHEDULER, name)

    @classmethod
    def tracker(cls, name: str | None = None) -> register:
        """Mark a tracker's factory, for TorchX."""
        return cls(PluginType.TRACKER, name)

    @classmethod
    def event_handler(cls, name: str | None = None) -> register:
        """Mark an event handler's factory, for TorchX."""
        return cls(PluginType.EVENT_HANDLER, name)

    @staticmethod
    def named_resource(
        name: str | None = None,
        aliases: Sequence[str] | None = None,
        fractionals: Callable[..., Mapping[float, str]] | Mapping[float, str] | None = None,
    ) -> _NamedResource:
        """Mark a function that makes a resource.

        Args:
            name: Of the resource; None for the function's own.
            aliases: More names of it.
            fractionals: Share of the host -> end of a name, as ``{0.5: "4"}``, or what makes that of the
                whole host's resource. Each is one more named resource, ``<name>_<end>``; the function is
                called with the share.
        """
        return _NamedResource(name, aliases or (), fractionals or {})


class _NamedResource:
    def __init__(
        self,
        name: str | None,
        aliases: Sequence[str],
        fractionals: Callable[..., Mapping[float, str]] | Mapping[float, str],
    ) -> None:
        self._name = name
        self._aliases = aliases
        self._fractionals = fractionals

    def __call__(self, fn: Callable[..., SomeResource]) -> Callable[..., SomeResource]:
        """Mark it, and put the other names into its module; return what makes the resource and tags it.

        Raises:
            ValueError: A name is registered twice in the module.
            AttributeError: The module has another thing of a name.
        """
        own = fn.__name__
        name = self._name or own
        whole = _tagged(fn, name)
        for each, make in [(name, whole), *self._others(fn, name, whole)]:
            _put(fn.__module__, each, _marked(make, PluginType.NAMED_RESOURCE, each), own)
        return whole

    def _others(
        self, fn: Callable[..., SomeResource], name: str, whole: Callable[..., SomeResource]
    ) -> Iterator[tuple[str, Callable[..., SomeResource]]]:
        for alias in self._aliases:
            yield alias, _alias(whole)
        ends = self._fractionals
        for share, end in (ends(fn()) if callable(ends) else ends).items():
            yield f"{name}_{end}", _tagged(fn, f"{name}_{end}", share)


def _tagged(
    fn: Callable[..., SomeResource], name: str, share: float | None = None
) -> Callable[..., SomeResource]:
    @wraps(fn)
    def make(*args: object, **kwargs: object) -> SomeResource:
        made = fn(*args, **kwargs) if share is None else fn(share)
        made.tags[resource_tags.RESOURCE_NAME] = name
        made.tags[resource_tags.IS_FRACTIONAL] = share not in (None, WHOLE)
        return made

    return make


def _alias(whole: Callable[..., SomeResource]) -> Callable[..., SomeResource]:
    @wraps(whole)
    def make(*args: object, **kwargs: object) -> SomeResource:
        return whole(*args, **kwargs)

    return make


def _put(module: str, name: str, make: Callable[..., SomeResource], own: str) -> None:
    """Give the module the resource, as an attribute and in its ``NAMED_RESOURCES``."""
    scope = vars(sys.modules[module])
    listed = cast("dict[str, object]", scope.setdefault(NAMED_RESOURCES_ATTR, {}))
    if name in listed:
        raise ValueError(f"named resource {name!r} is registered twice in {module}; choose another name")
    if name != own and name in scope:
        raise AttributeError(f"{module} has another {name!r}; choose another name for the resource")
    listed[name] = make
    if name != own:
        scope[name] = make


def _marked(fn: F, kind: PluginType, name: str) -> F:
    vars(fn).update({KIND: kind, NAME: name})
    return fn
