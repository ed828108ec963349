"""Apps on a host that shares nothing with this one: its power fails, its network does, and it comes back."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_host import SshHost, far_host

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.errors import ReplicaNotRunningError
from torchx_core.schedulers import Batch, StateChanged
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BOX = "local_cwd@box"
PATIENCE_S = 240.0
COUNT = """
i=0; while [ $i -lt {count} ]; do echo $i; i=$((i+1)); sleep 0.05; done
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[SshHost]:
    """The host, reached by the name `box`."""
    with far_host(tmp_path) as server:
        yield server


@pytest.fixture
def runner(box: SshHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner of this host; what it has started there ends with the test."""
    monkeypatch.setenv("PATH", str(box.clients), prepend=os.pathsep)
    with get_runner("s") as runner:
        yield runner
        for app in runner.list(BOX):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=PATIENCE_S)
        runner.prune(BOX, max_count=0)


def app(script: str) -> AppDef:
    """Return an app of one shell script."""
    return AppDef("a", [Role("w", image="", entrypoint="sh", args=["-c", script])])


class Follower(threading.Thread):
    """Follows an app, and keeps what it is shown."""

    def __init__(self, runner: Runner, handle: str) -> None:
        super().__init__()
        self._batches = runner.follow(handle)
        self.batches: list[Batch] = []
        self.start()

    def run(self) -> None:
        """Take every batch."""
        for batch in self._batches:
            self.batches.append(batch)

    @property
    def lines(self) -> list[str]:
        """The lines so far."""
        return [line.text for batch in self.batches for line in batch.lines()]

    def end(self) -> list[str]:
        """Wait until the app has ended; return the lines."""
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self.lines

    @property
    def states(self) -> list[AppState]:
        """The states of the app so far."""
        events = (event for batch in self.batches for event in batch.events)
        return [event.state for event in events if isinstance(event, StateChanged)]


def test_it_is_another_host(runner: Runner) -> None:
    """The program runs there, under that host's name, and nothing of it is on this one."""
    handle = runner.run(app("uname -n; echo $TORCHX_STATE_DIR; exit 3"), BOX)
    follower = Follower(runner, handle)
    assert follower.end()[0] == "box"
    status = runner.status(handle)
    assert status is not None
    assert (status.state, status.roles[0].replicas[0].exit_code) == (AppState.FAILED, 3)
    with get_runner("s") as here:
        assert here.list("local_cwd") == []


def test_a_network_that_fails_for_a_while(box: SshHost, runner: Runner) -> None:
    """The app goes on, and a follower that was there all the time sees each line and each state once."""
    follower = Follower(runner, runner.run(app(COUNT.format(count=200)), BOX, app_id="once"))
    wait_until(lambda: len(follower.lines) > 20, PATIENCE_S)
    box.cut_cable()
    box.cut()
    seen = len(follower.lines)
    box.mend_cable()
    assert follower.end() == [str(i) for i in range(200)]
    assert seen < 200
    assert follower.states == [AppState.RUNNING, AppState.SUCCEEDED]
    assert [row.app_id for row in runner.list(BOX)] == ["once"]


def test_a_host_whose_power_fails(box: SshHost, runner: Runner) -> None:
    """Once it is back, a follower is told that the app is over, with no line twice; a retry runs none."""
    mine = app(COUNT.format(count=100_000))
    handle = runner.run(mine, BOX, app_id="lost")
    follower = Follower(runner, handle)
    wait_until(lambda: len(follower.lines) > 20, PATIENCE_S)
    box.reboot()
    lines = follower.end()
    assert lines == [str(i) for i in range(len(lines))]
    assert follower.states == [AppState.RUNNING, AppState.FAILED]
    assert runner.run(mine, BOX, app_id="lost") == handle
    status = runner.status(handle)
    assert status is not None
    assert status.state is AppState.FAILED
    assert "were both killed" in status.msg or "rebooted" in status.msg
    with pytest.raises(ReplicaNotRunningError):
        runner.exec(handle, "w", 0, ["true"])


def test_what_is_submitted_while_it_is_away_is_submitted_once(box: SshHost, runner: Runner) -> None:
    """Whoever cannot know whether a submit has arrived repeats it: the host knows."""
    box.cut_cable()
    tries: list[object] = []

    def submit() -> None:
        while True:
            try:
                return tries.append(runner.run(app("echo run >>$HOME/mark"), BOX, app_id="x"))
            except Exception as err:  # noqa: BLE001  # whatever it is, it is tried again
                tries.append(err)

    thread = threading.Thread(target=submit)
    thread.start()
    box.mend_cable()
    thread.join(PATIENCE_S)
    runner.wait(f"{BOX}://s/x", timeout_s=PATIENCE_S)
    assert box.host.run("cat", str(box.folder.parent / "home" / "mark")) == "run\n"
