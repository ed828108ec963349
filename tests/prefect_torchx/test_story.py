from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from prefect_torchx.story import Follow, Pause, Story, atell, patiently, tell
from torchx_core import AppDef, Role, Runner
from torchx_core.errors import SchedulerError, UnknownAppException
from torchx_core.launch import Patience
from torchx_core.schedulers import Batch
from torchx_core.specs import AppHandle
from torchx_core.testing import FakeClock, fake_runner

Tell = Callable[[Story[Any], Runner, Callable[[], None]], Any]


def _await(story: Story[Any], runner: Runner, look: Callable[[], None]) -> Any:
    return asyncio.run(atell(story, runner, look))


both = pytest.mark.parametrize("how", [tell, _await], ids=["blocking", "awaiting"])


class Leave(BaseException):
    """Something ends the call."""


def _stay() -> None:
    """Look at nothing."""


def _leave() -> None:
    raise Leave


def _started(runner: Runner, *steps: str) -> AppHandle:
    return runner.run(AppDef("app", [Role("r", image="", entrypoint="fake", args=list(steps))]), "fake")


@both
def test_a_story_returns_its_value(how: Tell) -> None:
    """What comes of it is what the driver returns."""

    def story() -> Story[int]:
        yield Pause(seconds=0.0)
        return 5

    assert how(story(), fake_runner(), _stay) == 5


@both
def test_a_follow_takes_every_batch_to_the_end(how: Tell) -> None:
    """All lines, in order."""
    runner = fake_runner()
    handle = _started(runner, "print:a", "print:b", "exit:0")
    lines: list[str] = []

    def take(batch: Batch) -> bool:
        lines.extend(line.text for line in batch.lines())
        return True

    def story() -> Story[None]:
        yield Follow(handle=handle, take=take)

    how(story(), runner, _stay)
    assert lines == ["a", "b"]


@both
def test_a_follow_ends_when_nobody_takes_more(how: Tell) -> None:
    """The app goes on."""
    runner = fake_runner()
    handle = _started(runner, "hold")

    def story() -> Story[str]:
        yield Follow(handle=handle, take=lambda _: False)
        return "left"

    assert how(story(), runner, _stay) == "left"


@both
def test_what_goes_wrong_with_a_wish_is_raised_where_it_was_made(how: Tell) -> None:
    """The story decides what to make of it."""

    def story() -> Story[str]:
        try:
            yield Follow(handle="fake://torchx/nobody", take=lambda _: True)
        except UnknownAppException:
            return "gone"
        return "there"

    assert how(story(), fake_runner(), _stay) == "gone"


@both
@pytest.mark.parametrize("wish", ["follow", "pause"])
def test_a_look_can_end_it(how: Tell, wish: str) -> None:
    """While something is waited for, reasons to stop are looked for."""
    runner = fake_runner()
    handle = _started(runner, "hold")

    def story() -> Story[None]:
        yield Follow(handle=handle, take=lambda _: True) if wish == "follow" else Pause(seconds=60)

    with pytest.raises(Leave):
        how(story(), runner, _leave)


def test_a_phase_is_told_again_while_its_scheduler_is_away() -> None:
    """With a growing pause, and a word each time; what it returns in the end counts."""
    answers = iter([SchedulerError("no answer", retryable=True)] * 2)
    said: list[str] = []

    def phase() -> Story[str]:
        yield Pause(seconds=0)
        for error in answers:
            raise error
        return "done"

    story = patiently(phase, Patience(10, FakeClock()), said.append)
    pauses = [wish.seconds for wish in story if isinstance(wish, Pause) and wish.seconds]
    assert pauses == [1, 2]
    assert said[0] == "the scheduler does not answer, asking again in 1 s: no answer"


def test_an_error_that_does_not_pass_ends_the_phase() -> None:
    """It is for whoever called."""

    def phase() -> Story[None]:
        yield Pause(seconds=0)
        raise SchedulerError("forbidden")

    with pytest.raises(SchedulerError, match="forbidden"):
        list(patiently(phase, Patience(10, FakeClock()), lambda _: None))
