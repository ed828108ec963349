"""One replica's lines out of everybody's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from torchx_core.schedulers import AppEvent, Batch, LogLines, StateChanged
from torchx_core.schedulers.lines import select_lines
from torchx_core.specs import AppState


def batches(*events: AppEvent) -> Iterator[Batch]:
    """Yield each event as a batch."""
    for event in events:
        yield Batch(events=(event,), cursor="")


def test_other_replicas_and_other_events_are_left_out() -> None:
    """Only lines of the one replica come through, of all attempts."""
    stream = batches(
        StateChanged(state=AppState.RUNNING, time=0.0),
        LogLines("r", 0, 0, "stdout", ("mine",), 1.0),
        LogLines("r", 1, 0, "stdout", ("other",), 1.0),
        LogLines("r", 0, 1, "stderr", ("again",), 2.0),
    )
    assert list(select_lines(stream, 0, None, None, None)) == ["mine\n", "again\n"]


def test_only_a_finished_line_ends_in_a_newline() -> None:
    """A piece of a line comes as it was written."""
    stream = batches(LogLines("r", 0, 0, "stdout", ("whole", "piece"), 1.0, eol=False))
    assert list(select_lines(stream, 0, None, None, None)) == ["whole\n", "piece"]


def test_a_pattern_may_match_anywhere() -> None:
    """It is searched for, as TorchX does."""
    stream = batches(LogLines("r", 0, 0, "stdout", ("loss=1", "acc=2", "final loss=0"), 1.0))
    assert list(select_lines(stream, 0, "loss", None, None)) == ["loss=1\n", "final loss=0\n"]


def test_the_window_has_its_start_and_not_its_end() -> None:
    """Adjacent windows give each line once."""
    lines = [LogLines("r", 0, 0, "stdout", (str(i),), float(i)) for i in range(4)]
    one, three = datetime.fromtimestamp(1, UTC), datetime.fromtimestamp(3, UTC)
    assert list(select_lines(batches(*lines), 0, None, one, three)) == ["1\n", "2\n"]
