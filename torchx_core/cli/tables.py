"""Lays out tables: aligned columns that shrink to the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchx_core.cli.styles import BOLD, Paint, Style
from torchx_core.cli.widths import cell_width, fit, one_line

__all__ = ["Cell", "Column", "lay_out", "without_empty"]

_GAP = "  "
_NARROWEST = 8
"""A column is not cut to less than that."""


class Cell(NamedTuple):
    """One field of a row."""

    text: str
    style: Style = ""


class Column(NamedTuple):
    """One column."""

    title: str
    shrinks: bool = False
    """Its fields may be cut when the terminal is too narrow."""
    right: bool = False
    """Its fields are numbers, aligned at their ends."""


def without_empty(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *titles: str
) -> tuple[Sequence[Column], Sequence[Sequence[Cell]]]:
    """Return columns and rows without those of the named columns in which no row has anything."""
    kept = [
        i
        for i, column in enumerate(columns)
        if column.title not in titles or any(row[i].text for row in rows)
    ]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def lay_out(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, width: int | None, paint: Paint
) -> list[str]:
    """Return the lines of a table, its head first; no line ends in white space.

    Args:
        columns: Titles; without any title there is no head.
        rows: One field per column.
        width: Columns of the terminal, or None for as much as it takes.
        paint: Gives fields their styles.
    """
    head = [Cell(column.title, BOLD) for column in columns]
    body = [[Cell(one_line(cell.text), cell.style) for cell in row] for row in rows]
    lines = [head, *body] if any(column.title for column in columns) else body
    widths = [max((cell_width(line[i].text) for line in lines), default=0) for i in range(len(columns))]
    if width is not None:
        widths = _shrunk(columns, widths, width)
    return [_line(columns, line, widths, paint) for line in lines]


def _shrunk(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Take what is too much from the shrinking columns, the widest first."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    result = list(widths)
    shrinking = [i for i, column in enumerate(columns) if column.shrinks]
    while excess > 0 and shrinking:
        widest = max(shrinking, key=lambda i: result[i])
        if result[widest] <= _NARROWEST:
            break
        result[widest] -= 1
        excess -= 1
    return result


def _line(columns: Sequence[Column], cells: Sequence[Cell], widths: Sequence[int], paint: Paint) -> str:
    filled = [
        (fit(cell.text, width), cell.style, column.right)
        for column, cell, width in zip(columns, cells, widths, strict=True)
    ]
    while filled and not filled[-1][0]:
        filled.pop()
    parts: list[str] = []
    for i, (text, style, right) in enumerate(filled):
        padding = " " * (widths[i] - cell_width(text))
        last = i == len(filled) - 1
        painted = paint(text, style)
        parts.append(padding + painted if right else painted if last else painted + padding)
    return _GAP.join(parts)
