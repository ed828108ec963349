from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_torchx._watch import Pace
from torchx_core.testing import FakeClock


def test_a_burst_passes_and_is_paid_back() -> None:
    """What exceeds the bucket is paused for at the steady rate."""
    clock = FakeClock()
    pace = Pace(10.0, 100.0, clock)
    assert pace.spend(100) == 0.0
    assert pace.spend(20) == 2.0
    clock.advance(2.0)
    assert pace.spend(0) == 0.0


@given(st.lists(st.floats(0, 1000), max_size=30))
def test_pausing_as_told_keeps_the_rate(amounts: list[float]) -> None:
    """Over any time no more than a burst and the rate times that time has passed, once the pause is over."""
    clock = FakeClock()
    start = clock()
    pace = Pace(10.0, 100.0, clock)
    spent = 0.0
    for amount in amounts:
        clock.advance(pace.spend(amount))
        spent += amount
        assert spent <= 100.0 + 10.0 * (clock() - start) + 1e-6
