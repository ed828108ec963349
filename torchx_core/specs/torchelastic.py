"""What torchrun prints when a rank fails, read from the last lines of its replica."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from torchx_core.specs.rank_marks import lines_by_rank, uncaught_by_rank
from torchx_core.specs.tracebacks import Raised, find_raised

__all__ = ["RankFailure", "find_rank_failures", "without_summary"]

_FAILED: Final = re.compile(r"\S*\bChildFailedError:")
_ROOT: Final = "Root Cause (first observed failure):"
_BORDER: Final = re.compile(r"={3,}\s*$")
_WHO: Final = re.compile(r"  rank\s+: (\d+) \(local_rank: (\d+)\)")
_HOW: Final = re.compile(r"  exitcode\s+: (-?\d+) \(pid: \d+\)")
_WHY: Final = re.compile(r"  traceback : (.*)")
_NOTICED: Final = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: \d+ \(pid: \d+\) of binary")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """How one rank failed, as its torchrun has it."""

    rank: int | None
    """None where torchrun was ended before it said."""
    code: int
    """Its exit code; the number of the signal that killed it, negative."""
    raised: Raised | None
    """The exception that it ended with, where that is to be seen."""


def find_rank_failures(lines: Sequence[str]) -> list[RankFailure]:
    """Return the ranks that torchrun says have failed, the one that it takes for the first before the others.

    Args:
        lines: The last lines of its replica.
    """
    ranks, uncaught = lines_by_rank(lines), uncaught_by_rank(lines)
    own = ranks.get("", [])
    begin, end = _summary(own)
    root = next((i for i in range(begin, end) if own[i].startswith(_ROOT)), begin)
    failures = [
        *_entries(own[root:end], ranks, uncaught),
        *_entries(own[begin:root], ranks, uncaught),
    ]
    if failures:
        return failures
    noticed = (_NOTICED.search(line) for line in reversed(own))
    return [RankFailure(rank=None, code=int(found[1]), raised=None) for found in noticed if found][:1]


def without_summary(lines: Sequence[str]) -> list[str]:
    """Return the lines without torchrun's own traceback and its summary."""
    begin, end = _summary(lines)
    while 0 < begin < len(lines) and (lines[begin].startswith("  ") or _FAILED.match(lines[begin])):
        begin -= 1
    return [*lines[:begin], *lines[end:]]


def _summary(lines: Sequence[str]) -> tuple[int, int]:
    """Return where the last summary begins, with the exception that it is, and where it ends.

    Of a long one there may be only the end, from the root cause on.
    """
    begin = next((i for i in reversed(range(len(lines))) if _FAILED.match(lines[i])), None)
    if begin is None:
        begin = next((i for i in reversed(range(len(lines))) if lines[i].startswith(_ROOT)), len(lines))
    root = next((i for i in range(begin, len(lines)) if lines[i].startswith(_ROOT)), len(lines))
    return begin, next((i + 1 for i in range(root, len(lines)) if _BORDER.match(lines[i])), len(lines))


def _entries(
    lines: Sequence[str], ranks: Mapping[str, Sequence[str]], uncaught: Mapping[str, Sequence[str]]
) -> Iterator[RankFailure]:
    who = how = None
    for at, line in enumerate(lines):
        who, how = _WHO.match(line) or who, _HOW.match(line) or how
        why = _WHY.match(line)
        if not (who and how and why):
            continue
        rank, code = int(who[1][:9]), int(how[1][:9])
        raised = find_raised([why[1], *(each[2:] for each in _indented(lines, at + 1))])
        if raised is None and code > 0:
            logs = (ranks.get(name, ()) for name in (f"local rank {who[2]}", f"rank {who[1]}"))
            raised = next(filter(None, map(find_raised, logs)), None)
        if raised is None and code == -signal.SIGABRT:
            raised = find_raised(uncaught.get(f"rank {who[1]}", ()))
        yield RankFailure(rank=rank, code=code, raised=raised)
        who = how = None


def _indented(lines: Sequence[str], at: int) -> Iterator[str]:
    while at < len(lines) and lines[at].startswith("  "):
        yield lines[at]
        at += 1
