"""The local scheduler of another host: what it promises holds from here, and whatever becomes of the way."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, cast

import pytest
from cut_dial import CutDial
from pipe_dial import PipeDial
from ssh_harm import HARMS, Harm, check_no_line_is_lost
from ssh_server import SshServer

from torchx_core import AppDef, AppState, AppStatus, Role, Runner, get_runner
from torchx_core.errors import (
    AppIdConflictError,
    InvalidAppError,
    InvalidRunConfigException,
    UnknownAppException,
)
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.local import LocalScheduler
from torchx_core.schedulers.local.remote import RemoteLocalScheduler
from torchx_core.schedulers.remote.agent_client import Dial
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.testing import SchedulerContract, Step, python_program, wait_until

BOX = "local_cwd@box"


def _app(script: str, **role: object) -> AppDef:
    return AppDef("a", [Role("w", image="", entrypoint="sh", args=["-c", script], **role)])  # type: ignore[arg-type]


def _runner(dial: Dial, state_dir: Path) -> Runner:
    def create(session: str, **_params: object) -> RemoteLocalScheduler:
        host = RemoteHost(name="box", python=sys.executable)
        return RemoteLocalScheduler(BOX, session, host, state_dir=str(state_dir), dial=dial)

    return Runner("s", {BOX: create})


@pytest.fixture
def dial() -> PipeDial:
    """A way to agents that are processes of this host, and read this library from a pipe."""
    return PipeDial()


@pytest.fixture
def runner(dial: PipeDial, tmp_path: Path) -> Iterator[Runner]:
    """A runner that reaches the other host so; ends what it started."""
    with _runner(dial, tmp_path / "state") as runner:
        yield runner
        for app in runner.list(BOX):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle)


def _end(runner: Runner, handle: str) -> AppStatus:
    status = runner.wait(handle)
    assert status is not None
    return status


def _lines(runner: Runner, handle: str) -> list[str]:
    return [line.text for batch in runner.follow(handle) for line in batch.lines()]


def test_an_app_runs_there_and_is_known_on_both_hosts(runner: Runner, tmp_path: Path) -> None:
    """The handle here has the place, the one there has not; both name the same record."""
    handle = runner.run(_app("echo one; echo two >&2; exit 3"), BOX, app_id="x")
    assert handle == "local_cwd@box://s/x"
    assert sorted(_lines(runner, handle)) == ["one", "two"]
    status = _end(runner, handle)
    assert (status.state, status.roles[0].replicas[0].exit_code) == (AppState.FAILED, 3)
    assert "replica w/0 failed with exit code 3" in status.failure_summary()
    there = LocalScheduler("s", state_dir=str(tmp_path / "state")).describe("x")
    assert there is not None
    assert there.state is AppState.FAILED


def test_submitting_it_twice_is_submitting_it_once(runner: Runner, tmp_path: Path) -> None:
    """An equal request attaches; a different one is refused, and the error's handle is one to use here."""
    mark = tmp_path / "mark"
    for _ in range(2):
        handle = runner.run(_app(f"echo run >>{mark}"), BOX, app_id="x")
        _end(runner, handle)
    assert mark.read_text() == "run\n"
    with pytest.raises(AppIdConflictError):
        runner.run(_app("echo other"), BOX, app_id="x")
    with pytest.raises(UnknownAppException, match="local_cwd@box://s/nobody"):
        next(iter(runner.follow("local_cwd@box://s/nobody")))


def test_a_dry_run_is_made_there(runner: Runner, tmp_path: Path) -> None:
    """The other host says which directories it means; nothing is created there."""
    text = str(runner.dryrun(_app("true", env={"API_TOKEN": "hunter22"}), BOX, app_id="x"))
    assert str(tmp_path / "state" / "local_cwd" / "s" / "x") in text
    assert "hunter22" not in text
    assert runner.list(BOX) == []


def test_what_is_wrong_is_said_before_anything_is_submitted(runner: Runner) -> None:
    """An option's value and a limit of the scheduler are checked by the host that would run the app."""
    with pytest.raises(InvalidRunConfigException, match="limits must be one of auto, require, off"):
        runner.run(_app("true"), BOX, {"limits": "sometimes"})
    with pytest.raises(InvalidAppError, match=r"roles\[0\].max_retries: must be at most"):
        runner.run(_app("true", max_retries=70_000), BOX)
    assert runner.list(BOX) == []


def test_an_app_outlives_its_agent_and_the_code_that_was_sent(
    runner: Runner, dial: PipeDial, tmp_path: Path
) -> None:
    """The supervisor keeps the archive: an attempt later it still finds every module, also to end the app."""
    mark = tmp_path / "mark"
    script = f"test -e {mark} && exec sleep 600; touch {mark}; kill -9 $$"
    handle = runner.run(_app(script, max_retries=1), BOX)
    wait_until(lambda: _attempt(runner, handle) == 1, 60)
    os.kill(dial.agents[0].pid, signal.SIGKILL)
    assert runner.cancel(handle, reason="enough") is CancelOutcome.REQUESTED
    status = _end(runner, handle)
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")
    assert len(dial.agents) == 2


def _attempt(runner: Runner, handle: str) -> int:
    status = runner.status(handle)
    assert status is not None
    [replica] = status.roles[0].replicas
    return replica.attempt if replica.state is AppState.RUNNING else -1


def test_no_program_inherits_the_archive(runner: Runner) -> None:
    """The archive that was sent is open in the supervisor alone."""
    handle = runner.run(_app("ls -l /proc/self/fd"), BOX)
    assert not [line for line in _lines(runner, handle) if "memfd" in line]


def test_a_command_inside_is_one_of_that_host(runner: Runner) -> None:
    """Its command line has the command, and no value of the replica's environment."""
    handle = runner.run(_app("echo up; exec sleep 600", env={"COLOUR": "blue"}), BOX, app_id="x")
    next(line for line in runner.log_lines(handle, "w", 0, should_tail=True) if line == "up\n")
    scheduler = runner.scheduler(BOX)
    assert isinstance(scheduler, RemoteLocalScheduler)
    words = {"app_id": "x", "role_name": "w", "k": 0, "argv": ["printenv", "COLOUR"], "terminal": False}
    told = scheduler._call("step_inside", **words)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    step = cast("list[str]", told)
    assert step[-3:] == ["--", "printenv", "COLOUR"]
    assert "blue" not in str(step)


def _life(runner: Runner, mark: Path) -> None:
    """Submit, follow, cancel another: each line once, each program once."""
    handle = runner.run(_app(f"echo ran >>{mark}; echo a; echo b; echo c"), BOX, app_id=mark.name)
    assert _lines(runner, handle) == ["a", "b", "c"]
    assert _end(runner, handle).state is AppState.SUCCEEDED
    held = runner.run(_app("exec sleep 600"), BOX, app_id=f"{mark.name}-held")
    assert runner.cancel(held, grace_s=0) in (CancelOutcome.REQUESTED, CancelOutcome.ALREADY_TERMINAL)
    assert _end(runner, held).state is AppState.CANCELLED
    assert mark.read_text() == "ran\n"


def _bytes_of_a_life(state: Path, mark: Path) -> int:
    dial = CutDial()
    with _runner(dial, state) as runner:
        _life(runner, mark)
    return dial.carried


def _cut_at_each(step: int, first: int, tmp_path: Path) -> None:
    length = min(_bytes_of_a_life(tmp_path / "state", tmp_path / f"whole-{n}") for n in range(2))
    cuts = 0
    for after in range(first, length, step):
        dial = CutDial(after)
        with _runner(dial, tmp_path / "state") as runner:
            _life(runner, tmp_path / f"cut-{after}")
        cuts += dial.cuts
    assert cuts > (length - first) // step * 0.8  # a life may be a few bytes shorter than the one measured


def test_a_connection_may_break_anywhere(tmp_path: Path) -> None:
    """It breaks in mid-question and in mid-answer, before and after what was asked for has happened."""
    _cut_at_each(503, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_connection_may_break_at_many_bytes(tmp_path: Path) -> None:
    """As `test_a_connection_may_break_anywhere`, at other and more bytes."""
    _cut_at_each(89, 7, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestLocalCwdOverSsh(SchedulerContract):
    """`local_cwd` keeps every promise when it is asked over ssh, with a Python and nothing else there."""

    backend = "local_cwd@login"
    short_s = 2.0  # a busy host may keep a follower from its work for as long as a second
    reached_by = frozenset({"HOME"})  # of the user's ssh configuration

    @pytest.fixture
    def new_runner(self, lonely_node: SshServer) -> Callable[[], Runner]:
        """All runners of a test reach one host."""
        del lonely_node
        return partial(get_runner, "contract", places={"login": f"login?python={sys.executable}"})

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Use the Python that runs the tests, without its site packages."""
        entrypoint, args = python_program(*steps, python=sys.executable)
        return entrypoint, ["-I", "-S", *args]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("way", ["follow", "afollow"])
def test_no_line_is_lost_or_repeated_over_ssh(
    way: Literal["follow", "afollow"], harm: Harm, lonely_node: SshServer, tmp_path: Path
) -> None:
    """However often the connection, the agent or the server dies; the app notices nothing."""
    with get_runner("s", places={"login": f"login?python={sys.executable}"}) as runner:
        check_no_line_is_lost(way, harm, lonely_node, runner, "local_cwd@login", _app, tmp_path / "go")
