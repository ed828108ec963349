from __future__ import annotations

from torchx_core.display.tails import TAIL_LINE_CHARS, TAIL_LINES, Tails
from torchx_core.schedulers import LogLines


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
