"""`run`: what is run, where its words go, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_apps import Cli, app_file, cut_short, ended, state_of
from cli_terminal import in_pipes, torchx_core

from torchx_core import Runner
from torchx_core.specs import AppDryRunInfo
from torchx_core.testing import Exit, Hold, Print, PrintMany, Raise, ReportProgress, wait_until

COMPONENT = """
from torchx_core.specs import AppDef, Role

def greet(name: str, times: int = 1) -> AppDef:
    '''Greet somebody.

    Args:
        name: whom
        times: how often
    '''
    return AppDef("greet", [Role("g", "", entrypoint="echo", args=[f"hello {name}"] * times)])

def show(file: str, image: str) -> AppDef:
    '''Show a file of an image.'''
    return AppDef("show", [Role("s", image, entrypoint="/bin/cat", args=[file])])

def broken() -> AppDef:
    '''Fail.'''
    return 1 / 0
"""


def test_a_local_app_is_followed_to_its_end(cli: Cli) -> None:
    """As TorchX does: the handle and the log on stdout, all else on stderr."""
    done = cli("run", "--app", app_file(Print("hello"), ReportProgress(0.5, "half")), "--app-id", "x")
    assert done.code == 0
    assert done.out.splitlines() == ["local_cwd://torchx/x", "main/0 hello"]
    assert "main/0 progress 50%: half" in done.err
    assert done.err.splitlines()[-1].startswith("local_cwd://torchx/x SUCCEEDED after ")


def test_no_line_is_lost_at_the_end(cli: Cli) -> None:
    """Whatever ends first, the app or the following."""
    done = cli("run", "--app", app_file(PrintMany(5000), replicas=2))
    assert [line for line in done.out.splitlines() if line.startswith("main/1 ")] == [
        f"main/1 {i}" for i in range(5000)
    ]


@pytest.mark.parametrize(
    ("steps", "code"), [((Exit(3),), 3), ((Raise("SIGKILL"),), 137), ((Exit(0),), 0)], ids=str
)
def test_the_exit_code_is_the_apps(cli: Cli, steps: tuple[Exit | Raise, ...], code: int) -> None:
    """Of the replica that failed; 128 and the signal's number when one killed it."""
    assert cli("run", "--app", app_file(*steps)).code == code


def test_a_failure_is_explained(cli: Cli) -> None:
    """Which replica, its exit code, and where the logs are."""
    err = cli("run", "--app", app_file(Exit(3))).err
    assert "replica main/0 failed with exit code 3" in err
    assert "logs: " in err


def test_detach_leaves_at_once(cli: Cli) -> None:
    """The handle is all there is on stdout."""
    done = cli("run", "-d", "--app", app_file(Hold()), "--app-id", "x")
    assert done[:2] == (0, "local_cwd://torchx/x\n")
    assert state_of("local_cwd://torchx/x") in ("SUBMITTED", "RUNNING")


def test_an_app_that_may_end_with_us_is_followed() -> None:
    """Where the scheduler does not promise that it goes on; who detaches is told."""
    pytest.importorskip("torchx")
    done = torchx_core("run", "-s", "torchx:local_cwd", "--app", app_file(Print("hello"), Exit(3)))
    assert done.returncode == 3
    assert done.stdout.splitlines()[1:] == ["main/0 hello"]
    left = torchx_core("run", "-d", "-s", "torchx:local_cwd", "--app", app_file(Hold()), "--app-id", "x")
    assert (left.returncode, left.stdout) == (0, "torchx:local_cwd://torchx/x\n")
    assert "x, which may end now: torchx:local_cwd does not promise that it goes on" in left.stderr


def test_a_failure_of_torchx_shows_no_traceback() -> None:
    """Its reason is one line, and so is what went wrong when the submit was taken back."""
    pytest.importorskip("torchx")
    args = ("run", "-s", "torchx:local_docker", "utils.echo")
    failed = torchx_core(*args, env={"DOCKER_HOST": "unix:///no/such/socket"})
    assert (failed.returncode, failed.stdout) == (4, "")
    assert "Traceback" not in failed.stderr
    assert "error: TorchX could not submit to torchx:local_docker: DockerException: " in failed.stderr


def test_no_log_waits_without_lines(cli: Cli) -> None:
    """The exit code is the app's all the same."""
    done = cli("run", "--no-log", "--app", app_file(Print("hello"), Exit(4)), "--app-id", "x")
    assert done[:2] == (4, "local_cwd://torchx/x\n")


def test_a_timeout_leaves_the_app_running(cli: Cli) -> None:
    """The program has an exit code for this."""
    words = ("--app", app_file(Hold()), "--app-id", "x")
    cli("run", "-d", *words)
    wait_until(lambda: state_of("local_cwd://torchx/x") == "RUNNING", 240)
    done = cli("run", *words, "--timeout", "200ms")
    assert done.code == 124
    assert "it goes on running" in done.err
    assert state_of("local_cwd://torchx/x") == "RUNNING"


def test_an_app_id_makes_a_run_repeatable(cli: Cli) -> None:
    """The second run attaches to the app of the first, and shows the same log."""
    first, second = (cli("run", "--app", app_file(Print("hello")), "--app-id", "x") for _ in range(2))
    assert first.out == second.out


def test_a_component_gets_the_words_that_follow_it(cli: Cli, work: Path) -> None:
    """Options of `run` come before it, and its own after it, ``--log`` included."""
    (work / "my.py").write_text(COMPONENT)
    done = cli("run", "-s", "local_cwd", "--app-id", "x", "my.py:greet", "--name", "--log", "--times=2")
    assert (done.code, done.out.splitlines()[1:]) == (2, [])
    done = cli("run", "-s", "local_cwd", "--app-id", "x", "my.py:greet", "--name=you", "--times", "2")
    assert done.out.splitlines() == ["local_cwd://torchx/x", "g/0 hello you hello you"]


def test_help_after_a_component_is_the_components(cli: Cli, work: Path) -> None:
    """Its arguments, and nothing is run."""
    (work / "my.py").write_text(COMPONENT)
    done = cli("run", "my.py:greet", "--help")
    assert done.code == 0
    assert "--name STR" in done.out


def test_a_component_that_raises_is_a_mistake_of_its_author(cli: Cli, work: Path) -> None:
    """One line says what it raised; ``--debug`` shows where."""
    (work / "my.py").write_text(COMPONENT)
    assert cli("run", "my.py:broken") == (
        2,
        "",
        "error: component 'my.py:broken' raised ZeroDivisionError: division by zero; --debug shows where\n",
    )
    assert 'my.py", line ' in cli("run", "--debug", "my.py:broken").err


def test_the_configuration_fills_in_what_is_not_said(cli: Cli, work: Path) -> None:
    """Component, its arguments and the scheduler's options; the command line is stronger."""
    (work / "my.py").write_text(COMPONENT)
    (work / ".torchxconfig").write_text(
        "[cli:run]\nscheduler = local_cwd\ncomponent = my.py:greet\n"
        "[component:my.py:greet]\nname = config\n[local_cwd]\nlog_dir = logs\n"
    )
    assert cli("run").out.splitlines()[1:] == ["g/0 hello config"]
    assert cli("run", "--", "--name", "line").out.splitlines()[1:] == ["g/0 hello line"]
    assert (work / "logs").is_dir()
    shown = cli("run", "--dryrun", "--json", "-cfg", "log_dir=others").json
    assert isinstance(shown, dict)
    assert shown["cfg"]["log_dir"] == "others"


def test_a_component_finds_the_files_of_the_working_directory(cli: Cli, work: Path) -> None:
    """Where the scheduler can lay them over an image, as TorchX does; an empty workspace turns that off."""
    (work / "hello.txt").write_text("hello from a file\n")
    (work / "my.py").write_text(COMPONENT)
    image = work / "image"
    image.mkdir()
    words = ("my.py:show", "--file", "hello.txt", "--image", str(image))
    assert cli("run", "-s", "local_dir", *words).out.splitlines()[1:] == ["s/0 hello from a file"]
    assert cli("run", "-s", "local_dir", "--workspace", "", *words).code == 1


def test_json_on_stdin_is_torchxs(work: Path) -> None:
    """A program that drives TorchX's command line can drive this one."""
    (work / "my.py").write_text(COMPONENT)
    request = {
        "component_name": "my.py:greet",
        "component_args": {"name": "json", "times": 2},
        "scheduler": "local_cwd",
        "scheduler_args": {"grace_s": 5.0},
    }
    done = torchx_core("run", "--stdin", stdin=json.dumps(request))
    assert done.stdout.splitlines()[1:] == ["g/0 hello json hello json"]


def test_an_app_may_come_from_stdin() -> None:
    """`describe --json` can be piped into `run`."""
    done = torchx_core("run", "--app", "-", stdin=Path(app_file(Print("piped"))).read_text())
    assert done.stdout.splitlines()[1:] == ["main/0 piped"]


def test_an_option_before_the_component_is_told_where_it_belongs(cli: Cli) -> None:
    """As whoever leaves out the component would give it."""
    done = cli("run", "--script", "train.py")
    assert done.code == 2
    assert "--script" in done.err
    assert "options of a component come after its name, those of the default component after --" in done.err


def test_a_dry_run_submits_nothing(cli: Cli) -> None:
    """It shows the app, and what the scheduler would be given."""
    done = cli("run", "--dryrun", "--app", app_file(Print("x")))
    assert "=== APPLICATION ===\nname: app" in done.out
    assert '"log_mode": "exact"' in done.out
    assert cli("list", "-s", "local_cwd").out == ""


def test_a_dry_run_shows_no_more_than_the_beginning_of_a_whole_program(cli: Cli) -> None:
    """Its other words are to be read; ``--json`` has everything."""
    words = ["-s", "local_cwd", "dist.torchrun", "-j", "2x1", "--script", "train.py"]
    done = cli("run", "--dryrun", *words)
    assert max(map(len, done.out.splitlines())) <= 1200
    assert len(done.out.splitlines()) < 160
    assert "Run a program as Python would" in done.out
    assert "lines more; --json shows all" in done.out
    assert "exec torchrun" not in done.out
    exact = json.dumps(cli("run", "--dryrun", "--json", *words).json)
    assert len(exact) > 10_000
    assert "more; --json shows all" not in exact


def test_an_interrupt_while_it_is_submitted_ends_what_would_be_left(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Building an image takes its time, and whoever presses Ctrl-C meanwhile wants no app that goes on."""
    schedule = Runner.schedule

    def schedule_slowly(runner: Runner, info: AppDryRunInfo[object]) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return schedule(runner, info)

    monkeypatch.setattr(Runner, "schedule", schedule_slowly)
    done = cli("run", "-d", "--app", app_file(Hold()), "--app-id", "x")
    assert done.code == 125
    assert "cancelled on the command line" in done.err
    assert str(ended("local_cwd://torchx/x").state) == "CANCELLED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_happens_to_the_shell_detaches(number: signal.Signals) -> None:
    """The app goes on, and whoever reads stderr is told how to follow it."""
    with in_pipes("run", "--app", app_file(Print("up"), Hold()), "--app-id", "x") as process:
        assert process.stdout is not None
        wait_until(lambda: process.stdout is not None and "up" in process.stdout.readline())
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 128 + number
    assert "torchx-core log -t local_cwd://torchx/x" in err
    assert state_of("local_cwd://torchx/x") == "RUNNING"


def test_an_interrupt_without_a_terminal_cancels_what_it_started() -> None:
    """Nobody can be asked, and SIGINT is a human's act; the log is shown to its end."""
    with in_pipes("run", "--app", app_file(Print("up"), Hold()), "--app-id", "x") as process:
        wait_until(lambda: process.stdout is not None and "up" in process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 125
    assert "cancelled on the command line" in err
    assert state_of("local_cwd://torchx/x") == "CANCELLED"


def test_a_second_interrupt_leaves_a_cancel_that_takes_long() -> None:
    """The scheduler serves the grace period without us."""
    steps = Print("up"), Hold(ignore_term=True)
    with in_pipes("run", "-cfg", "grace_s=600", "--app", app_file(*steps), "--app-id", "x") as process:
        wait_until(lambda: process.stdout is not None and "up" in process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        wait_until(lambda: process.stderr is not None and "cancelling" in process.stderr.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "which is being cancelled" in err
    assert str(cut_short("local_cwd://torchx/x").state) == "CANCELLED"


def test_a_reader_that_stops_reading_is_no_error() -> None:
    """``torchx-core run … | head``: no message, and the app goes on: a broken pipe is no human's act."""
    with in_pipes("run", "--app", app_file(PrintMany(200_000), Hold()), "--app-id", "x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "local_cwd://torchx/x\n"
        process.stdout.close()
        assert process.wait() == 128 + signal.SIGPIPE
        assert process.stderr is not None
        assert "error" not in process.stderr.read().lower()
    assert state_of("local_cwd://torchx/x") == "RUNNING"


def test_what_an_encoding_lacks_is_replaced() -> None:
    """A log in Japanese does not stop a shell in plain ASCII."""
    done = torchx_core(
        "run", "--app", app_file(Print("日本")), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert done.returncode == 0
    assert "main/0 \\u65e5\\u672c" in done.stdout


def test_a_closed_stdout_is_no_bug() -> None:
    """The app runs; there is only nobody to tell about it."""
    assert in_shell(f"{sys.executable} -m torchx_core run --app {app_file(Exit(0))} >&- 2>&-") == 0


def test_a_full_disk_is_told_in_a_line() -> None:
    """The line does not call it a bug of ours."""
    code = in_shell(f"{sys.executable} -m torchx_core run --app {app_file(Exit(0))} >/dev/full 2>err")
    assert code == 4
    assert Path("err").read_text() == "error: cannot read or write: No space left on device\n"


def in_shell(line: str) -> int:
    """Return the exit code of a line of shell."""
    return subprocess.run(["sh", "-c", line], check=False).returncode
