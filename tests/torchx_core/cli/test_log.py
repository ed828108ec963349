"""`log` and `wait`."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cli_apps import Cli, ended, state_of, submitted
from cli_terminal import in_pipes, torchx_core

from torchx_core import get_runner
from torchx_core.cli.log import LogTarget, parse_target
from torchx_core.errors import MalformedAppHandleException
from torchx_core.testing import Exit, Hold, Print, PrintMany, wait_until


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a://s/x", LogTarget("a://s/x")),
        ("a://s/x/", LogTarget("a://s/x")),
        ("a:///x", LogTarget("a:///x")),
        ("a://s/x/r", LogTarget("a://s/x", "r")),
        ("a://s/x/r/0,12", LogTarget("a://s/x", "r", frozenset([0, 12]))),
        ("a://s/x/r/1,", LogTarget("a://s/x", "r", frozenset([1]))),
    ],
)
def test_a_target_is_a_handle_and_what_follows(text: str, target: LogTarget) -> None:
    """TorchX's form."""
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["a://x", "a://s/x/r/0/1", "a://s/x/r/zero", "a://s/x/r/-1"])
def test_what_is_no_target_is_refused(text: str) -> None:
    """Instead of showing another app's log."""
    with pytest.raises(MalformedAppHandleException):
        parse_target(text)


def test_the_log_of_an_app_that_ended_is_whole(cli: Cli) -> None:
    """Of all replicas, and both streams."""
    handle = submitted(Print("out"), Print("err", "stderr"), replicas=2)
    ended(handle)
    assert sorted(cli("log", handle).out.splitlines()) == [
        "main/0 err",
        "main/0 out",
        "main/1 err",
        "main/1 out",
    ]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["{}/main/1"], ["main/1 0", "main/1 1", "main/1 2"]),
        (["{}/main/0,1", "--regex", "[02]"], ["main/0 0", "main/0 2", "main/1 0", "main/1 2"]),
        (["{}", "--replica", "1", "--grep", "2"], ["main/1 2"]),
        (["{}", "--replica", "main/1", "--replica", "0", "--regex", "2"], ["main/0 2", "main/1 2"]),
        (["{}/main", "--replica", "0"], ["main/0 0", "main/0 1", "main/0 2"]),
        (["x/main/1", "--grep", "0"], ["main/1 0"]),
        (["@latest", "--replica", "0", "-n", "2"], ["main/0 1", "main/0 2"]),
        (["{}", "-n", "0"], []),
        (["{}", "--streams", "stderr"], []),
        (["{}", "--until", "1h"], []),
        (["{}/main/0", "--since", "1h"], ["main/0 0", "main/0 1", "main/0 2"]),
    ],
)
def test_lines_are_selected(cli: Cli, words: list[str], lines: list[str]) -> None:
    """By replica, by regular expression, by stream and by time."""
    handle = submitted(PrintMany(3), replicas=2)
    ended(handle)
    done = cli("log", *(word.format(handle) for word in words))
    assert (done.code, sorted(done.out.splitlines())) == (0, lines)


def test_a_moment_may_be_a_time(cli: Cli) -> None:
    """In the local time zone unless it says otherwise."""
    handle = submitted(Print("x"))
    ended(handle)
    later = (datetime.now().astimezone() + timedelta(minutes=1)).replace(tzinfo=None)
    assert cli("log", handle, "--since", later.isoformat()).out == ""
    assert cli("log", handle, "--until", later.isoformat()).out == "main/0 x\n"


def test_the_log_of_a_running_app_ends_at_its_last_line(cli: Cli) -> None:
    """Unless it is followed."""
    handle = submitted(Print("so far"), Hold())
    wait_until(lambda: cli("log", handle).out == "main/0 so far\n", 240)
    assert state_of(handle) == "RUNNING"


def test_a_followed_log_ends_with_the_app() -> None:
    """Every line is in it."""
    handle = submitted(Print("first"), Hold())
    with in_pipes("log", "-t", handle) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "main/0 first\n"
        _cancel(handle)
        assert process.wait() == 0


def test_an_interrupt_of_a_followed_log_is_its_end() -> None:
    """Without a question and without a message: reading is nobody's business but the reader's."""
    handle = submitted(Print("first"), Hold())
    with in_pipes("log", "-t", handle) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "main/0 first\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err.strip()) == (130, "")
    assert state_of(handle) == "RUNNING"


def test_a_replica_that_does_not_exist_is_refused(cli: Cli) -> None:
    """With those that do."""
    handle = submitted(Print("x"))
    done = cli("log", f"{handle}/main/7")
    assert done.code == 3
    assert "known: 0" in done.err
    assert "did you mean 'main'?" in cli("log", f"{handle}/mainn").err
    assert "known: 0" in cli("log", handle, "--replica", "7").err
    assert "did you mean 'main'?" in cli("log", handle, "--replica", "mainn/0").err
    assert "not a replica: 'main'" in cli("log", handle, "--replica", "main").err
    assert "leave out --replica" in cli("log", f"{handle}/main/0", "--replica", "0").err


def test_the_last_lines_come_first_when_a_log_is_followed() -> None:
    """Then whatever is printed from there on, nothing twice and nothing left out."""
    handle = submitted(PrintMany(50), Print("held"), Hold())
    wait_until(lambda: torchx_core("log", handle, "-n", "1").stdout == "main/0 held\n", 240)
    with in_pipes("log", "-f", "-n", "2", handle) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "main/0 49\n"
        _cancel(handle)
        assert process.stdout.read() == "main/0 held\n"
        assert process.wait() == 0


def test_lines_are_json_documents(cli: Cli) -> None:
    """One per line, selected as text would be."""
    handle = submitted(PrintMany(3))
    ended(handle)
    lines = cli("log", handle, "--json", "--regex", "1").json_lines
    assert [(line["type"], line["text"], line["stream"]) for line in lines] == [("log", "1", "stdout")]


def test_wait_returns_the_apps_exit_code(cli: Cli) -> None:
    """The app may have ended long ago."""
    handle = submitted(Exit(3))
    first, second = cli("wait", handle), cli("wait", handle)
    assert (first.code, second.code) == (3, 3)
    assert second.out.startswith(f"{handle} FAILED")
    assert "replica main/0 failed with exit code 3" in second.err


def test_wait_gives_up_at_its_timeout(cli: Cli) -> None:
    """Which does nothing to the app."""
    handle = submitted(Hold())
    wait_until(lambda: state_of(handle) == "RUNNING", 240)
    assert cli("wait", handle, "--timeout", "0.2").code == 124
    assert state_of(handle) == "RUNNING"


def test_an_interrupt_of_wait_leaves_what_somebody_else_started() -> None:
    """Where nobody can be asked."""
    handle = submitted(Hold())
    wait_until(lambda: state_of(handle) == "RUNNING", 240)
    with in_pipes("wait", handle) as process:
        wait_until(lambda: _listens(process.pid), 240)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "which goes on" in err
    assert state_of(handle) == "RUNNING"


def test_wait_of_a_cancelled_app_has_a_code_of_its_own(cli: Cli) -> None:
    """Whoever cancelled it."""
    handle = submitted(Hold())
    _cancel(handle)
    assert cli("wait", handle).code == 125


def _cancel(handle: str) -> None:
    with get_runner() as runner:
        runner.cancel(handle)


def _listens(pid: int) -> bool:
    """Return whether the process catches SIGTERM: Python itself does not, `Interrupts` does."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_a_window_is_refused_where_no_line_has_its_time(cli: Cli) -> None:
    """Nothing would be shown, as if nothing had been written then."""
    pytest.importorskip("torchx")
    done = cli("log", "torchx:local_cwd://torchx/x", "--since", "1h")
    assert (done.code, done.out) == (2, "")
    assert "torchx:local_cwd does not tell when a line was written" in done.err
