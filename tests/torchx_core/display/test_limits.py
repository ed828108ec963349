from __future__ import annotations

from torchx_core.display.limits import LatestReports, LogLimit
from torchx_core.schedulers import LogLines, Metric, Progress
from torchx_core.testing import FakeClock


def _lines(*texts: str, replica: int = 0) -> LogLines:
    return LogLines("r", replica, 0, "stdout", texts, 1.0)


def test_lines_beyond_the_limit_are_counted_by_replica() -> None:
    """What is left out can be told, with the command that shows all of it."""
    limit = LogLimit(10)
    assert limit.admits(_lines("four", "five!"))
    assert limit.shown_bytes == 11
    assert not limit.admits(_lines("six"))
    assert not limit.admits(_lines("seven", "eight", replica=1))
    assert limit.left_out == {("r", 0): 1, ("r", 1): 2}
    handle = "local_cwd://s/a"
    assert limit.summary(handle) == f"3 lines were left out; `torchx-core log {handle}` shows the whole log"


def test_a_later_try_counts_on() -> None:
    """The limit is the run's, not the try's."""
    assert not LogLimit(10, shown_bytes=11).admits(_lines("x"))


def test_without_a_limit_everything_is_admitted() -> None:
    """There is nothing to tell at the end."""
    limit = LogLimit(None)
    assert limit.admits(_lines("x" * 1000))
    assert limit.summary("local_cwd://s/a") == ""


def test_the_notice_names_the_limit() -> None:
    """In the unit in which one sets it."""
    assert LogLimit(2_500_000).notice == "the log has reached its limit of 2.5 MB; further lines are left out"


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
