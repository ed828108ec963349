"""The board as lines of a terminal: one for the app, one for each replica."""

from __future__ import annotations

from collections import Counter
from os import terminal_size
from typing import Final

from torchx_core.cli.board import Board, ReplicaRow
from torchx_core.cli.styles import BOLD, DIM, STATE_STYLES, Paint
from torchx_core.cli.tables import Cell, Column, lay_out
from torchx_core.cli.widths import fit, fit_painted, one_line
from torchx_core.quantities import format_duration
from torchx_core.specs import AppState

__all__ = ["board_lines"]

_COLUMNS = (
    Column(""),
    Column(""),
    Column("", right=True),
    Column(""),
    Column("", shrinks=True),
    Column("", shrinks=True),
    Column("", shrinks=True),
)
_BAR: Final = 12
_SHARE: Final = 2  # the board takes at most half of the screen: the rest is for the log
_FIRST: Final = (AppState.FAILED, AppState.RUNNING, AppState.PENDING, AppState.SUBMITTED)
"""Who is shown when there is no room for all."""


def board_lines(board: Board, app_id: str, *, now: float, size: terminal_size, paint: Paint) -> list[str]:
    """Return the lines to show now; none is as wide as the terminal.

    Args:
        board: What is known.
        app_id: The app's name on it.
        now: Seconds since the epoch.
        size: The terminal's.
        paint: Gives colours.
    """
    width = size.columns - 1  # a full last column makes some terminals begin a new line
    shown, hidden = _choose(list(board.rows.values()), max(1, size.lines // _SHARE - 2))
    lines = lay_out(_COLUMNS, [_row(row, now) for row in shown], width=width, paint=paint)
    return [
        _headline(board, app_id, now, width, paint),
        *(fit_painted(line, width) for line in lines),
        *([fit(_more(hidden), width)] if hidden else []),
    ]


def _headline(board: Board, app_id: str, now: float, width: int, paint: Paint) -> str:
    state, age = str(board.state), format_duration(now - board.since)
    name = fit(app_id, max(1, width - len(f"  {state}  {age}")))
    message = fit(one_line(board.message), max(0, width - len(f"{name}  {state}  {age}  ")))
    return f"{paint(name, BOLD)}  {paint(state, STATE_STYLES[board.state])}  {age}  {message}".rstrip()


def _choose(rows: list[ReplicaRow], room: int) -> tuple[list[ReplicaRow], list[ReplicaRow]]:
    if len(rows) <= room:
        return rows, []
    ranked = sorted(rows, key=lambda row: _FIRST.index(row.state) if row.state in _FIRST else len(_FIRST))
    chosen = {(row.role, row.replica) for row in ranked[: room - 1]}
    shown = [row for row in rows if (row.role, row.replica) in chosen]
    return shown, [row for row in rows if (row.role, row.replica) not in chosen]


def _more(hidden: list[ReplicaRow]) -> str:
    counts = Counter(str(row.state) for row in hidden)
    return f"… and {len(hidden)} more: {', '.join(f'{n} {state}' for state, n in counts.items())}"


def _row(row: ReplicaRow, now: float) -> list[Cell]:
    percent = "" if row.fraction is None else f"{_bar(row.fraction)} {row.fraction:4.0%}"
    return [
        Cell(f"  {row.role}/{row.replica}"),
        Cell(_state(row), STATE_STYLES[row.state]),
        Cell("" if row.started_at is None else format_duration((row.ended_at or now) - row.started_at), DIM),
        Cell(percent, "36"),
        Cell(row.message),
        Cell(_metric(row)),
        Cell(row.line, DIM),
    ]


def _state(row: ReplicaRow) -> str:
    ending = row.signal or (f"exit {row.exit_code}" if row.exit_code else "")
    attempt = f"attempt {row.attempt + 1}" if row.attempt else ""
    details = ", ".join(filter(None, (ending, attempt)))
    return f"{row.state} ({details})" if details else str(row.state)


def _metric(row: ReplicaRow) -> str:
    if row.metric is None:
        return ""
    step = "" if row.metric.step is None else f" @{row.metric.step}"
    return f"{row.metric.name} {row.metric.value:.4g}{step}"


def _bar(fraction: float) -> str:
    filled = round(max(0.0, min(1.0, fraction)) * _BAR)
    return "━" * filled + "─" * (_BAR - filled)
