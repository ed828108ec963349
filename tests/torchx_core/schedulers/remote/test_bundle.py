"""The agent as it is sent: a real Python reads it from a pipe, as a login node's does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipe_dial import PipeDial

from torchx_core import AppDef, Role
from torchx_core.errors import AppIdConflictError, SchedulerError, SubmitFailedError, UnknownAppException
from torchx_core.runner import Runner
from torchx_core.schedulers import FollowOptions, Scheduler
from torchx_core.schedulers.local import LocalScheduler
from torchx_core.schedulers.remote import agent_client
from torchx_core.schedulers.remote.scheduler import RemoteScheduler
from torchx_core.schedulers.slurm.remote.login_node import login_node
from torchx_core.schedulers.slurm.remote.scheduler import RemoteSlurmScheduler
from torchx_core.schedulers.slurm.scheduler import SlurmScheduler
from torchx_core.testing import wait_until

APP = AppDef("a", [Role("w", image="", entrypoint="echo", args=["hi"])])


@pytest.fixture
def dial() -> PipeDial:
    """A way to start agents on this host."""
    return PipeDial()


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that the login node finds before others."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    _program(folder / "squeue", """echo '{"jobs": []}'""")
    return folder


@pytest.fixture
def scheduler(dial: PipeDial, commands: Path, tmp_path: Path) -> Iterator[RemoteSlurmScheduler]:
    """A scheduler whose agent is a process of this host."""
    del commands
    scheduler = _scheduler(dial, tmp_path, sys.executable)
    yield scheduler
    scheduler.close()


def _scheduler(dial: PipeDial, tmp_path: Path, python: str) -> RemoteSlurmScheduler:
    node = login_node("here", python)
    return RemoteSlurmScheduler("slurm", "s", node, state_dir=str(tmp_path / "state"), dial=dial)


def _program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_it_needs_nothing_but_python(scheduler: RemoteSlurmScheduler) -> None:
    """Every question is answered, though nothing of ours is installed where the agent looks."""
    assert scheduler.list() == []
    assert scheduler.describe("nobody") is None
    assert scheduler.prune(max_count=0) == []
    assert scheduler.size_bytes("nobody") == 0
    with pytest.raises(UnknownAppException, match="slurm://s/nobody"):
        scheduler.feed("nobody", None, FollowOptions())
    assert scheduler.diagnose()[0].text == "here answers"


def test_an_app_is_submitted_from_there(
    scheduler: RemoteSlurmScheduler, commands: Path, tmp_path: Path
) -> None:
    """What the nodes need, the agent makes from its own archive; another request is refused."""
    _program(commands / "sbatch", f'echo "$@" >{tmp_path}/asked; echo 7')
    info = scheduler.submit_dryrun(APP, {}, app_id="one")
    assert scheduler.schedule(info) == scheduler.schedule(info) == "one"
    directory = tmp_path / "state" / "slurm" / "s" / "one"
    assert (tmp_path / "asked").read_text().endswith(f"{directory}/job.sh\n")
    assert (directory / "shim.pyz").read_bytes().startswith(b"PK")
    other = AppDef("a", [Role("w", image="", entrypoint="echo", args=["ho"])])
    with pytest.raises(AppIdConflictError, match=r"app.roles\[0\].args\[0\]: 'hi' -> 'ho'"):
        scheduler.schedule(scheduler.submit_dryrun(other, {}, app_id="one"))


def test_what_slurm_says_arrives(scheduler: RemoteSlurmScheduler, commands: Path) -> None:
    """As the error that it is there."""
    _program(commands / "sbatch", "echo 'sbatch: error: invalid partition specified: nowhere' >&2; exit 1")
    with pytest.raises(SubmitFailedError, match="invalid partition specified: nowhere") as caught:
        scheduler.schedule(scheduler.submit_dryrun(APP, {}, app_id="one"))
    assert not caught.value.retryable


def test_an_agent_ends_when_nobody_listens(scheduler: RemoteSlurmScheduler, dial: PipeDial) -> None:
    """Its standard input is all that keeps it."""
    scheduler.list()
    scheduler.close()
    assert [agent.returncode for agent in dial.agents] == [0]


def test_a_killed_agent_is_replaced(scheduler: RemoteSlurmScheduler, dial: PipeDial) -> None:
    """By whoever asks next."""
    scheduler.list()
    os.kill(dial.agents[0].pid, signal.SIGKILL)
    assert scheduler.list() == []
    assert len(dial.agents) == 2


def test_what_the_agent_complains_about_is_logged(
    scheduler: RemoteSlurmScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure that nobody foresaw has its traceback here, and whoever asked gets an error."""
    with pytest.raises(SchedulerError, match="on the other host: KeyError"):
        # Every failure that a caller can cause is foreseen.
        scheduler._call("sing")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    wait_until(lambda: "login node here: Traceback" in caplog.text, 240)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            'exec {python} -c "import sys; sys.version_info = (3, 9, 2); exec(eval(sys.stdin.readline()))"',
            r"here: '.*/python' is Python 3.9.2; name a Python 3.11 or newer there by slurm_ssh_python",
        ),
        (
            "echo no module >&2; exit 3",
            r"did not run \(exit code 3\); it says: no module; name a Python 3.11",
        ),
        ("exit 0", r"did not run \(exit code 0\); name a Python 3.11"),
    ],
    ids=["old", "broken", "silent"],
)
def test_a_python_that_will_not_do(dial: PipeDial, tmp_path: Path, script: str, message: str) -> None:
    """The error says what was found, and how to name another."""
    python = _program(tmp_path / "python", script.format(python=sys.executable))
    scheduler = _scheduler(dial, tmp_path, python)
    with pytest.raises(SchedulerError, match=message) as caught:
        scheduler.list()
    assert not caught.value.retryable
    scheduler.close()


def test_no_python_at_all(dial: PipeDial, tmp_path: Path) -> None:
    """The shell's own words are in the error."""
    scheduler = _scheduler(dial, tmp_path, "python9")
    with pytest.raises(
        SchedulerError, match=r"'python9' did not run \(exit code 127\); it says: .*not found"
    ):
        scheduler.list()
    scheduler.close()


def test_start_up_files_may_print(dial: PipeDial, tmp_path: Path) -> None:
    """What comes before the agent's greeting is none."""
    python = _program(tmp_path / "python", f'echo "welcome to"; echo "[1]"; exec {sys.executable} "$@"')
    scheduler = _scheduler(dial, tmp_path, python)
    assert scheduler.list() == []
    scheduler.close()


def test_every_method_is_asked_for_over_there() -> None:
    """What a scheduler does in a way of its own, the client does too."""
    classes = {*SlurmScheduler.__mro__, *LocalScheduler.__mro__} - {*Scheduler.__mro__}
    own = {name for cls in classes for name in vars(cls)}
    verbs = {name for name in own if not name.startswith("_") and callable(getattr(Scheduler, name, None))}
    assert verbs <= vars(RemoteScheduler).keys() | {"run_opts"}
    assert "describe" in verbs


def test_a_runner_over_there(dial: PipeDial, commands: Path, tmp_path: Path) -> None:
    """The facade works with it as with any other."""
    _program(commands / "sbatch", "echo 7")

    def factory(_session: str, **_params: object) -> RemoteSlurmScheduler:
        return _scheduler(dial, tmp_path, sys.executable)

    with Runner("s", {"slurm": factory}) as runner:
        handle = runner.run(APP, "slurm", app_id="one")
        assert [row.app_handle for row in runner.list("slurm")] == [handle]
        described = runner.describe(handle)
    assert described is not None
    assert described.roles[0].args == ["hi"]


def test_a_python_that_says_nothing(dial: PipeDial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not waited for in vain; it may have been slow only."""
    monkeypatch.setattr(agent_client, "_GREETING_S", 0.3)
    scheduler = _scheduler(dial, tmp_path, _program(tmp_path / "python", "exec cat >/dev/null"))
    with pytest.raises(
        SchedulerError, match=r"login node here: .*/python said nothing within 0\.3 s"
    ) as caught:
        scheduler.list()
    assert caught.value.retryable
    scheduler.close()
