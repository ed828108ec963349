from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from prefect_torchx.driver import Follow, Pause, Procedure, adrive, drive, patiently
from torchx_core import AppDef, Role, Runner
from torchx_core.errors import SchedulerError, UnknownAppException
from torchx_core.launch import Patience
from torchx_core.schedulers import Batch
from torchx_core.specs import AppHandle
from torchx_core.testing import FakeClock, fake_runner

Drive = Callable[[Procedure[Any], Runner, Callable[[], None]], Any]


def _await(procedure: Procedure[Any], runner: Runner, look: Callable[[], None]) -> Any:
    return asyncio.run(adrive(procedure, runner, look))


both = pytest.mark.parametrize("how", [drive, _await], ids=["blocking", "awaiting"])


class Leave(BaseException):
    """Something ends the call."""


def _stay() -> None:
    """Look at nothing."""


def _leave() -> None:
    raise Leave


def _started(runner: Runner, *steps: str) -> AppHandle:
    return runner.run(AppDef("app", [Role("r", image="", entrypoint="fake", args=list(steps))]), "fake")


@both
def test_a_procedure_returns_its_value(how: Drive) -> None:
    """What comes of it is what the driver returns."""

    def procedure() -> Procedure[int]:
        yield Pause(seconds=0.0)
        return 5

    assert how(procedure(), fake_runner(), _stay) == 5


@both
def test_a_follow_takes_every_batch_to_the_end(how: Drive) -> None:
    """All lines, in order."""
    runner = fake_runner()
    handle = _started(runner, "print:a", "print:b", "exit:0")
    lines: list[str] = []

    def take(batch: Batch) -> bool:
        lines.extend(line.text for line in batch.lines())
        return True

    def procedure() -> Procedure[None]:
        yield Follow(handle=handle, take=take)

    how(procedure(), runner, _stay)
    assert lines == ["a", "b"]


@both
def test_a_follow_ends_when_nobody_takes_more(how: Drive) -> None:
    """The app goes on."""
    runner = fake_runner()
    handle = _started(runner, "hold")

    def procedure() -> Procedure[str]:
        yield Follow(handle=handle, take=lambda _: False)
        return "left"

    assert how(procedure(), runner, _stay) == "left"


@both
def test_what_goes_wrong_with_an_effect_is_raised_where_it_was_yielded(how: Drive) -> None:
    """The procedure decides what to make of it."""

    def procedure() -> Procedure[str]:
        try:
            yield Follow(handle="fake://torchx/nobody", take=lambda _: True)
        except UnknownAppException:
            return "gone"
        return "there"

    assert how(procedure(), fake_runner(), _stay) == "gone"


@both
@pytest.mark.parametrize("effect", ["follow", "pause"])
def test_a_look_can_end_it(how: Drive, effect: str) -> None:
    """While something is waited for, reasons to stop are looked for."""
    runner = fake_runner()
    handle = _started(runner, "hold")

    def procedure() -> Procedure[None]:
        yield Follow(handle=handle, take=lambda _: True) if effect == "follow" else Pause(seconds=60)

    with pytest.raises(Leave):
        how(procedure(), runner, _leave)


def test_a_phase_is_told_again_while_its_scheduler_is_away() -> None:
    """With a growing pause, and a word each time; what it returns in the end counts."""
    answers = iter([SchedulerError("no answer", retryable=True)] * 2)
    said: list[str] = []

    def phase() -> Procedure[str]:
        yield Pause(seconds=0)
        for error in answers:
            raise error
        return "done"

    procedure = patiently(phase, Patience(10, FakeClock()), said.append)
    pauses = [effect.seconds for effect in procedure if isinstance(effect, Pause) and effect.seconds]
    assert pauses == [1, 2]
    assert said[0] == "the scheduler does not answer, asking again in 1 s: no answer"


def test_an_error_that_does_not_pass_ends_the_phase() -> None:
    """It is for whoever called."""

    def phase() -> Procedure[None]:
        yield Pause(seconds=0)
        raise SchedulerError("forbidden")

    with pytest.raises(SchedulerError, match="forbidden"):
        list(patiently(phase, Patience(10, FakeClock()), lambda _: None))
