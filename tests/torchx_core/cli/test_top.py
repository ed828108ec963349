"""What apps and replicas use, as a table that is looked at again and again."""

from __future__ import annotations

import signal
import time
from os import terminal_size

import pytest
from cli_apps import Cli, app_of_steps, ended, submitted
from cli_terminal import in_pipes, in_terminal

from torchx_core import AppDef, get_runner
from torchx_core.cli.styles import plainly
from torchx_core.cli.top_view import SORTS, TopRow, added_up, sorted_rows, top_lines
from torchx_core.cli.widths import cell_width
from torchx_core.schedulers.sampling import Sampler
from torchx_core.specs import AppState, Usage
from torchx_core.testing import Exit, Hold, Print, Use, wait_until

HANDLE = "local_cwd://torchx/x"
MB = 1 << 20
FULL = Usage(
    cpu_percent=199.6,
    cpu_s=7384.0,
    memory_bytes=480 * MB,
    memory_peak_bytes=500 * MB,
    memory_limit_bytes=512 * MB,
    processes=17,
    read_bytes=3 << 30,
    write_bytes=80 * MB,
    gpu_percent=98.0,
    gpu_memory_bytes=70 << 30,
)
BUSY = (Use(0.1, 50), Print("up"), Hold())


def row(name: str, **figures: float) -> TopRow:
    """A replica that uses that."""
    return TopRow(name, AppState.RUNNING, Usage.from_json(figures))


# --- the table


def test_all_that_is_known_is_shown() -> None:
    """With a line about all rows; what nobody knows has no column."""
    rows = [TopRow("trainer/0", AppState.RUNNING, FULL)]
    assert top_lines("x", rows, size=None, paint=plainly) == [
        "x  CPU 200%  memory 480 MB  GPU 98%",
        "NAME       STATE    CPU%     MEM    PEAK   LIMIT   TIME  PROC    READ  WRITE  GPU%  GPUMEM",
        "trainer/0  RUNNING   200  480 MB  500 MB  512 MB  2h03m    17  3.0 GB  80 MB    98   70 GB",
    ]
    assert top_lines("x", [row("r/0", cpu_s=1.0)], size=None, paint=plainly) == [
        "x",
        "NAME  STATE    TIME",
        "r/0   RUNNING  1.0s",
    ]


@pytest.mark.parametrize("columns", [120, 80, 60, 40, 20])
def test_it_fits_any_terminal(columns: int) -> None:
    """Columns that matter less are left out; name, CPU and memory stay; no line is too long."""
    rows = [TopRow("a-trainer-with-a-very-long-name/12", AppState.RUNNING, FULL)] * 2
    lines = top_lines("x" * 50, rows, size=terminal_size((columns, 24)), paint=plainly, hint="h" * 99)
    assert max(map(cell_width, lines)) < columns
    if columns >= 40:
        assert [word for word in lines[1].split() if word in ("NAME", "CPU%", "MEM")] == [
            "NAME",
            "CPU%",
            "MEM",
        ]
        assert lines[2].startswith("a-trainer")


def test_of_a_great_many_the_first_are_shown() -> None:
    """And how many more there are; the screen does not scroll."""
    rows = [row(f"r/{i}", cpu_s=1.0) for i in range(100)]
    lines = top_lines("x", rows, size=terminal_size((80, 10)), paint=plainly, hint="h")
    assert len(lines) < 10
    assert lines[-2] == "… and 95 more"


def test_rows_can_be_sorted() -> None:
    """The largest first, the unknown last, and by name."""
    rows = [
        row("b", cpu_percent=5.0, memory_bytes=1, cpu_s=9.0),
        row("c", cpu_percent=50.0, memory_bytes=3, gpu_percent=1.0),
        row("a", memory_bytes=2, cpu_s=1.0),
    ]
    orders = {sort: "".join(row.name for row in sorted_rows(rows, sort)) for sort in SORTS}
    assert orders == {"cpu": "cba", "memory": "cab", "time": "bac", "gpu": "cab", "name": "abc"}


def test_what_is_not_known_of_one_is_not_known_of_all() -> None:
    """Of an app some of whose replicas are new."""
    first, second = row("a", cpu_s=1.0, memory_bytes=5, memory_peak_bytes=9), row("b", cpu_s=0.5)
    assert added_up([first.usage, second.usage]) == Usage(cpu_s=1.5)
    assert added_up([]) == Usage()


# --- the command


def test_without_a_terminal_it_looks_once(cli: Cli) -> None:
    """Two looks, rather: then it knows how busy the CPU is. Apps that have ended are left out."""
    submitted(*BUSY, app_id="x", replicas=2)
    ended(submitted(Exit(0), app_id="over"))
    _wait_until_up()
    title, head, first = cli("top").out.splitlines()
    assert title.startswith("1 running app of session torchx  CPU ")
    assert head.split() == ["NAME", "SCHEDULER", "STATE", "CPU%", "MEM", "TIME", "PROC", "READ", "WRITE"]
    assert first.split()[:3] == ["x", "local_cwd", "RUNNING"]
    assert cli("top", "--session", "other").out == "0 running apps of session other\n"


def test_of_one_app_the_replicas_are_shown(cli: Cli) -> None:
    """Those that have ended with what they have used."""
    submitted(*BUSY, app_id="x", replicas=2)
    _wait_until_up()
    lines = cli("top", HANDLE, "--sort", "name").out.splitlines()
    assert lines[0].startswith("x  RUNNING  CPU ")
    assert [line.split()[:2] for line in lines[2:]] == [["main/0", "RUNNING"], ["main/1", "RUNNING"]]
    done = cli("top", submitted(Use(0.2, 40), Exit(3), app_id="over"), "--json")
    assert done.code == 0
    over = f"{HANDLE[:-1]}over"
    ended(over)
    begun = time.monotonic()
    lines = cli("top", over).out.splitlines()
    assert lines[0] == "over  FAILED"
    assert lines[1].split() == ["NAME", "STATE", "PEAK", "TIME"]
    assert time.monotonic() - begun < 60  # it does not wait for a second look


def test_an_app_that_is_not_there_is_an_error(cli: Cli) -> None:
    """As for every command."""
    assert cli("top", "local_cwd://torchx/nobody").code == 3


def _wait_until_up(replicas: int = 2) -> None:
    """Wait until all replicas have used what they are to use."""
    with get_runner() as runner:
        sampler = Sampler(lambda: runner.usage(HANDLE))

        def up() -> bool:
            return [(s.usage.memory_bytes or 0) > 50 * MB for s in sampler.take()] == [True] * replicas

        wait_until(up, 240)


# --- on a terminal


def test_it_is_drawn_again_and_sorted_by_a_key() -> None:
    """Until somebody presses q, which leaves the terminal as it was."""
    roles = [app_of_steps(Use(0.1, mb), Hold()).roles[0] for mb in (20, 90)]
    roles[0].name, roles[1].name = "a", "b"
    with get_runner() as runner:
        runner.run(AppDef("two", roles), "local_cwd", app_id="x")
    with in_terminal("top", HANDLE, "--interval", "0.2s", columns=80) as terminal:
        terminal.wait_for("q quit")

        def order() -> list[str]:
            return [line.split()[0] for line in terminal.shown() if line[:3] in ("a/0", "b/0")]

        terminal.press("m")
        wait_until(lambda: order() == ["b/0", "a/0"], 240)
        terminal.press("n")
        wait_until(lambda: order() == ["a/0", "b/0"], 240)
        terminal.press("x")  # no key of ours
        terminal.press("q")
        assert terminal.exit_code() == 0
        wait_until(lambda: terminal.shown() == [], 240)


def test_an_app_that_ends_is_shown_a_last_time() -> None:
    """With what it has used, on a screen that stays."""
    submitted(Print("up"), Hold(), app_id="x")
    with in_terminal("top", HANDLE, "--interval", "0.2s") as terminal:
        terminal.wait_for("main/0  RUNNING")
        with get_runner() as runner:
            runner.cancel(HANDLE, grace_s=0)
        assert terminal.exit_code() == 0
        assert terminal.shown()[0] == "x  CANCELLED"
        assert terminal.shown()[2].startswith("main/0  CANCELLED")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_the_terminal_as_it_was(number: signal.Signals, code: int) -> None:
    """Whoever types next sees what he types."""
    submitted(Hold(), app_id="x")
    with in_terminal("top") as terminal:
        terminal.wait_for("q quit")
        wait_until(lambda: not terminal.echoes(), 240)
        terminal.process.send_signal(number)
        assert terminal.exit_code() == code
        assert terminal.echoes()
        wait_until(lambda: terminal.shown() == [], 240)


def test_a_reader_that_stops_ends_it() -> None:
    """As for every command."""
    submitted(Hold(), app_id="x")
    with in_pipes("top") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(240) == 128 + signal.SIGPIPE
