"""The dialect of INI that a ``.torchxconfig`` is written in.

::

    # a comment, also after ";", on a line of its own
    [section]
    option = value
    other : a value that goes on
        in lines that are indented further

It is what `configparser` reads by default, with two differences: a single percent sign stands for itself,
as ``%%`` does, while ``%(name)s``, the value of another option, is refused; and ``[DEFAULT]`` is a section
like any other.

It is read here and not by `configparser`, because that does not tell in which line a section or an option
stands. The tests compare the two on generated texts.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import Final

from torchx_core.config.settings import Origin, Section, Setting

__all__ = ["read_ini"]

_COMMENT: Final = ("#", ";")
_SECTION: Final = re.compile(r"\[(.+)\]")
_OPTION: Final = re.compile(r"(.*?)\s*[=:]\s*(.*)", re.DOTALL)
_PERCENT: Final = re.compile(r"%[%(]")


def read_ini(text: str, source: str) -> dict[str, Section]:
    r"""Return the sections by their names.

    Args:
        text: What the file holds.
        source: Its path, for origins and errors.

    Raises:
        InvalidConfigError: With the first line that cannot be read.

    Example:
        >>> read_ini("[local_cwd]\nlog_dir = /tmp/x", "f")["local_cwd"].settings["log_dir"].text
        '/tmp/x'
    """
    reader = _Reader(source)
    for number, line in enumerate(StringIO(text, newline=None), start=1):
        reader.read(line, Origin(source=source, line=number))
    reader.end_option()
    return reader.sections


class _Reader:
    """Takes line after line; an option is complete when the next one begins."""

    def __init__(self, source: str) -> None:
        self.sections: dict[str, Section] = {}
        self._section: Section | None = None
        self._option = ""
        self._origin = Origin(source=source)
        self._lines: list[str] = []
        self._indent = 0

    def read(self, line: str, origin: Origin) -> None:
        content = line.strip()
        if content.startswith(_COMMENT):
            return
        indent = len(line) - len(line.lstrip())
        if not content or (self._option and indent > self._indent):
            self._lines.append(content)
            return
        self.end_option()
        self._indent = indent
        header = _SECTION.match(content)
        if header:
            self._begin_section(header[1], origin)
        else:
            self._begin_option(content, origin)

    def _begin_section(self, name: str, origin: Origin) -> None:
        if name in self.sections:
            first = self.sections[name].origin.line
            raise origin.error(f"section [{name}] begins twice, first in line {first}; join the two")
        self._section = self.sections[name] = Section(name=name, origin=origin)

    def _begin_option(self, content: str, origin: Origin) -> None:
        if self._section is None:
            raise origin.error(f"no section yet: {content!r}; expected a line [section] before it")
        found = _OPTION.fullmatch(content)
        if not found or not found[1]:
            raise origin.error(f"neither a section nor an option: {content!r}; expected option = value")
        name, value = found.groups()
        if name in self._section.settings:
            first = self._section.settings[name].origin.line
            raise origin.error(f"option {name} of [{self._section.name}] is set twice, first in line {first}")
        self._option, self._origin, self._lines = name, origin, [value]

    def end_option(self) -> None:
        """Store the option whose lines were collected."""
        if self._section is not None and self._option:
            text = _unescaped("\n".join(self._lines).rstrip(), self._origin)
            self._section.settings[self._option] = Setting(text=text, origin=self._origin)
        self._option = ""


def _unescaped(text: str, origin: Origin) -> str:
    for found in _PERCENT.finditer(text):
        if found[0] == "%(":
            raise origin.error(
                f"{text[found.start() :]!r} stands for the value of another option, which is not supported;"
                " write the value itself, or %% for a percent sign"
            )
    return _PERCENT.sub("%", text)
