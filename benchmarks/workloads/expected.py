"""Comparing the lines that arrived with those that were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LINE_BYTES = 100


def written(count: int) -> list[str]:
    """Return what ``programs/write_lines.py`` writes."""
    return [f"{i:<99}" for i in range(count)]


def stamps(path: Path) -> tuple[int, int]:
    """Return when it started and ended writing, in nanoseconds."""
    start, end = path.read_text().split()
    return int(start), int(end)


class Faults(NamedTuple):
    """What is wrong with what arrived."""

    lost: int
    repeated: int
    torn: int
    """Pieces that were never written as lines."""


def compare(arrived: Sequence[str], expected: Sequence[str]) -> Faults:
    """Count; a newline at a line's end does not matter."""
    lines = [line.removesuffix("\n") for line in arrived]
    if lines == expected:
        return Faults(0, 0, 0)
    got, wanted = Counter(lines), Counter(expected)
    torn = sum(count for line, count in got.items() if line not in wanted)
    return Faults((wanted - got).total(), (got - wanted).total() - torn, torn)
