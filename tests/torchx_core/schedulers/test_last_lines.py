"""The end of a log of any length, and of one that is no log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchx_core.schedulers import Batch, LogLines, StateChanged
from torchx_core.schedulers.last_lines import (
    LAST_BYTES,
    MAX_LINES,
    collect_last_lines,
    end_of,
    read_last_lines,
)
from torchx_core.specs import AppState, LastLines, ReplicaStatus

NOTHING = LastLines((), ())
REPLICA = ReplicaStatus(1, AppState.FAILED, "r", "", attempt=2)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\nunfinished", ["one", "unfinished"]),
        (b"one\n\n", ["one", ""]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
    ],
)
def test_a_short_log_is_read_whole(tmp_path: Path, text: bytes, lines: list[str]) -> None:
    """Each stream for itself; what cannot be decoded is replaced."""
    (tmp_path / "combined.log").write_bytes(text)
    assert read_last_lines(str(tmp_path)) == LastLines(lines, [])


def test_of_a_long_log_only_the_end_is_read(tmp_path: Path) -> None:
    """Whole lines; the one in which the end begins is left out."""
    text = "".join(f"line {number}\n" for number in range(100_000))
    (tmp_path / "stderr.log").write_text(text)
    both, stderr = read_last_lines(str(tmp_path))
    assert both == []
    assert stderr == text.split("\n")[-len(stderr) - 1 : -1]
    assert LAST_BYTES - 20 < sum(len(line) + 1 for line in stderr) <= LAST_BYTES


def test_a_line_without_an_end_is_no_line(tmp_path: Path) -> None:
    """A program that prints gigabytes without a newline has no last line that anybody could read."""
    (tmp_path / "combined.log").write_bytes(b"x" * (LAST_BYTES + 1))
    assert read_last_lines(str(tmp_path)).both == []


def test_what_is_no_log_has_no_lines(tmp_path: Path) -> None:
    """A pipe that nobody writes to holds nobody up."""
    os.mkfifo(tmp_path / "combined.log")
    (tmp_path / "stderr.log").mkdir()
    assert read_last_lines(str(tmp_path)) == LastLines([], [])
    assert read_last_lines(str(tmp_path / "none")) == LastLines([], [])


def batches(*runs: tuple[int, int, str, str]) -> list[Batch]:
    """Return a stream of such runs: replica, attempt, stream, one line."""
    lines = [
        LogLines("r", k, n, "stderr" if stream == "err" else "stdout", (text,), 0.0)
        for k, n, stream, text in runs
    ]
    return [Batch(events=(StateChanged(state=AppState.RUNNING, time=0.0), each), cursor="") for each in lines]


def test_a_stream_is_read_through_where_there_is_no_other_way() -> None:
    """Only the attempt's own lines are kept."""
    stream = batches((1, 1, "out", "before"), (0, 2, "out", "peer"), (1, 2, "out", "a"), (1, 2, "err", "b"))
    assert collect_last_lines(stream, REPLICA) == LastLines(["a", "b"], ["b"])


def test_no_more_is_kept_than_anybody_reads() -> None:
    """The last ones."""
    both, stderr = collect_last_lines(batches(*((1, 2, "err", str(n)) for n in range(5000))), REPLICA)
    assert both == stderr == [str(n) for n in range(5000 - MAX_LINES, 5000)]


def test_very_long_lines_are_as_few_as_it_takes() -> None:
    """The end of a log is some tens of kilobytes, however few lines that is."""
    assert end_of(["a", "x" * LAST_BYTES, "b", "c"]) == ["b", "c"]
    assert end_of(["x" * LAST_BYTES]) == end_of([]) == []


def test_a_log_that_is_too_long_is_given_up() -> None:
    """Rather no lines than some that are not the last."""
    huge = batches(*((1, 2, "out", "x" * (1 << 20)) for _ in range(65)))
    assert collect_last_lines(huge, REPLICA) == NOTHING
