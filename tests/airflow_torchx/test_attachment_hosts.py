"""What a try does about an app that is not seen on its host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname

import pytest
from local_apps import app_of
from task_bench import Bench, Crash, Request, echo, sleeper, task_bench

from airflow_torchx import _sight
from airflow_torchx._attachment import Attachment
from airflow_torchx._sight import LostAppError, OutOfSightError
from torchx_core.errors import UnknownAppException
from torchx_core.runner import Runner
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

REPORTS = (
    sys.executable,
    "-c",
    "from torchx_core.runtime import report_result; report_result({'loss': 0.5})",
)
"""The command of a program that reports a result."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A task instance whose apps are gone when the test is over."""
    with task_bench(tmp_path) as made:
        yield made


@pytest.fixture
def another(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    """What takes the tries to a host that has another name and sees none of the bench's apps."""
    with task_bench(tmp_path / "another") as there, monkeypatch.context() as patch:
        yield Switch(bench, bench.runner, there.runner, patch)


@dataclass
class Switch:
    """Takes the tries of a bench from host to host."""

    bench: Bench
    here: Runner
    there: Runner
    patch: pytest.MonkeyPatch

    def on(self) -> None:
        """Have the next tries begin on the other host."""
        self.patch.setattr(_sight, "gethostname", lambda: "another")
        self.bench.runner = self.there

    def off(self) -> None:
        """Have them begin where the first one did."""
        self.patch.undo()
        self.bench.runner = self.here

    def apps(self) -> int:
        """Return how many apps have been submitted on the other host."""
        return len(self.there.list("local_cwd"))


def _delete(bench: Bench) -> None:
    """End the recorded app, and forget it."""
    handle = bench.memory.record.handle
    bench.runner.cancel(handle, grace_s=0)
    bench.runner.wait(handle, timeout_s=240)
    bench.runner.delete(handle)


def _begin_again(bench: Bench, *, number: int = 2, generation: int = 3) -> Attachment:
    """Have a try begin again and again, as Airflow does, until it holds an app."""

    def attach() -> Attachment | None:
        attachment = bench.attachment(echo("a"), number=number, generation=generation, is_rescheduled=True)
        with suppress(OutOfSightError):
            attachment.attach()
            return attachment
        return None

    return wait_until(attach, 240)


def test_a_try_on_another_host_leaves_the_app_alone(bench: Bench, another: Switch) -> None:
    """It neither waits nor starts a second one; back on the app's host the log goes on where it was."""
    attachment = bench.attachment(sleeper(lease_s=600.0))
    attachment.attach()
    another.on()
    said = f"was submitted on host {gethostname()} .* on this one, another; .* perhaps there"
    with pytest.raises(OutOfSightError, match=said):
        bench.attachment(sleeper(lease_s=600.0), number=2).attach()
    another.off()
    again = bench.attachment(sleeper(), number=3)
    again.attach()
    assert (again.handle, again.record.missed_since) == (attachment.handle, None)
    assert (len(bench.apps()), another.apps()) == (1, 0)


def test_a_task_resumed_on_another_host_keeps_its_place(bench: Bench, another: Switch) -> None:
    """A try that is started again on the app's host goes on where the trigger was."""
    attachment = bench.attachment(echo("a", "b"))
    attachment.attach()
    *_, end = bench.runner.follow(attachment.handle)
    another.on()
    with pytest.raises(OutOfSightError):
        bench.attachment(echo("a", "b")).resume(end.cursor)
    another.off()
    again = bench.attachment(echo("a", "b"), is_rescheduled=True)
    again.attach()
    assert (again.follow().state, bench.screen.lines) == (AppState.SUCCEEDED, [])
    assert (len(bench.apps()), another.apps()) == (1, 0)


def test_what_another_host_began_to_submit_is_not_doubled(bench: Bench, another: Switch) -> None:
    """Whether it did is seen on that host only; the next try there finds the app."""
    with pytest.raises(Crash):
        bench.attachment(sleeper(crash_after=Crash(), lease_s=600.0)).attach()
    another.on()
    with pytest.raises(OutOfSightError, match=f"on host {gethostname()}"):
        bench.attachment(sleeper(lease_s=600.0), number=2).attach()
    another.off()
    bench.attachment(sleeper(lease_s=600.0), number=3).attach()
    assert (len(bench.apps()), another.apps()) == (1, 0)


def test_an_app_out_of_sight_without_lease_is_not_doubled(
    bench: Bench, another: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run on another host, so the try gives up some time, and says what to do."""
    bench.attachment(sleeper()).attach()
    another.on()
    with pytest.raises(OutOfSightError, match="the try gives up"):
        bench.attachment(sleeper(), number=2).attach()
    monkeypatch.setattr(_sight, "LOOK_FOR_S", 0.0)
    with pytest.raises(
        LostAppError, match=r"\(torchx-core cancel '.*'\) and clear the task to run it afresh"
    ):
        bench.attachment(sleeper(), number=2, is_rescheduled=True).attach()
    assert another.apps() == 0


def test_an_app_out_of_sight_is_outwaited(bench: Bench, another: Switch) -> None:
    """Once its lease must be over, the next attempt starts."""
    bench.attachment(sleeper(lease_s=0.5)).attach()
    another.on()
    assert _begin_again(bench).record.attempt == 1
    assert another.apps() == 1


def test_a_failed_app_is_not_looked_for(bench: Bench, another: Switch) -> None:
    """A try has seen its end, so a retry may run the next one wherever it begins."""
    bench.run(Request(app_of("false"), lease_s=600.0))
    another.on()
    attachment = bench.attachment(echo("a"), number=2)
    attachment.attach()
    assert (attachment.record.attempt, another.apps()) == (1, 1)
    assert f"ended FAILED on host {gethostname()}; starting attempt 2" in bench.screen.said[0]


def test_a_success_is_returned_wherever_the_next_try_begins(bench: Bench, another: Switch) -> None:
    """Its end is written down with the result, so a worker that died then has cost nothing."""
    bench.run(Request(app_of(*REPORTS), lease_s=600.0))
    first = bench.memory.record
    another.on()
    ended = bench.attachment(sleeper(), number=2).attach()
    assert ended is not None
    assert (ended.state, ended.result) == (AppState.SUCCEEDED, {"loss": 0.5})
    assert "has succeeded, and is unknown here: its result is taken" in bench.screen.said[0]
    assert (bench.memory.record.handle, bench.memory.record.try_number) == (first.handle, 2)
    another.off()
    assert (len(bench.apps()), another.apps()) == (1, 0)


def test_a_success_that_was_deleted_is_returned_too(bench: Bench) -> None:
    """A retry runs nothing again that has been done; whoever wants that clears the task."""
    bench.run(Request(app_of(*REPORTS)))
    bench.runner.delete(bench.memory.record.handle)
    ended = bench.attachment(sleeper(), number=2).attach()
    assert ended is not None
    assert ended.result == {"loss": 0.5}
    assert not bench.apps()


def test_a_success_that_a_trigger_has_seen_is_returned_wherever_the_task_resumes(
    bench: Bench, another: Switch
) -> None:
    """A worker that does not see the app returns it; so does the next try, should that worker die first."""
    attachment = bench.attachment(Request(app_of(*REPORTS), lease_s=600.0))
    attachment.attach()
    *_, end = bench.runner.follow(attachment.handle)
    another.on()
    resumed = bench.attachment(sleeper()).resume(end.cursor, end.final_status)
    again = bench.attachment(sleeper(), number=2).attach()
    for ended in (resumed, again):
        assert ended is not None
        assert ended.result == {"loss": 0.5}
    another.off()
    assert (len(bench.apps()), another.apps()) == (1, 0)


def test_a_success_that_is_too_long_to_keep_runs_again(
    bench: Bench, another: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once no other host can be asked for it any more."""
    monkeypatch.setattr(_sight, "LONGEST_END", 10)
    bench.run(Request(app_of(*REPORTS), lease_s=0.1))
    another.on()
    assert _begin_again(bench).record.attempt == 1
    assert another.apps() == 1


def test_an_app_that_was_deleted_on_its_host_is_gone_at_once(bench: Bench) -> None:
    """Nobody has to look for it elsewhere."""
    bench.attachment(sleeper(lease_s=600.0)).attach()
    _delete(bench)
    attachment = bench.attachment(echo("a"), number=2)
    attachment.attach()
    assert attachment.record.attempt == 1
    assert "is gone: it was deleted on this host" in bench.screen.said[0]


def test_a_resumed_task_whose_app_was_deleted_says_so_at_once(bench: Bench) -> None:
    """It fails, and its retries may run another one."""
    bench.attachment(sleeper(lease_s=600.0)).attach()
    _delete(bench)
    with pytest.raises(UnknownAppException):
        bench.attachment(sleeper()).resume(None)


def test_a_clear_on_another_host_starts_nothing_beside_the_app(bench: Bench, another: Switch) -> None:
    """The first try after it cannot cancel the app there, so it comes again until the app's lease is over."""
    bench.attachment(sleeper(lease_s=600.0)).attach()
    another.on()
    with pytest.raises(OutOfSightError, match=f"{bench.memory.record.handle} was submitted on host .* lease"):
        bench.attachment(echo("a"), number=2, generation=4).attach()
    assert another.apps() == 0
    another.off()
    attachment = bench.attachment(echo("a"), number=2, generation=4, is_rescheduled=True)
    attachment.attach()
    assert attachment.follow().state is AppState.SUCCEEDED
    assert list(bench.apps().values()) == [AppState.CANCELLED, AppState.SUCCEEDED]


def test_a_clear_on_another_host_outwaits_the_lease(bench: Bench, another: Switch) -> None:
    """The clock says when the old app has ended itself."""
    bench.attachment(sleeper(lease_s=0.5)).attach()
    another.on()
    _begin_again(bench, generation=4)
    assert another.apps() == 1


def test_a_clear_of_what_has_ended_waits_for_nothing(bench: Bench, another: Switch) -> None:
    """Wherever its first try begins."""
    bench.run(replace(echo("a"), lease_s=600.0))
    another.on()
    bench.attachment(echo("a"), number=2, generation=4).attach()
    assert another.apps() == 1


def test_a_clear_after_the_doubt_was_told_is_the_users_word(
    bench: Bench, another: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lease nobody else can say that the old app has ended; a retry says nothing."""
    monkeypatch.setattr(_sight, "LOOK_FOR_S", 0.0)
    bench.attachment(sleeper()).attach()
    another.on()
    for number in (2, 3):
        with pytest.raises(LostAppError):
            bench.attachment(echo("a"), number=number, generation=4).attach()
    assert another.apps() == 0
    bench.attachment(echo("a"), number=4, generation=6).attach()
    assert another.apps() == 1
