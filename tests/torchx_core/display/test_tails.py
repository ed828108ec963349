from __future__ import annotations

from torchx_core.display.tails import TAIL_LINE_CHARS, TAIL_LINES, Tails
from torchx_core.schedulers import LogLines
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus


def _lines(*texts: str, replica: int = 0) -> LogLines:
    return LogLines("r", replica, 0, "stdout", texts, 1.0)


def test_the_last_lines_of_each_replica_are_remembered() -> None:
    """As a terminal shows them, oldest first, and no more than there is use for."""
    tails = Tails()
    tails.remember(_lines(*(f"line {number}" for number in range(1000))))
    tails.remember(_lines("10 %\r99 %", replica=1))
    tails.remember(_lines("end"))
    assert tails.of("r", 0) == [*(f"line {number}" for number in range(1001 - TAIL_LINES, 1000)), "end"]
    assert tails.of("r", 1) == ["99 %"]
    assert tails.of("r", 2) == []
    assert tails.others("r", 0) == [("r", 1)]


def test_long_lines_are_cut_after_they_are_masked() -> None:
    """Half a secret at the end of a cut line would not be recognised as one."""
    tails = Tails(lambda line: line.replace("secret", "***"))
    tails.remember(_lines("x" * (TAIL_LINE_CHARS - 3) + "secret" + "y" * 10))
    assert tails.of("r", 0) == ["x" * (TAIL_LINE_CHARS - 3) + "***" + "…"]


def test_a_status_is_explained_by_them() -> None:
    """It leads with what a replica printed on stderr; the status itself stays what it was."""
    tails = Tails()
    tails.remember(_lines("out"))
    trace = ("Traceback (most recent call last):", '  File "a.py", line 3, in f', "KeyError: 1")
    tails.remember(_lines(*trace)._replace(stream="stderr"))
    tails.remember(_lines(*(f"later {number}" for number in range(TAIL_LINES))))
    replica = ReplicaStatus(0, AppState.FAILED, "r", "", exit_code=1)
    status = AppStatus(AppState.FAILED, roles=[RoleStatus("r", [replica])])
    headline = "replica r/0 failed with exit code 1: KeyError: 1 (a.py:3, in f); app is FAILED"
    assert tails.explain(status).failure_summary().startswith(headline)
    assert status.failure_summary() == "replica r/0 failed with exit code 1; app is FAILED"
