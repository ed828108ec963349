from __future__ import annotations

import pytest

from torchx_core.errors import SchedulerError
from torchx_core.launch import Patience
from torchx_core.testing import FakeClock

AWAY = SchedulerError("no answer", retryable=True)


def test_delays_double_up_to_a_minute() -> None:
    """A short absence is over soon, a long one is not made worse by asking."""
    patience = Patience(1800, FakeClock())
    assert [patience.delay_after(AWAY) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_answer_ends_the_absence() -> None:
    """The next failure is a new one: it has all the time again, from the first delay on."""
    clock = FakeClock()
    patience = Patience(10, clock)
    patience.delay_after(AWAY)
    patience.delay_after(AWAY)
    clock.advance(11)
    patience.answered()
    assert patience.delay_after(AWAY) == 1


def test_an_absence_that_lasts_too_long_is_an_error() -> None:
    """The error itself says what is wrong."""
    clock = FakeClock()
    patience = Patience(10, clock)
    patience.delay_after(AWAY)
    clock.advance(11)
    with pytest.raises(SchedulerError, match="no answer"):
        patience.delay_after(AWAY)


def test_what_does_not_pass_is_an_error_at_once() -> None:
    """Repeating it is pointless."""
    with pytest.raises(SchedulerError, match="forbidden"):
        Patience(10, FakeClock()).delay_after(SchedulerError("forbidden"))
