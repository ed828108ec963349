from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from local_apps import app_of, python
from task_bench import Bench, Crash, DictMemory, Request, echo, sleeper, task_bench

from airflow_torchx import _attachment
from airflow_torchx._attachment import Attachment
from airflow_torchx._ownership import NotSubmittedError, OvertakenError
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx._tries import try_number_of, was_given_up
from torchx_core.errors import InvalidAppError, SchedulerError, SubmitOutcomeUnknownError
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppState, is_terminal
from torchx_core.testing import wait_until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A task instance whose apps are gone when the test is over."""
    with task_bench(tmp_path) as made:
        yield made


def _stepper(folder: Path, count: int) -> Request:
    """Return an app that writes line i as soon as the test makes the file i."""
    code = (
        "import os, sys, time\n"
        "for i in range(int(sys.argv[2])):\n"
        "    while not os.path.exists(f'{sys.argv[1]}/{i}'): time.sleep(0.01)\n"
        "    print('line', i, flush=True)\n"
    )
    return Request(app_of(sys.executable, "-c", code, str(folder), str(count)))


def test_a_first_try_submits_and_follows(bench: Bench) -> None:
    """The app runs once, its lines are shown, and its end is returned."""
    assert bench.run(echo("a", "b")) is AppState.SUCCEEDED
    assert bench.screen.lines == ["a", "b"]
    assert len(bench.apps()) == 1


def test_the_record_is_written_before_the_app_is_submitted(bench: Bench) -> None:
    """There is no moment at which an app exists that no record names."""
    apps_at_save: list[int] = []
    bench.memory.before_save = lambda _count: apps_at_save.append(len(bench.apps()))
    bench.attachment(sleeper()).attach()
    assert apps_at_save == [0, 1]
    assert [record.submitted for record in bench.memory.saves] == [False, True]


def _crash_at_save(count: int) -> Callable[[Bench, Request], None]:
    def arrange(bench: Bench, _request: Request) -> None:
        def crash(saves: int) -> None:
            if saves == count:
                raise Crash

        bench.memory.before_save = crash

    return arrange


def _crash_before_submit(_bench: Bench, request: Request) -> None:
    request.crash_before = Crash()


def _crash_after_submit(_bench: Bench, request: Request) -> None:
    request.crash_after = Crash()


@pytest.mark.parametrize(
    "arrange",
    [_crash_at_save(0), _crash_before_submit, _crash_after_submit, _crash_at_save(1)],
    ids=["before the record", "before submit", "after submit", "before confirming"],
)
def test_a_crash_on_the_way_never_makes_two_apps(
    bench: Bench, arrange: Callable[[Bench, Request], None]
) -> None:
    """Wherever the first try dies, the second ends with exactly one app and all of its lines."""
    request = echo("a", "b")
    arrange(bench, request)
    with pytest.raises(Crash):
        bench.run(request)

    bench.memory.before_save = lambda _count: None
    assert bench.run(echo("a", "b"), number=2) is AppState.SUCCEEDED
    assert bench.screen.lines == ["a", "b"]
    assert len(bench.apps()) == 1


def test_a_submit_whose_outcome_is_unknown_is_repeated(bench: Bench) -> None:
    """By the same try, under the same id: the app is there already, and runs once."""

    class Cut(Request):
        times = 0

        def submit(self, runner: Runner, app_id: str) -> AppHandle:
            handle = super().submit(runner, app_id)
            Cut.times += 1
            if Cut.times == 1:
                raise SubmitOutcomeUnknownError(app_id, "the wire was cut")
            return handle

    assert bench.run(Cut(echo("a").app)) is AppState.SUCCEEDED
    assert (Cut.times, bench.screen.lines, len(bench.apps())) == (2, ["a"], 1)


DIES_WHILE_IT_SUBMITS = """
import os, signal, sys
from torchx_core import AppDef, Role, get_runner
from torchx_core.schedulers.local import launch
launch._spawn = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
role = Role(name="r", image="", entrypoint="printf", args=["%s\\\\n", "a"])
cfg = {"deadline": float(sys.argv[2])} if sys.argv[2:] else {}
get_runner("s").run(AppDef("app", [role]), "local_cwd", cfg, app_id=sys.argv[1])
"""


def test_a_submit_that_died_half_way_is_finished(bench: Bench, tmp_path: Path) -> None:
    """The app that a dying try has registered, but not started, is the one that runs."""
    with pytest.raises(Crash):
        bench.run(replace(echo("a"), crash_before=Crash()))
    app_id = bench.memory.record.handle.rpartition("/")[2]
    with python(tmp_path / "state", DIES_WHILE_IT_SUBMITS, app_id) as dying:
        assert dying.wait(240) == -signal.SIGKILL

    assert bench.run(echo("a"), number=2) is AppState.SUCCEEDED
    assert list(bench.apps()) == [bench.memory.record.handle]
    assert bench.memory.record.attempt == 0


def test_a_retry_goes_on_with_the_log(bench: Bench, tmp_path: Path) -> None:
    """The second try shows the lines that the first has not shown, and no other."""
    request = _stepper(tmp_path, 4)

    def look(attachment: Attachment) -> None:
        shown = len(bench.screen.lines)
        if shown < 2:
            (tmp_path / str(shown)).touch()
        elif attachment.record == bench.memory.record:
            raise Crash

    attachment = bench.attachment(request, look=look)
    attachment.attach()
    with pytest.raises(Crash):
        attachment.follow()
    assert bench.screen.lines == ["line 0", "line 1"]

    for i in range(2, 4):
        (tmp_path / str(i)).touch()
    assert bench.run(request, number=2) is AppState.SUCCEEDED
    assert bench.screen.lines == ["line 2", "line 3"]
    assert len(bench.apps()) == 1


def test_what_may_not_have_arrived_is_not_saved_as_shown(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line just shown may lie in the pipe to a supervisor that is killed; the next try shows it."""
    monkeypatch.setattr(_attachment, "SAVE_EVERY_S", 0.0)
    request = _stepper(tmp_path, 3)

    def look(_attachment: Attachment) -> None:
        if (shown := len(bench.screen.lines)) == 2:
            raise Crash
        (tmp_path / str(shown)).touch()

    attachment = bench.attachment(request, look=look)
    attachment.attach()
    with pytest.raises(Crash):
        attachment.follow()
    (tmp_path / "2").touch()
    assert bench.run(request, number=2) is AppState.SUCCEEDED
    assert bench.screen.lines == ["line 1", "line 2"]


def test_an_edited_dag_does_not_disturb_the_running_app(bench: Bench) -> None:
    """A retry follows the app that was submitted, also when the DAG asks for another by now."""
    bench.attachment(sleeper()).attach()
    bench.attachment(echo("new"), number=2).attach()
    assert [is_terminal(state) for state in bench.apps().values()] == [False]


def test_a_race_lost_to_an_older_submit_is_settled(bench: Bench) -> None:
    """When an earlier try's submit arrives first, its app is the one that runs."""
    first = sleeper()
    bench.attachment(replace(first, crash_after=Crash()))
    with pytest.raises(Crash):
        bench.attachment(replace(first, crash_before=Crash())).attach()
    app_id = bench.memory.record.handle.rpartition("/")[2]

    class Late(Request):
        def submit(self, runner: Runner, app_id: str) -> AppHandle:
            first.submit(runner, app_id)
            return super().submit(runner, app_id)

    bench.attachment(Late(app_of("true")), number=2).attach()
    assert [handle.rpartition("/")[2] for handle in bench.apps()] == [app_id]


def test_a_retry_after_success_returns_the_stored_end(bench: Bench) -> None:
    """An app that succeeded while nobody watched is not run again."""
    bench.attachment(echo("a")).attach()
    bench.runner.wait(bench.memory.record.handle)
    assert bench.run(echo("a"), number=2) is AppState.SUCCEEDED
    assert bench.run(echo("a"), number=3) is AppState.SUCCEEDED
    assert bench.screen.lines == []  # the second try has shown them
    assert len(bench.apps()) == 1


def test_a_retry_after_a_failure_is_a_new_app(bench: Bench) -> None:
    """A failed app stays as it is; the retry starts the next attempt, whose name says so."""
    assert bench.run(Request(app_of("false"))) is AppState.FAILED
    assert bench.run(echo("a"), number=2) is AppState.SUCCEEDED
    handles = list(bench.apps())
    assert handles[1] == f"{handles[0]}-2"


def test_an_app_that_fails_at_once_runs_once(bench: Bench) -> None:
    """A failure before the first look belongs to this try; only the next one starts the app again."""

    class Quick(Request):
        def submit(self, runner: Runner, app_id: str) -> AppHandle:
            handle = super().submit(runner, app_id)
            runner.wait(handle)
            return handle

    assert bench.run(Quick(app_of("false"))) is AppState.FAILED
    assert len(bench.apps()) == 1


def test_a_failure_that_nobody_saw_is_shown_before_the_next_attempt(bench: Bench) -> None:
    """The lines of an app that failed between two tries are not lost."""
    attachment = bench.attachment(Request(app_of("sh", "-c", "echo why; exit 3")))
    attachment.attach()
    bench.runner.wait(attachment.handle)
    assert bench.run(echo("again"), number=2) is AppState.SUCCEEDED
    assert bench.screen.lines == ["why", "again"]
    assert any("failed with exit code 3" in said for said in bench.screen.said)


def test_a_clear_cancels_and_runs_afresh(bench: Bench) -> None:
    """The old generation's app is gone before the new one is submitted."""
    bench.attachment(sleeper()).attach()
    assert bench.run(echo("a"), number=2, generation=4) is AppState.SUCCEEDED
    assert list(bench.apps().values()) == [AppState.CANCELLED, AppState.SUCCEEDED]


def test_a_clear_after_success_runs_afresh(bench: Bench) -> None:
    """Nobody clears a task to see its old result."""
    bench.run(echo("a"))
    bench.run(echo("a"), number=2, generation=4)
    assert bench.screen.lines == ["a"]
    assert len(bench.apps()) == 2


def test_a_recreated_run_has_apps_of_its_own(bench: Bench) -> None:
    """A run that is deleted and made again under its name has no record, and gets no old result."""
    bench.run(echo("a"))
    bench.memory = DictMemory()
    bench.run(echo("a"), number=2)
    assert len(bench.apps()) == 2


def test_every_try_owns_the_app_that_it_follows(bench: Bench) -> None:
    """What an older try may still do to the app then has no effect."""
    for number in (1, 2):
        attachment = bench.attachment(sleeper(), number=number)
        attachment.attach()
        assert bench.runner.owner(attachment.handle) == f"airflow-try-{number}-ti{number}"


def test_an_older_try_leaves_the_app_alone(bench: Bench) -> None:
    """A process that Airflow has given up and that wakes up late neither follows nor cancels."""
    old = bench.attachment(sleeper())
    old.attach()
    bench.attachment(sleeper(), number=2).attach()

    with pytest.raises(OvertakenError, match="newer try"):
        bench.attachment(sleeper()).attach()
    old.cancel("by mistake")

    wait_until(lambda: list(bench.apps().values()) == [AppState.RUNNING], 240)


def test_a_try_can_cancel_before_it_follows(bench: Bench) -> None:
    """A kill that comes right after the submit reaches the app."""
    request = sleeper(crash_after=Crash())
    attachment = bench.attachment(request)
    with pytest.raises(Crash):
        attachment.attach()
    assert attachment.cancel("changed my mind")
    status = bench.runner.wait(attachment.handle, timeout_s=240)
    assert status is not None
    assert (status.state, status.msg) == (AppState.CANCELLED, "changed my mind")


def test_a_cancel_before_the_submit_is_no_error(bench: Bench) -> None:
    """There is nothing to cancel, and nothing is made."""
    attachment = bench.attachment(sleeper(crash_before=Crash()))
    with pytest.raises(Crash):
        attachment.attach()
    assert not attachment.cancel("too early")
    assert bench.apps() == {}


def test_a_try_that_was_cancelled_submits_nothing(bench: Bench) -> None:
    """It writes no record, so that the next try finds what there was."""
    attachment = bench.attachment(sleeper())
    assert not attachment.cancel("nothing there yet")
    with pytest.raises(NotSubmittedError, match="was not submitted: nothing there yet"):
        attachment.attach()
    assert (bench.apps(), bench.memory.saves) == ({}, [])


def test_a_resumed_task_saves_where_the_trigger_was(bench: Bench) -> None:
    """A worker that dies before it has shown anything leaves the next try nothing that was shown."""
    attachment = bench.attachment(echo("a", "b"))
    attachment.attach()
    *_, end = bench.runner.follow(attachment.handle)
    bench.attachment(echo("a", "b")).resume(end.cursor)
    again = bench.attachment(echo("a", "b"), number=2)
    again.attach()
    assert (again.follow().state, bench.screen.lines) == (AppState.SUCCEEDED, [])


def test_a_resumed_task_takes_the_app_from_its_trigger(bench: Bench) -> None:
    """A trigger that was frozen meanwhile cannot cancel it; one to which the task is deferred again can."""
    first = bench.attachment(sleeper())
    first.attach()
    resumed = bench.attachment(sleeper())
    resumed.resume(None)
    owner = bench.runner.owner(resumed.handle)
    assert first.deferral.token != resumed.deferral.token == owner
    assert try_number_of(owner) == 1


def test_a_resumed_task_can_cancel(bench: Bench) -> None:
    """The next try finds that the app was given up."""
    bench.attachment(sleeper()).attach()
    resumed = bench.attachment(sleeper())
    resumed.resume(None)
    assert resumed.cancel("enough")
    assert was_given_up(bench.runner.owner(resumed.handle))
    assert resumed.follow().msg == "enough"


def test_it_saves_that_before_it_asks_the_scheduler(bench: Bench, away: Callable[..., None]) -> None:
    """A worker that dies while the scheduler is away has saved what its trigger showed."""
    attachment = bench.attachment(echo("a"))
    attachment.attach()
    *_, end = bench.runner.follow(attachment.handle)
    away("owner", retryable=False)
    with pytest.raises(SchedulerError, match="away"):
        bench.attachment(echo("a")).resume(end.cursor)
    assert bench.memory.record.cursor == end.cursor


@pytest.mark.parametrize("generation", [3, 4], ids=["retry", "clear"])
def test_it_leaves_the_record_of_a_newer_try_alone(bench: Bench, generation: int) -> None:
    """That one knows better how far the log got, and of which app."""
    bench.attachment(sleeper()).attach()
    bench.attachment(sleeper(), number=2, generation=generation).attach()
    saved = bench.memory.record
    with pytest.raises(OvertakenError):
        bench.attachment(sleeper()).resume("far")
    assert bench.memory.record == saved


def test_a_wrong_app_leaves_nothing(bench: Bench) -> None:
    """A program that does not exist is refused, and no app is made."""
    with pytest.raises(InvalidAppError, match="no such program"):
        bench.run(Request(app_of("no-such-program")))
    assert bench.apps() == {}


def test_an_unreachable_server_submits_nothing(bench: Bench) -> None:
    """Without its record an app would be nobody's."""

    def fail(_count: int) -> None:
        raise AirflowUnavailableError("503")

    bench.memory.before_save = fail
    with pytest.raises(AirflowUnavailableError):
        bench.run(echo("a"))
    assert bench.apps() == {}


def test_a_lost_saved_position_does_not_end_the_try(bench: Bench) -> None:
    """When the server fails later, the log goes on; the next try would repeat some lines."""

    def fail(count: int) -> None:
        if count >= 2:
            raise AirflowUnavailableError("503")

    bench.memory.before_save = fail
    assert bench.run(echo("a")) is AppState.SUCCEEDED
    assert bench.screen.lines == ["a"]


def test_an_unusable_cursor_shows_the_log_from_its_start(bench: Bench) -> None:
    """A cursor of another version costs repeated lines, never the task."""
    bench.run(echo("a"))
    bench.memory.save(replace(bench.memory.record, cursor="not one"))
    assert bench.run(echo("a"), number=2) is AppState.SUCCEEDED
    assert bench.screen.lines == ["a"]
