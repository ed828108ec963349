"""What is set, and where: a text with the file and line, or the variable, that it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torchx_core.errors import InvalidConfigError

__all__ = ["ConfigFile", "Origin", "Section", "Setting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of a setting; as a string ``path:line``, or ``$VARIABLE``."""

    source: str
    line: int | None = None
    """Counted from 1; None for an environment variable."""

    def __str__(self) -> str:
        """Return what editors and terminals take for a link."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def error(self, problem: str) -> InvalidConfigError:
        """Return the error that says what is wrong here."""
        return InvalidConfigError(self.source, self.line, problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One option as it is written, not yet of the option's type."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of one file."""

    name: str
    origin: Origin
    settings: dict[str, Setting] = field(default_factory=dict[str, Setting])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A file that was read."""

    path: str
    sections: Mapping[str, Section]
