from __future__ import annotations

from torchx_core.schedulers import LogLines
from torchx_core.schedulers.log_limit import LogLimit


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
