"""At which level a log shows what a program wrote, and that a replica or an app has changed its state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, TypeAlias

from torchx_core.specs import AppState
from torchx_core.specs.rank_marks import MARKS, unmarked

__all__ = ["Level", "by_level", "level_of", "level_of_state"]

Level: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]

_HEAD_CHARS = 120
"""A logger says the level before the message; what stands later in a line is the message."""
_NAMES: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "WARN": "warning",
    "ERROR": "error",
    "CRITICAL": "critical",
    "FATAL": "critical",
}
_STATES: dict[AppState, Level] = {AppState.FAILED: "error", AppState.CANCELLED: "warning"}
_INITIALS: dict[str, Level] = {"D": "debug", "I": "info", "W": "warning", "E": "error", "F": "critical"}
# The name as a word of its own, in capitals as loggers write it, where only time, place or brackets precede:
# "2026-11-21 10:00:00,123 ERROR x", "[WARNING] x", "ERROR:root:x", "INFO 11-21 10:00:00 [core.py:7] x".
_NAMED = re.compile(r"(?:^|[\s\[(|:<\-])(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)(?=[\s\])|:>\-]|$)")

# glog, absl and torch: "E1121 10:00:00.123456 7 file.cc:12] x", "[E1121 …".
_GLOG = re.compile(r"\[?([DIWEF])\d{4} \d\d:\d\d:\d\d")
_JSON = re.compile(r'\{.*?"(?:level|levelname|severity|log_level)"\s*:\s*"(\w+)"')
_SHAPED = re.compile(rf"^{MARKS}(?:\{{|Traceback|\[?[DIWEF]\d{{4}} )", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"


def level_of(line: str) -> Level:
    """Return the level that the line says it has; ``info`` where it says none.

    Knows what Python's logging, loguru, structlog, glog and its kin write, and JSON lines, also behind the
    marks by which torchrun and PyTorch say whose line it is.

    Example:
        >>> level_of("2026-11-21 10:00:00,123 WARNING low on memory")
        'warning'
        >>> level_of("there was no ERROR in this line")
        'info'
    """
    if line.startswith("["):
        line = unmarked(line)
    if line.startswith(("{", "W", "E", "I", "F", "D", "[")):
        shaped = _by_shape(line)
        if shaped is not None:
            return shaped
    if line.startswith(_TRACEBACK):
        return "error"
    found = _NAMED.search(line, 0, _HEAD_CHARS)
    if found is None or not _is_head(line[: found.start()]):
        return "info"
    return _NAMES[found[1]]


def level_of_state(state: AppState) -> Level:
    """Return the level at which a log says that a replica or an app is in the state now."""
    return _STATES.get(state, "info")


def by_level(lines: Sequence[str]) -> Iterator[tuple[Level, list[str]]]:
    """Yield runs of consecutive lines of one level."""
    text = "\n".join(lines)
    if not any(name in text for name in _NAMES) and not _SHAPED.search(text):
        yield "info", list(lines)  # most lines: looking at all of them at once is ten times as fast
        return
    for level, run in groupby(lines, level_of):
        yield level, list(run)


def _by_shape(line: str) -> Level | None:
    if line.startswith("{"):
        found = _JSON.match(line)
        return _NAMES.get(found[1].upper()) if found else None
    found = _GLOG.match(line)
    return _INITIALS[found[1]] if found else None


def _is_head(text: str) -> bool:
    """Return whether the text is what stands before a level: a time, a name, brackets; not a sentence."""
    words = re.sub(r"[\[(<{].*?[\])>}]", " ", text).split()
    return sum(1 for word in words if re.search(r"[A-Za-z]{2}", word)) <= 1
