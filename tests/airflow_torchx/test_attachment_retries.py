"""What a retry does about an app that was given up, or whose submit was left half done."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from local_apps import app_of, python
from task_bench import Bench, Crash, Request, Screen, echo, sleeper, task_bench
from task_tries import make_try

from airflow_torchx import _attachment
from airflow_torchx._attachment import Attachment
from airflow_torchx._memory import ProbingMemory
from airflow_torchx._ownership import OvertakenError, sign_off
from torchx_core.errors import InvalidAppError
from torchx_core.runner import get_runner
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

HOUR_S = 3600.0

SUBMITS = """
import os, signal, sys, time
from torchx_core import AppDef, Role, get_runner
from torchx_core.schedulers.local import launch
launch._spawn = lambda *args: {instead}
role = Role(name="r", image="", entrypoint="printf", args=["%s\\\\n", "a"])
cfg = {{"deadline": float(sys.argv[2])}} if sys.argv[2:] else {{}}
get_runner("s").run(AppDef("app", [role]), "local_cwd", cfg, app_id=sys.argv[1])
"""
DIES = SUBMITS.format(instead="os.kill(os.getpid(), signal.SIGKILL)")
HANGS = SUBMITS.format(instead="print('hangs', flush=True) or time.sleep(600)")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A task instance whose apps are gone when the test is over."""
    with task_bench(tmp_path) as made:
        yield made


def _stubborn(folder: Path) -> Request:
    """Return an app that does not end, when it is told to, before the test makes the file ``end``."""
    program = f"trap '' TERM; touch '{folder}/up'; until [ -e '{folder}/end' ]; do sleep 0.05; done"
    return Request(app_of("sh", "-c", program))


def _cancelled(bench: Bench, folder: Path) -> Attachment:
    """Return the attachment of a try that has cancelled its app, which takes its time to end."""
    attachment = bench.attachment(_stubborn(folder))
    attachment.attach()
    wait_until((folder / "up").exists, 240)
    attachment.cancel("the first try timed out")
    return attachment


def test_a_retry_does_not_follow_an_app_that_is_being_cancelled(bench: Bench, tmp_path: Path) -> None:
    """It waits for the end that an earlier try has asked for, then runs an app of its own."""
    _cancelled(bench, tmp_path)

    def look(_attachment: Attachment) -> None:
        if any("waiting for the end of" in said for said in bench.screen.said):
            (tmp_path / "end").touch()

    attachment = bench.attachment(echo("again"), number=2, look=look)
    attachment.attach()
    assert attachment.follow().state is AppState.SUCCEEDED
    assert list(bench.apps().values()) == [AppState.CANCELLED, AppState.SUCCEEDED]
    first = bench.runner.status(next(iter(bench.apps())))
    assert first is not None
    assert first.msg == "the first try timed out"


def test_a_try_that_was_frozen_shows_nothing_that_a_newer_one_shows(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow has given it up meanwhile, and the newer try has the app and its log."""
    monkeypatch.setattr(_attachment, "ASK_EVERY_S", 0.0)
    program = f"echo a; until [ -e '{tmp_path}/go' ]; do sleep 0.05; done; echo b"
    request = Request(app_of("sh", "-c", program))

    def look(_attachment: Attachment) -> None:
        if screen.lines and not (tmp_path / "go").exists():
            bench.attachment(request, number=2).attach()
            (tmp_path / "go").touch()

    frozen = bench.attachment(request, look=look)
    screen = bench.screen
    frozen.attach()
    with pytest.raises(OvertakenError, match="newer try"):
        frozen.follow()
    assert screen.lines == ["a"]
    assert list(bench.apps().values()) != [AppState.CANCELLED]


def test_it_is_so_without_a_record_too(bench: Bench, tmp_path: Path) -> None:
    """Below Airflow 3.3 the app itself says that it was given up."""
    apps = []
    for number in (1, 2):
        this_try = make_try(number=number)
        request, screen = (_stubborn(tmp_path) if number == 1 else echo("again")), Screen()
        memory = ProbingMemory(bench.runner, "local_cwd", this_try, None)
        attachment = Attachment(bench.runner, memory, this_try, request.with_deadline, screen, lambda _: None)
        attachment.attach()
        apps.append(attachment.handle)
        if number == 1:
            wait_until((tmp_path / "up").exists, 240)
            attachment.cancel("the first try timed out")
            (tmp_path / "end").touch()
    assert attachment.follow().state is AppState.SUCCEEDED
    assert apps[1] == f"{apps[0]}-2"


def test_a_cancel_that_was_not_heard_is_repeated(bench: Bench) -> None:
    """A try that dies between giving its app up and cancelling it leaves the rest to the next one."""
    attachment = bench.attachment(sleeper())
    attachment.attach()
    sign_off(bench.runner, attachment.handle, make_try(number=1))
    assert bench.run(echo("again"), number=2) is AppState.SUCCEEDED
    assert list(bench.apps().values()) == [AppState.CANCELLED, AppState.SUCCEEDED]


def test_an_app_that_succeeded_all_the_same_is_not_run_again(bench: Bench, tmp_path: Path) -> None:
    """Its success came before the cancel did."""
    attachment = bench.attachment(_stubborn(tmp_path))
    attachment.attach()
    sign_off(bench.runner, attachment.handle, make_try(number=1))
    (tmp_path / "end").touch()
    bench.runner.wait(attachment.handle, timeout_s=240)
    assert bench.run(echo("again"), number=2) is AppState.SUCCEEDED
    assert len(bench.apps()) == 1


def _begin(bench: Bench, deadline: float | None = None) -> str:
    """Have a first try write its record and die; return the id of the app that it was about to submit."""
    with pytest.raises(Crash):
        bench.attachment(replace(echo("a"), crash_before=Crash()), deadline=deadline).attach()
    return bench.memory.record.handle.rpartition("/")[2]


def test_a_half_done_submit_is_finished_with_its_own_deadline(bench: Bench, tmp_path: Path) -> None:
    """The retry's own deadline is another one, and would make it another request."""
    deadline = time.time() + HOUR_S
    app_id = _begin(bench, deadline=deadline)
    with python(tmp_path / "state", DIES, app_id, repr(deadline)) as dying:
        assert dying.wait(240) == -signal.SIGKILL

    assert bench.run(echo("a"), number=2, deadline=deadline + HOUR_S) is AppState.SUCCEEDED
    assert list(bench.apps()) == [bench.memory.record.handle]
    assert (bench.memory.record.attempt, bench.memory.record.deadline) == (0, deadline)


def test_a_submit_that_never_began_gets_the_deadline_of_the_retry(bench: Bench) -> None:
    """The first try's would come too early."""
    deadline = time.time() + HOUR_S
    _begin(bench, deadline=deadline)
    assert bench.run(echo("a"), number=2, deadline=deadline + HOUR_S) is AppState.SUCCEEDED
    assert bench.memory.record.deadline == deadline + HOUR_S


def test_an_app_that_another_try_never_starts_is_replaced(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the DAG asks for another app by now, nobody can finish the submit: it is cancelled."""
    monkeypatch.setattr(_attachment, "START_S", 0.5)
    app_id = _begin(bench)
    with python(tmp_path / "state", HANGS, app_id) as hanging:
        assert hanging.stdout is not None
        assert hanging.stdout.readline() == "hangs\n"

        def look(_attachment: Attachment) -> None:
            if any("never started" in said for said in bench.screen.said):
                hanging.kill()

        attachment = bench.attachment(echo("another"), number=2, look=look)
        attachment.attach()
        assert attachment.follow().state is AppState.SUCCEEDED
    assert attachment.record.attempt == 1
    assert bench.screen.lines == ["another"]
    assert list(bench.apps().values()).count(AppState.SUCCEEDED) == 1


@contextmanager
def _moved(bench: Bench, folder: Path) -> Iterator[Bench]:
    """Yield the same task with the session that its edited DAG asks for."""
    with get_runner("another", state_dir=str(folder / "state")) as runner:
        yield Bench(runner, bench.memory)
        for app in runner.list("local_cwd"):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=240)


def test_a_submit_that_never_began_goes_where_the_dag_says_by_now(bench: Bench, tmp_path: Path) -> None:
    """The record names the place at which the app is, also when the next try has to find it."""
    _begin(bench)
    with _moved(bench, tmp_path) as moved:
        assert moved.run(echo("a"), number=2) is AppState.SUCCEEDED
        assert moved.run(echo("a"), number=3) is AppState.SUCCEEDED
        assert (list(bench.apps()), list(moved.apps())) == ([], [bench.memory.record.handle])


def test_an_app_that_was_not_confirmed_goes_on_where_it_is(bench: Bench, tmp_path: Path) -> None:
    """No other one starts beside it where the DAG wants it by now."""
    with pytest.raises(Crash):
        bench.attachment(sleeper(crash_after=Crash())).attach()
    with _moved(bench, tmp_path) as moved:
        attachment = moved.attachment(sleeper(), number=2)
        attachment.attach()
        assert (list(bench.apps()), list(moved.apps())) == ([attachment.handle], [])


def test_an_app_that_is_never_started_is_replaced_where_the_dag_says(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try that was to start it at the old place is dead: it is cancelled there first."""
    monkeypatch.setattr(_attachment, "START_S", 0.5)
    with python(tmp_path / "state", DIES, _begin(bench)) as dying:
        assert dying.wait(240) == -signal.SIGKILL
    with _moved(bench, tmp_path) as moved:
        assert moved.run(echo("a"), number=2) is AppState.SUCCEEDED
        assert list(moved.apps()) == [bench.memory.record.handle]
    assert AppState.SUCCEEDED not in bench.apps().values()


class Wrong(Request):
    """What a DAG asks for that was edited into a wrong one."""

    def with_deadline(self, deadline: float | None) -> Wrong:  # noqa: ARG002  (its callers give it)
        """Refuse."""
        raise InvalidAppError("no such program", "r")

    @staticmethod
    def make() -> Wrong:
        """Return one."""
        return Wrong(app_of("none"))


def test_a_wrong_edit_does_not_disturb_the_running_app(bench: Bench) -> None:
    """The retry follows it: what the DAG asks for by now is of no interest."""
    bench.attachment(sleeper()).attach()
    bench.attachment(Wrong.make(), number=2).attach()
    assert len(bench.apps()) == 1


def test_a_wrong_edit_does_not_disturb_an_app_that_was_not_confirmed(bench: Bench) -> None:
    """The try that submitted it died before it could note that it had."""
    with pytest.raises(Crash):
        bench.attachment(sleeper(crash_after=Crash())).attach()
    attachment = bench.attachment(Wrong.make(), number=2)
    attachment.attach()
    assert (len(bench.apps()), attachment.record.submitted) == (1, True)


def test_a_wrong_edit_is_said_where_there_is_no_app(bench: Bench) -> None:
    """Nothing runs, and nothing is submitted."""
    _begin(bench)
    with pytest.raises(InvalidAppError, match="no such program"):
        bench.attachment(Wrong.make(), number=2).attach()
    assert bench.apps() == {}


def test_what_an_older_try_gives_up_stays_owned(bench: Bench) -> None:
    """A process that Airflow has given up, and that wakes up late, cannot end what the next try follows."""
    old = bench.attachment(sleeper())
    old.attach()
    bench.attachment(sleeper(), number=2).attach()
    old.cancel("by mistake")
    assert bench.runner.owner(old.handle) == make_try(number=2).token
