"""TorchX's view of all plugins: which names there are of each kind, and what could not be loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from typing import Final, final

from torchx_core.entry_points import entry_points
from torchx_core.plugins.registration import PluginType
from torchx_core.plugins.scan import registered

__all__ = ["PluginRegistry", "PluginSource", "RegistrationError", "registry"]

VARIABLE: Final = "TORCHX_PLUGINS_SOURCE"
"""Environment variable by which a user says where plugins are looked for: 0 to 3, as in `PluginSource`."""

Factory = Callable[..., object]


class PluginSource(IntFlag):
    """Where plugins are looked for."""

    NONE = 0
    NAMESPACE_PKG = 1
    """Modules below ``torchx_plugins``."""
    ENTRYPOINT = 2
    """Entry points of installed distributions, in TorchX's groups."""


_EVERYWHERE: Final = PluginSource.NAMESPACE_PKG | PluginSource.ENTRYPOINT


@dataclass(frozen=True, slots=True)
class RegistrationError:
    """Something that is no plugin, though it stands where plugins are.

    Attributes:
        module: The module, or the entry point's value.
        error: What went wrong.
        plugin_type: What it was looked for as.
        name: The plugin's, where it is known.
    """

    module: str
    error: str
    plugin_type: PluginType | None = None
    name: str | None = None


@final
class PluginRegistry:
    """Looks for plugins of a kind when they are first asked for, and remembers what it has found.

    Nothing here reads it: schedulers and named resources are looked up by their names, one at a time, so that
    a plugin that nobody needs costs nothing. It is for whoever wants to know what is installed.

    Example:
        >>> PluginRegistry(PluginSource.NONE).get(PluginType.SCHEDULER)
        {}
    """

    def __init__(self, plugin_sources: PluginSource = _EVERYWHERE) -> None:
        """Look for nothing yet."""
        self._sources = plugin_sources
        self._found: dict[PluginType, dict[str, Factory]] = {}
        self._errors: dict[PluginType, list[RegistrationError]] = {}

    def get(self, plugin_type: PluginType) -> dict[str, Factory]:
        """Return name -> factory; of two of one name the one from an entry point counts."""
        if plugin_type not in self._found:
            errors: list[RegistrationError] = []
            self._found[plugin_type] = dict(self._look(plugin_type, errors))
            self._errors[plugin_type] = errors
        return self._found[plugin_type]

    def info(
        self, plugin_type: PluginType | None = None
    ) -> Mapping[PluginType, Mapping[str, Factory]] | Mapping[str, Factory]:
        """Return the same for one kind, or for all: kind -> name -> factory."""
        return self.get(plugin_type) if plugin_type else {kind: self.get(kind) for kind in PluginType}

    def clear(self) -> None:
        """Forget what was found, and look again when asked."""
        self._found.clear()
        self._errors.clear()

    @property
    def errors(self) -> list[RegistrationError]:
        """What could not be loaded when plugins were looked for; nothing is looked for now."""
        return [error for errors in self._errors.values() for error in errors]

    def load_errors(self, plugin_type: PluginType | None = None) -> list[RegistrationError]:
        """Return what cannot be loaded of one kind, or of all."""
        kinds = [plugin_type] if plugin_type else list(PluginType)
        for kind in kinds:
            self.get(kind)
        return [error for kind in kinds for error in self._errors[kind]]

    def to_dict(self) -> dict[str, object]:
        """Return all that is there, as plain values: kind -> name -> where it is defined, and ``errors``."""
        kinds: dict[str, object] = {
            kind.value: {name: _place_of(make) for name, make in sorted(self.get(kind).items())}
            for kind in PluginType
        }
        errors = [{"module": each.module, "error": each.error} for each in self.errors]
        return {**kinds, "errors": errors}

    def __str__(self) -> str:
        """Return a report, a line for each plugin and each error."""
        lines: list[str] = []
        for kind in PluginType:
            lines += [
                f"{kind.value}:",
                *(f"  {name}: {_place_of(make)}" for name, make in self.get(kind).items()),
            ]
        return "\n".join([*lines, "errors:", *(f"  {each.module}: {each.error}" for each in self.errors)])

    def _look(self, kind: PluginType, errors: list[RegistrationError]) -> Iterator[tuple[str, Factory]]:
        if PluginSource.NAMESPACE_PKG in self._sources:

            def note(module: str, err: Exception) -> None:
                errors.append(RegistrationError(module, f"{type(err).__name__}: {err}", kind))

            yield from registered(kind, note).items()
        if PluginSource.ENTRYPOINT in self._sources:
            yield from _entry_points(kind, errors)


def _entry_points(kind: PluginType, errors: list[RegistrationError]) -> Iterator[tuple[str, Factory]]:
    for entry in entry_points(kind.value):
        try:
            yield entry.name, entry.load()
        except Exception as err:  # noqa: BLE001  # somebody's program, which may raise anything
            errors.append(RegistrationError(entry.value, f"{type(err).__name__}: {err}", kind, entry.name))


def _place_of(make: Factory) -> str:
    return f"{getattr(make, '__module__', '')}:{getattr(make, '__qualname__', type(make).__qualname__)}"


@cache
def registry() -> PluginRegistry:
    """Return the process's registry, made when it is first asked for.

    Raises:
        ValueError: ``TORCHX_PLUGINS_SOURCE`` names no sources.
    """
    text = os.environ.get(VARIABLE, str(int(_EVERYWHERE)))
    if text not in map(str, range(int(_EVERYWHERE) + 1)):
        raise ValueError(
            f"{VARIABLE} is {text!r}; it must be 1 (modules), 2 (entry points), 3 (both) or 0 (none)"
        )
    return PluginRegistry(PluginSource(int(text)))
