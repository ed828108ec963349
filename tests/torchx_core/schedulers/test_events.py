"""Runs of lines, and lines one at a time."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers import Batch, LogLine, LogLines, Progress, StateChanged
from torchx_core.specs import AppState


def test_a_run_comes_apart_into_lines() -> None:
    """Each with whose it is and when it was written; only the last can be unfinished."""
    run = LogLines("trainer", 1, 2, "stderr", ("a", "b"), 5.0, eol=False)
    assert list(run.each()) == [
        LogLine("trainer", 1, 2, "stderr", "a", 5.0, eol=True),
        LogLine("trainer", 1, 2, "stderr", "b", 5.0, eol=False),
    ]


@given(st.lists(st.text(st.characters(exclude_characters="\n")), min_size=1), st.booleans())
def test_no_text_is_lost_between_run_and_lines(texts: list[str], eol: bool) -> None:
    """Put together again, the lines are what was printed."""
    run = LogLines("r", 0, 0, "stdout", tuple(texts), 0.0, eol)
    printed = "\n".join(texts) + ("\n" if eol else "")
    assert "".join(line.text + ("\n" if line.eol else "") for line in run.each()) == printed


def test_a_batch_yields_the_lines_of_all_its_runs() -> None:
    """In order, and nothing of its other events."""
    batch = Batch(
        events=(
            StateChanged(state=AppState.RUNNING, time=0.0),
            LogLines("a", 0, 0, "stdout", ("1", "2"), 0.0),
            Progress(role="a", replica=0, attempt=0, fraction=0.5, message="", time=0.0),
            LogLines("b", 0, 0, "stdout", ("3",), 0.0),
        ),
        cursor="",
    )
    assert [(line.role, line.text) for line in batch.lines()] == [("a", "1"), ("a", "2"), ("b", "3")]


def test_events_survive_pickling() -> None:
    """They cross process borders as they are: a triggerer hands them to a worker."""
    events = (LogLines("a", 0, 0, "stdout", ("1",), 0.0), StateChanged(state=AppState.FAILED, time=1.0))
    batch = Batch(events=events, cursor="{}")
    assert pickle.loads(pickle.dumps(batch)) == batch
