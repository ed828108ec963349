"""The marks by which torchrun and PyTorch say whose a line is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

__all__ = ["MARKS", "lines_by_rank", "uncaught_by_rank", "unmarked"]

MARKS: Final = r"(?:\[(?!rank\d)[^\[\]\s]{0,100}?(\d{1,9})\]:)?(?:\[rank(\d{1,9})\]: ?)?"
"""How torchrun marks a rank's line (``[trainer1]:``), and how PyTorch marks those of its traceback."""
_MARKED: Final = re.compile(f"{MARKS}(.*)", re.DOTALL)


def unmarked(line: str) -> str:
    """Return the line without the marks."""
    return _split(line)[2]


def lines_by_rank(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return each rank's lines without the marks; under an empty name what bears none, torchrun's own.

    Torchrun marks by the number on its host, and PyTorch, where torchrun does not, by that among all.

    Example:
        >>> lines_by_rank(["[default1]:[rank3]: KeyError: 1", "[rank3]: KeyError: 1", "W1125 a warning"])
        {'local rank 1': ['KeyError: 1'], 'rank 3': ['KeyError: 1'], '': ['W1125 a warning']}
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        local, rank, text = _split(line)
        who = f"local rank {local}" if local else f"rank {rank}" if rank else ""
        found.setdefault(who, []).append(text)
    return found


def uncaught_by_rank(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return what PyTorch printed of each rank's uncaught exception, without marks; the rest has no name.

    A process that has joined its process group marks these lines (``[rank3]:``), and PyTorch's own warnings.

    Example:
        >>> uncaught_by_rank(["[default1]:[rank3]: KeyError: 1", "ValueError: that was caught, and printed"])
        {'rank 3': ['KeyError: 1'], '': ['ValueError: that was caught, and printed']}
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        _, rank, text = _split(line)
        found.setdefault(f"rank {rank}" if rank else "", []).append(text if rank else line)
    return found


def _split(line: str) -> tuple[str | None, str | None, str]:
    """Return the rank's number on its host, that among all, and the text behind both."""
    local, rank, text = cast("re.Match[str]", _MARKED.match(line)).groups()
    return local, rank, text
