"""What a try does while its scheduler does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stumbles import stumble_twice
from task_bench import Bench, echo, sleeper, task_bench

from airflow_torchx import _attachment
from airflow_torchx._attachment import Attachment
from torchx_core.errors import SchedulerError
from torchx_core.launch import patience
from torchx_core.specs import AppState


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A task instance whose scheduler is asked again soon."""
    monkeypatch.setattr(patience, "FIRST_DELAY_S", 0.01)
    with task_bench(tmp_path) as made:
        yield made


@pytest.mark.parametrize("method", ["status", "run", "owner", "take_over", "follow"])
def test_a_short_absence_does_not_end_the_try(bench: Bench, away: Callable[..., None], method: str) -> None:
    """Whatever is asked just then is asked again: one app runs, and each of its lines is shown once."""
    away(method, times=2)
    assert bench.run(echo("a", "b")) is AppState.SUCCEEDED
    assert (bench.screen.lines, len(bench.apps())) == (["a", "b"], 1)


def test_an_absence_in_the_middle_of_the_log_repeats_nothing(bench: Bench, away: Callable[..., None]) -> None:
    """The try goes on from the last batch that it has shown."""
    attachment = bench.attachment(echo("a", "b"))
    attachment.attach()
    away("follow", times=3)
    assert attachment.follow().state is AppState.SUCCEEDED
    assert bench.screen.lines == ["a", "b"]


def test_a_failure_that_does_not_pass_ends_the_try(bench: Bench, away: Callable[..., None]) -> None:
    """Asking again would not help."""
    away("run", retryable=False)
    with pytest.raises(SchedulerError, match="away"):
        bench.run(echo("a"))
    assert bench.apps() == {}


def test_a_long_absence_ends_the_try(
    bench: Bench, away: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app goes on."""
    monkeypatch.setattr(_attachment, "GIVE_UP_S", 0.1)
    attachment = bench.attachment(sleeper())
    attachment.attach()
    away("follow", times=1000)
    with pytest.raises(SchedulerError, match="away"):
        attachment.follow()
    assert len(bench.apps()) == 1


@pytest.mark.parametrize(("answered", "end"), [(True, AppState.CANCELLED), (False, None)])
def test_an_absence_is_over_when_the_scheduler_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, answered: bool, end: AppState | None
) -> None:
    """A quiet app has nothing new to show for hours; that it was asked in vain before does not count then."""
    monkeypatch.setattr(_attachment, "GIVE_UP_S", 0.0)
    attachment = bench.attachment(sleeper())
    attachment.attach()
    stumble_twice(monkeypatch, answered=answered)
    if end is None:
        with pytest.raises(SchedulerError, match="away"):
            attachment.follow()
    else:
        assert attachment.follow().state is end


def test_patience_begins_with_the_app(
    bench: Bench, away: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as there is none, a retry of Airflow's loses nothing, and takes no worker."""
    monkeypatch.setattr(_attachment, "GIVE_UP_FIRST_S", -1.0)
    attachment = bench.attachment(echo("a"))
    away("status")
    with pytest.raises(SchedulerError, match="away"):
        attachment.attach()

    attachment = bench.attachment(echo("a"))
    attachment.attach()
    away("follow", times=2)
    assert attachment.follow().state is AppState.SUCCEEDED


def test_a_resumed_try_is_as_patient_as_it_is_told_to_be(bench: Bench, away: Callable[..., None]) -> None:
    """Where its trigger has been patient already, half an hour more would add little."""
    bench.attachment(sleeper()).attach()
    away("owner", times=1000)
    with pytest.raises(SchedulerError, match="away"):
        bench.attachment(sleeper()).resume(None, give_up_s=0.1)


def test_a_wait_for_the_scheduler_can_be_ended(bench: Bench, away: Callable[..., None]) -> None:
    """A kill does not have to wait until it answers."""

    class Killed(Exception):
        pass

    def look(_attachment: Attachment) -> None:
        raise Killed

    away("status", times=1000)
    with pytest.raises(Killed):
        bench.attachment(echo("a"), look=look).attach()


def test_a_try_that_is_about_to_defer_does_not_wait_for_long(bench: Bench, away: Callable[..., None]) -> None:
    """The trigger is as patient, and takes no worker."""
    attachment = bench.attachment(sleeper())
    attachment.attach()
    away("follow", times=1000)
    assert attachment.follow_for(0.0) is None
