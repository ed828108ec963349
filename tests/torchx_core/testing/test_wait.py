"""Waiting for a condition, and a clock that tests move."""

from __future__ import annotations

import pytest

from torchx_core.testing import FakeClock, wait_until


def test_what_is_true_already_costs_nothing() -> None:
    """The value is handed on; no time is needed."""
    assert wait_until(lambda: "there", timeout_s=0) == "there"


def test_it_asks_until_it_is_true() -> None:
    """However often that takes."""
    answers = iter([None, False, 0, "", "at last"])
    assert wait_until(lambda: next(answers)) == "at last"


def test_waiting_in_vain_says_for_what() -> None:
    """The source of the condition and its last value."""
    number = 3
    with pytest.raises(AssertionError, match=r"waited 0.01 s for .*number > 4.*returned False"):
        wait_until(lambda: number > 4, timeout_s=0.01)


def test_a_condition_without_source_is_named() -> None:
    """A built-in function has none."""
    with pytest.raises(AssertionError, match=r"dict\.copy"):
        wait_until({}.copy, timeout_s=0)


def test_a_condition_that_fails_is_a_failure() -> None:
    """An exception is not taken for "not yet"."""
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0 > 1)


def test_a_clock_moves_only_when_it_is_moved() -> None:
    """Everybody who watches the clock is told."""
    clock = FakeClock(10.0)
    seen: list[float] = []
    clock.watch(lambda: seen.append(clock()))
    assert clock() == clock() == 10.0
    clock.advance(2.5)
    assert seen == [clock()] == [12.5]


def test_a_clock_never_goes_backwards() -> None:
    """Time that does is another test's subject."""
    clock = FakeClock(10.0)
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)
    assert clock() == 10.0
