"""The board, drawn again and again, as a terminal shows it."""

from __future__ import annotations

from os import terminal_size

import pyte

from torchx_core import AppState, AppStatus
from torchx_core.cli.board import Board
from torchx_core.cli.board_view import board_lines
from torchx_core.cli.live_view import LiveArea
from torchx_core.cli.styles import in_colour, plainly
from torchx_core.cli.widths import cell_width, one_line
from torchx_core.schedulers import LogLines, Metric, Progress, ReplicaChanged, StateChanged
from torchx_core.specs import ReplicaStatus, RoleStatus


def screen_of(columns: int) -> tuple[pyte.Screen, LiveArea]:
    """Return a screen, and an area that is drawn on it."""
    screen = pyte.Screen(columns, 10)
    stream = pyte.Stream(screen)
    return screen, LiveArea(lambda text: stream.feed(text.replace("\n", "\r\n")), lambda: screen.columns)


def shown(screen: pyte.Screen) -> list[str]:
    """Return the lines that are not empty."""
    return [line.rstrip() for line in screen.display if line.strip()]


def board(replicas: int) -> Board:
    """Return a board of one role whose replicas wait."""
    rows = [ReplicaStatus(i, AppState.PENDING, "r", "h") for i in range(replicas)]
    return Board.of(AppStatus(AppState.SUBMITTED, roles=[RoleStatus("r", rows)]), now=100.0)


def test_an_area_is_replaced_and_text_scrolls_above_it() -> None:
    """The area may become shorter."""
    screen, area = screen_of(20)
    area.draw(["one", "two"])
    area.draw(["three"], above="log\n")
    assert shown(screen) == ["log", "three"]
    area.clear()
    assert shown(screen) == ["log"]


def test_what_a_narrower_terminal_wrapped_is_erased() -> None:
    """A line of 12 columns takes two rows when the window has 8."""
    writes: list[str] = []
    width = 20
    area = LiveArea(writes.append, lambda: width)
    area.draw(["x" * 12, "y"])
    width = 8
    area.draw(["z"])
    assert writes[-1] == "\r\x1b[3A\x1b[Jz\n"


def test_the_board_says_how_each_replica_is_doing() -> None:
    """State, time, progress, message, the last metric and the last line."""
    known = board(2)
    who = {"role": "r", "replica": 0, "attempt": 1}
    known.apply(StateChanged(state=AppState.RUNNING, time=100.0))
    known.apply(ReplicaChanged(**who, state=AppState.RUNNING, time=101.0))  # type: ignore[arg-type]
    known.apply(Progress(**who, fraction=0.5, message="epoch 5", time=102.0))  # type: ignore[arg-type]
    known.apply(Metric(**who, name="loss", value=0.25, step=7, time=102.0))  # type: ignore[arg-type]
    known.apply(LogLines("r", 0, 1, "stdout", ("a line",), 102.0))
    assert board_lines(known, "x", now=106.0, size=terminal_size((120, 24)), paint=plainly) == [
        "x  RUNNING  6.0s",
        "  r/0  RUNNING (attempt 2)  5.0s  ━━━━━━──────  50%  epoch 5  loss 0.25 @7  a line",
        "  r/1  PENDING",
    ]


def test_how_a_replica_ended_stays_on_the_board() -> None:
    """Its exit code, or the signal that killed it, and how long it ran."""
    known = board(1)
    who = {"role": "r", "replica": 0, "attempt": 0}
    known.apply(ReplicaChanged(**who, state=AppState.RUNNING, time=100.0))  # type: ignore[arg-type]
    known.apply(
        ReplicaChanged(**who, state=AppState.FAILED, time=103.0, signal="SIGKILL")  # type: ignore[arg-type]
    )
    lines = board_lines(known, "x", now=200.0, size=terminal_size((80, 24)), paint=plainly)
    assert lines[1] == "  r/0  FAILED (SIGKILL)  3.0s"


def test_a_small_screen_shows_who_matters() -> None:
    """The board takes half of it; what failed comes first, the rest is counted."""
    known = board(20)
    who = {"role": "r", "replica": 17, "attempt": 0}
    known.apply(ReplicaChanged(**who, state=AppState.FAILED, time=1.0, exit_code=3))  # type: ignore[arg-type]
    lines = board_lines(known, "x", now=200.0, size=terminal_size((80, 12)), paint=plainly)
    assert len(lines) == 5
    assert any("r/17  FAILED (exit 3)" in line for line in lines)
    assert lines[-1] == "… and 17 more: 17 PENDING"


def test_no_line_is_as_wide_as_the_terminal() -> None:
    """A line of that width would be wrapped, and erased in part only."""
    known = board(3)
    known.apply(LogLines("r", 0, 0, "stdout", ("日本語\x1b[2J" * 99,), 102.0))
    known.apply(StateChanged(state=AppState.RUNNING, time=100.0, msg="long " * 99))
    known.apply(Progress(role="r", replica=1, attempt=0, fraction=0.3, message="long " * 99, time=100.0))
    for columns in (20, 40, 61, 100):
        lines = board_lines(known, "name" * 30, now=200.0, size=terminal_size((columns, 24)), paint=in_colour)
        assert max(cell_width(one_line(line)) for line in lines) < columns
