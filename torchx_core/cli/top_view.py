"""What apps or replicas use, as a table that fits a terminal: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import terminal_size
from typing import Final, NamedTuple

from torchx_core.cli.styles import BOLD, DIM, STATE_STYLES, Paint
from torchx_core.cli.tables import Cell, Column, lay_out, without_empty
from torchx_core.cli.widths import cell_width, fit, one_line
from torchx_core.display.usage import memory_text
from torchx_core.quantities import format_duration
from torchx_core.specs import AppState, Usage

__all__ = ["HINT", "KEYS", "SORTS", "TopRow", "added_up", "sorted_rows", "top_lines"]


class TopRow(NamedTuple):
    """An app, or a replica."""

    name: str
    state: AppState
    usage: Usage
    scheduler: str = ""
    """Of an app."""


_COLUMNS: Final = (
    Column("NAME", shrinks=True),
    Column("SCHEDULER"),
    Column("STATE"),
    Column("CPU%", right=True),
    Column("MEM", right=True),
    Column("PEAK", right=True),
    Column("LIMIT", right=True),
    Column("TIME", right=True),
    Column("PROC", right=True),
    Column("READ", right=True),
    Column("WRITE", right=True),
    Column("GPU%", right=True),
    Column("GPUMEM", right=True),
)
_LEFT_OUT: Final = ("WRITE", "READ", "PROC", "SCHEDULER", "STATE", "LIMIT", "PEAK", "TIME", "GPUMEM")
"""What is left out, in this order, where the terminal is too narrow for all."""
_NAME: Final = 16
"""The name has so much room, if it needs that, before anything is left out for the sake of the rest."""

SORTS: Final[Mapping[str, Callable[[TopRow], float | None]]] = {
    "cpu": lambda row: row.usage.cpu_percent,
    "memory": lambda row: row.usage.memory_bytes,
    "time": lambda row: row.usage.cpu_s,
    "gpu": lambda row: row.usage.gpu_percent,
    "name": lambda _: 0.0,
}
"""By what rows may be sorted: the largest first, the unknown last, equal ones by name."""
KEYS: Final = {b"c": "cpu", b"m": "memory", b"t": "time", b"g": "gpu", b"n": "name"}
HINT: Final = "q quit; sort by: c CPU, m memory, t time, g GPU, n name"


def sorted_rows(rows: Iterable[TopRow], sort: str) -> list[TopRow]:
    """Return the rows, sorted by one of `SORTS`."""

    def key(row: TopRow) -> tuple[bool, float, str]:
        value = SORTS[sort](row)
        return value is None, -(value or 0.0), row.name

    return sorted(rows, key=key)


def added_up(usages: Sequence[Usage]) -> Usage:
    """Return what all of them use together; what is not known of one is not known of all.

    Peaks are not added up: they were at different times.
    """
    return Usage(
        cpu_percent=_sum([u.cpu_percent for u in usages]),
        cpu_s=_sum([u.cpu_s for u in usages]),
        memory_bytes=_total([u.memory_bytes for u in usages]),
        processes=_total([u.processes for u in usages]),
        read_bytes=_total([u.read_bytes for u in usages]),
        write_bytes=_total([u.write_bytes for u in usages]),
        gpu_percent=_sum([u.gpu_percent for u in usages]),
        gpu_memory_bytes=_total([u.gpu_memory_bytes for u in usages]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def top_lines(
    title: str, rows: Sequence[TopRow], *, size: terminal_size | None, paint: Paint, hint: str = ""
) -> list[str]:
    """Return a line about all, the table, and what may be done.

    Args:
        title: What they are rows of.
        rows: In the order to show.
        size: The terminal's, into which all of it fits; None for no bound.
        paint: Gives colours.
        hint: The last line.
    """
    width = None if size is None else size.columns - 1  # a full last column may begin a new line
    room = len(rows) if size is None else max(1, size.lines - 4)
    shown = rows if len(rows) <= room else rows[: room - 1]
    columns, cells = without_empty(
        _COLUMNS, [_cells(row) for row in shown], *_LEFT_OUT, "CPU%", "MEM", "GPU%"
    )
    if width is not None:
        columns, cells = _fitting(columns, cells, width)
    more = [f"… and {len(rows) - len(shown)} more"] if len(shown) < len(rows) else []
    table = lay_out(columns, cells, width=width, paint=paint) if rows else []
    return [
        _headline(title, rows, width, paint),
        *(_within(line, width) for line in table),
        *more,
        *([paint(hint if width is None else fit(hint, width), DIM)] if hint else []),
    ]


def _within(line: str, width: int | None) -> str:
    return line if width is None or cell_width(one_line(line)) <= width else fit(one_line(line), width)


def _headline(title: str, rows: Sequence[TopRow], width: int | None, paint: Paint) -> str:
    total = added_up([row.usage for row in rows])
    facts = [
        "" if total.cpu_percent is None else f"CPU {total.cpu_percent:.0f}%",
        "" if total.memory_bytes is None else f"memory {memory_text(total.memory_bytes)}",
        "" if total.gpu_percent is None else f"GPU {total.gpu_percent:.0f}%",
    ]
    told = "".join(f"  {fact}" for fact in facts if fact)
    name = title if width is None else fit(title, max(1, width - len(told)))
    return _within(f"{paint(name, BOLD)}{told}", width)


def _fitting(
    columns: Sequence[Column], cells: Sequence[Sequence[Cell]], width: int
) -> tuple[Sequence[Column], Sequence[Sequence[Cell]]]:
    """Leave out what matters least until the rest has room, the name some of what it needs."""
    for title in _LEFT_OUT:
        if _needed(columns, cells) <= width:
            break
        kept = [i for i, column in enumerate(columns) if column.title != title]
        columns, cells = [columns[i] for i in kept], [[row[i] for i in kept] for row in cells]
    return columns, cells


def _needed(columns: Sequence[Column], cells: Sequence[Sequence[Cell]]) -> int:
    widths = [
        max(len(column.title), *(cell_width(row[i].text) for row in cells)) if cells else len(column.title)
        for i, column in enumerate(columns)
    ]
    return min(widths[0], _NAME) + sum(widths[1:]) + 2 * (len(widths) - 1)


def _cells(row: TopRow) -> list[Cell]:
    usage = row.usage
    return [
        Cell(row.name),
        Cell(row.scheduler, DIM),
        Cell(str(row.state), STATE_STYLES[row.state]),
        Cell(_percent(usage.cpu_percent), BOLD),
        Cell(memory_text(usage.memory_bytes)),
        Cell(memory_text(usage.memory_peak_bytes)),
        Cell(memory_text(usage.memory_limit_bytes), DIM),
        Cell("" if usage.cpu_s is None else format_duration(usage.cpu_s)),
        Cell("" if usage.processes is None else str(usage.processes)),
        Cell(memory_text(usage.read_bytes)),
        Cell(memory_text(usage.write_bytes)),
        Cell(_percent(usage.gpu_percent)),
        Cell(memory_text(usage.gpu_memory_bytes)),
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
