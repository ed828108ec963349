"""What torchrun and PyTorch put before a rank's line is told from what a program prints."""

from __future__ import annotations

from torchx_core.specs.rank_marks import lines_by_rank, uncaught_by_rank, unmarked


def test_marks() -> None:
    """What torchrun and PyTorch put before a line, and what a program prints that resembles it."""
    lines = ["[0]:a", "[r1]:[rank3]: b", "[rank3]:   c", "[info]: d", "[1]e", "", f"[{'1' * 50}]:f"]
    assert lines_by_rank(lines) == {
        "local rank 0": ["a"],
        "local rank 1": ["b"],
        "rank 3": ["  c"],
        "": ["[info]: d", "[1]e", ""],
        "local rank 111111111": ["f"],
    }


def test_what_pytorch_marked() -> None:
    """Torchrun's mark alone says nothing of an exception: its line stays as it is."""
    lines = ["[0]:a", "[r1]:[rank3]: b", "[rank3]:   c", "[info]: d"]
    assert uncaught_by_rank(lines) == {"rank 3": ["b", "  c"], "": ["[0]:a", "[info]: d"]}
    assert [unmarked(line) for line in lines] == ["a", "b", "  c", "[info]: d"]
