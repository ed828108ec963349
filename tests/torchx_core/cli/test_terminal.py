"""The command line in a real terminal: colours, live lines, Ctrl-C, and what is left on the screen."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from cli_apps import app_file, cut_short, ended, state_of, submitted
from cli_terminal import Terminal, in_terminal

from torchx_core import get_runner
from torchx_core.testing import (
    Exit,
    Hold,
    Print,
    PrintMany,
    ReportMetric,
    ReportProgress,
    wait_until,
)

HANDLE = "local_cwd://torchx/x"
LIVELY = (ReportProgress(0.5, "epoch 5"), ReportMetric("loss", 0.25, 7), Print("hello"), Hold())


def test_a_run_shows_a_line_per_replica_below_its_log() -> None:
    """State, progress, message, the last metric and the last line, kept up to date."""
    with in_terminal("run", "--app", app_file(*LIVELY, replicas=2), "--app-id", "x") as terminal:
        terminal.wait_for("x  RUNNING")
        lines = wait_until(lambda: _whole(terminal), 240)
        assert lines[0] == HANDLE
        assert sorted(lines[1:3]) == ["main/0 hello", "main/1 hello"]
        assert lines[3].startswith("x  RUNNING")
        assert len(lines) == 6
        # The clock goes on without events.
        wait_until(lambda: (_whole(terminal) or lines)[3] != lines[3], 240)


def _whole(terminal: Terminal) -> list[str] | None:
    """Return what is shown, unless it is about to be drawn or something is still to come."""
    lines = terminal.shown()
    told = "━━━━━━──────  50%  epoch 5  loss 0.25 @7  hello"
    ready = [
        line.startswith(f"  main/{k}  RUNNING") and line.endswith(told) for k, line in enumerate(lines[4:])
    ]
    return lines if ready == [True, True] else None


def test_states_and_replicas_have_colours() -> None:
    """On a terminal, unless the user does not want them."""
    ended(submitted(Exit(3)))
    with in_terminal("status", HANDLE) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.colour_of("FAILED") == "d70000"
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with in_terminal("status", HANDLE, env=env) as terminal:
            terminal.exit_code()
            assert b"\x1b" not in terminal.raw
            assert "FAILED" in "\n".join(terminal.shown())


def test_a_dumb_terminal_gets_plain_lines() -> None:
    """Nothing is redrawn where the cursor cannot move."""
    with in_terminal("run", "--app", app_file(Print("hello")), env={"TERM": "dumb"}) as terminal:
        assert terminal.exit_code() == 0
        assert b"\x1b" not in terminal.raw
        assert "main/0 is SUCCEEDED" in terminal.shown()


def test_no_line_is_lost_above_the_board() -> None:
    """However many there are, each is on the screen once, and the board is gone in the end."""
    with in_terminal("run", "--app", app_file(PrintMany(2000))) as terminal:
        assert terminal.exit_code() == 0
        lines = terminal.scrolled()
    assert [line for line in lines if line.startswith("main/0")] == [f"main/0 {i}" for i in range(2000)]
    assert "SUCCEEDED after" in lines[-1]
    assert len(lines) == 2002


def test_ctrl_c_asks_and_cancels() -> None:
    """Another process sees the app CANCELLED; the log is shown to its end."""
    with in_terminal("run", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        terminal.interrupt()
        terminal.wait_for("[c]ancel it   [d]etach")
        assert state_of(HANDLE) == "RUNNING"
        terminal.press("c")
        assert terminal.exit_code() == 125
        assert f"{HANDLE} CANCELLED after" in terminal.shown()[-1]
    assert state_of(HANDLE) == "CANCELLED"
    assert ended(HANDLE).msg.startswith("cancelled on the command line")


def test_ctrl_c_asks_and_detaches() -> None:
    """Another process sees the app running on, and the screen says how to go on with it."""
    with in_terminal("run", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        terminal.interrupt()
        terminal.wait_for("[d]etach")
        terminal.press("d")
        assert terminal.exit_code() == 130
        assert terminal.shown()[-3:] == [
            f"left {HANDLE}, which goes on",
            f"  follow it: torchx-core log -t {HANDLE}",
            f"  end it:    torchx-core cancel {HANDLE}",
        ]
        assert len(terminal.shown()) == len((HANDLE, "main/0 hello", "left", "follow it", "end it"))
    assert state_of(HANDLE) == "RUNNING"


@pytest.mark.parametrize("columns", [60, 80])
def test_the_question_is_whole_on_a_narrow_screen(columns: int) -> None:
    """However long the app's id is: what may be pressed stands on a line of its own."""
    app_id = "train-a-model-with-a-rather-long-name-nmqcjccnhgkmp"
    app = app_file(Print("hello"), Hold(ignore_term=True))
    run = ("run", "-cfg", "grace_s=600", "--app", app, "--app-id", app_id)
    with in_terminal(*run, columns=columns) as terminal:
        terminal.wait_for("hello")
        terminal.interrupt()
        terminal.wait_for("another key")
        question, choices = terminal.shown()[-2:]
        assert question.startswith("Ctrl-C: what shall become of train-a-model-with-a-")
        assert choices == "  [c]ancel it   [d]etach, it runs on   another key: go on"
        terminal.interrupt()
        terminal.wait_for("cancelling train-a-model-with-a-")
        assert terminal.shown()[-1] == "  Ctrl-C again: leave before it has ended"
        assert not any("[c]ancel" in line for line in terminal.shown())
        terminal.interrupt()
        assert terminal.exit_code() == 130
    assert str(cut_short(f"local_cwd://torchx/{app_id}").state) == "CANCELLED"


def test_another_key_goes_on() -> None:
    """The question goes away, and may be asked again."""
    with in_terminal("run", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        for _ in range(2):
            terminal.interrupt()
            terminal.wait_for("[c]ancel")
            terminal.press("n")
            wait_until(lambda: not any("[c]ancel" in line for line in terminal.shown()), 240)
        wait_until(lambda: any(line.startswith("x  RUNNING") for line in terminal.shown()), 240)


def test_a_second_ctrl_c_cancels_and_a_third_leaves() -> None:
    """Who presses it again means it; the grace period is served without us."""
    steps = Print("hello"), Hold(ignore_term=True)
    with in_terminal("run", "-cfg", "grace_s=600", "--app", app_file(*steps), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        terminal.interrupt()
        terminal.wait_for("[c]ancel")
        terminal.interrupt()
        terminal.wait_for("cancelling x")
        terminal.interrupt()
        assert terminal.exit_code() == 130
        assert terminal.shown()[-1] == f"left {HANDLE}, which is being cancelled"
    assert str(cut_short(HANDLE).state) == "CANCELLED"


def test_the_log_goes_on_while_the_question_is_open() -> None:
    """The app's lease is renewed meanwhile, for longer than it lasts: nobody has stopped following."""
    with in_terminal("run", "-cfg", "lease_s=3", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        terminal.interrupt()
        terminal.wait_for("[c]ancel")
        wait_until(lambda: re.search(r"RUNNING  ([6-9]\.\d|\d\d)", "\n".join(terminal.shown())), 240)
        wait_until(lambda: any("[c]ancel" in line for line in terminal.shown()), 240)
        assert state_of(HANDLE) == "RUNNING"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_window_detaches(number: signal.Signals) -> None:
    """A window may be closed while the question is open."""
    with in_terminal("run", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        terminal.interrupt()
        terminal.wait_for("[c]ancel")
        terminal.process.send_signal(number)
        assert terminal.exit_code() == 128 + number
    assert state_of(HANDLE) == "RUNNING"


def test_the_terminal_gets_its_settings_back() -> None:
    """A shell behind us shows again what its user types."""
    with in_terminal("run", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("hello")
        before = terminal.settings()
        terminal.interrupt()
        terminal.wait_for("[c]ancel")
        assert not terminal.echoes()
        terminal.press("d")
        terminal.exit_code()
        assert terminal.settings() == before


def test_a_window_that_becomes_smaller_keeps_its_order() -> None:
    """Lines are cut to the new width from the next drawing on."""
    with in_terminal("run", "--app", app_file(*LIVELY), "--app-id", "x") as terminal:
        terminal.wait_for("loss 0.25")
        terminal.resize(40, 24)
        wait_until(lambda: any(line.endswith("…") for line in terminal.shown()), 240)
        wait_until(lambda: sum(line.startswith("  main/0") for line in terminal.shown()) == 1, 240)


def test_wait_shows_the_board_without_the_log() -> None:
    """The last line of each replica is on its line; Ctrl-C may detach here too."""
    submitted(*LIVELY)
    with in_terminal("wait", HANDLE) as terminal:
        terminal.wait_for("loss 0.25 @7  hello")
        assert [line for line in terminal.shown() if line.startswith("main/0")] == []
        terminal.interrupt()
        terminal.wait_for("[d]etach")
        terminal.press("d")
        assert terminal.exit_code() == 130
    assert state_of(HANDLE) == "RUNNING"


def test_a_hostile_line_does_not_take_over_the_board() -> None:
    """On its replica's line nothing moves the cursor; above, output is shown as `cat` would show it."""
    with in_terminal("run", "--no-log", "--app", app_file(Print("\x1b[2Jboo\x07"), Hold())) as terminal:
        terminal.wait_for("boo")
        assert b"\x1b[2J" not in terminal.raw
        assert any(line.startswith("  main/0  RUNNING") for line in terminal.shown())


def test_a_piped_log_beside_a_terminal_is_plain() -> None:
    """``run | cat``: nothing is redrawn; Ctrl-C, which ends ``cat`` in the middle of the log, still asks."""
    chatty = "while :; do echo hello; sleep 0.02; done"
    Path("app.yaml").write_text(
        f"name: a\nroles: [{{name: main, image: '', entrypoint: sh, args: [-c, '{chatty}']}}]"
    )
    with in_terminal("run", "--app", "app.yaml", "--app-id", "x", pipe=True) as terminal:
        terminal.wait_for("main/0 hello")
        assert b"\x1b[J" not in terminal.raw
        terminal.interrupt()
        terminal.wait_for("[c]ancel")
        terminal.press("c")
        assert terminal.exit_code() == 125
        assert any("CANCELLED after" in line for line in terminal.shown())


def test_delete_of_several_asks_first() -> None:
    """One is deleted as it is said; ``--yes`` asks nothing."""
    for app_id in ("a", "b", "c"):
        ended(submitted(Exit(0), app_id=app_id))
    a, b, c = (f"local_cwd://torchx/{app_id}" for app_id in "abc")
    with in_terminal("delete", a, b) as terminal:
        terminal.wait_for("delete 2 apps and their logs?")
        terminal.press("n\n")
        assert terminal.exit_code() == 1
    assert [state_of(a), state_of(b)] == ["SUCCEEDED", "SUCCEEDED"]
    with in_terminal("delete", a) as terminal:
        assert terminal.exit_code() == 0
    with in_terminal("prune", "--max-count", "0", "-s", "local_cwd", "--yes") as terminal:
        assert terminal.exit_code() == 0
    assert [state_of(h) for h in (a, b, c)] == ["gone"] * 3


@pytest.mark.parametrize("columns", [60, 80])
def test_cancel_all_shows_the_apps_and_asks_first(columns: int) -> None:
    """No is the answer of who only presses return; ``--yes`` asks nothing."""
    handles = [submitted(Hold(), app_id=app_id) for app_id in ("train-nmqcjccnhgkmp", "train-bvkkjchvbglcf")]
    with in_terminal("cancel", "--all", columns=columns) as terminal:
        terminal.wait_for("cancel these 2 apps? [y/N]:")
        assert [line.strip() for line in terminal.shown()[:2]] == handles
        terminal.press("\r")
        assert terminal.exit_code() == 1
    assert all(state_of(handle) != "CANCELLED" for handle in handles)
    with in_terminal("cancel", "--all", columns=columns) as terminal:
        terminal.wait_for("[y/N]:")
        terminal.press("y\r")
        assert terminal.exit_code() == 0
    assert [str(ended(handle).state) for handle in handles] == ["CANCELLED"] * 2
    last = submitted(Hold(), app_id="x")
    with in_terminal("cancel", "--all", "--yes", columns=columns) as terminal:
        assert terminal.exit_code() == 0
    assert str(ended(last).state) == "CANCELLED"


def test_prune_asks_first() -> None:
    """Ctrl-C for an answer prunes nothing."""
    ended(submitted(Exit(0)))
    with in_terminal("prune", "--max-count", "0") as terminal:
        terminal.wait_for("delete 1 apps and their logs?")
        terminal.interrupt()
        assert terminal.exit_code() == 130
    assert state_of(HANDLE) == "SUCCEEDED"


def test_tables_are_cut_to_the_width_of_the_terminal() -> None:
    """A handle stays whole."""
    with in_terminal("runopts", "local_cwd", columns=60) as terminal:
        assert terminal.exit_code() == 0
        lines = terminal.shown()
    assert max(map(len, lines)) <= 60
    assert any(line.endswith("…") for line in lines)


@pytest.mark.parametrize("columns", [60, 80])
def test_a_list_that_is_watched_stays_up_to_date(columns: int) -> None:
    """Until ``q``; then what was seen last stays, and the terminal is as it was."""
    handle = submitted(Hold(), app_id="train-nmqcjccnhgkmp")
    with in_terminal("list", "--watch", columns=columns) as terminal:
        terminal.wait_for("RUNNING")
        terminal.wait_for("q: quit")
        with get_runner() as runner:
            runner.cancel(handle, grace_s=0)
        terminal.wait_for("CANCELLED")
        assert all(len(line) < columns for line in terminal.shown())
        terminal.press("q")
        assert terminal.exit_code() == 0
        assert [line.split()[:2] for line in terminal.shown()] == [["HANDLE", "STATE"], [handle, "CANCELLED"]]
        assert terminal.echoes()


def test_a_list_that_is_watched_shows_the_newest_that_have_room() -> None:
    """No line scrolls away."""
    for number in range(9):
        submitted(Exit(0), app_id=f"x{number}")
    with in_terminal("list", "--watch", lines=6) as terminal:
        terminal.wait_for("q: quit")
        shown = terminal.shown()
        assert shown[0].startswith("HANDLE")
        assert [line.split()[0][-2:] for line in shown[1:-1]] == ["x6", "x7", "x8"]
        terminal.press("q")
        assert terminal.exit_code() == 0
