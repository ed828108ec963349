from __future__ import annotations

from torchx_core.schedulers import Metric, Progress
from torchx_core.schedulers.latest_reports import LatestReports
from torchx_core.testing import FakeClock


def _loss(value: float, replica: int = 0) -> Metric:
    return Metric(role="r", replica=replica, attempt=0, time=1.0, name="loss", value=value, step=None)


def test_the_latest_of_each_is_due_once_a_second() -> None:
    """The first at once; within a second what comes replaces what waits, of its replica and name only."""
    clock = FakeClock()
    reports = LatestReports(clock)
    half = Progress(role="r", replica=0, attempt=0, time=1.0, fraction=0.5, message="")
    reports.take(_loss(3.0))
    assert list(reports.due()) == [_loss(3.0)]
    for report in (_loss(2.0), half, _loss(7.0, replica=1), _loss(1.0)):
        reports.take(report)
    assert list(reports.due()) == []
    clock.advance(1.0)
    assert list(reports.due()) == [_loss(1.0), half, _loss(7.0, replica=1)]
    assert list(reports.due()) == []


def test_the_rest_comes_at_once() -> None:
    """At the end nobody waits for a second to pass."""
    reports = LatestReports(FakeClock())
    for value in (3.0, 2.0):
        reports.take(_loss(value))
        assert list(reports.due()) == ([_loss(3.0)] if value == 3.0 else [])
    assert list(reports.rest()) == [_loss(2.0)]
    assert list(reports.rest()) == []
