"""Events as plain lines."""

from __future__ import annotations

import pytest

from torchx_core import AppState
from torchx_core.cli.output import Output
from torchx_core.cli.views import PlainView
from torchx_core.schedulers import AppEvent, LogLines, LogsLost, Progress, ReplicaChanged, StateChanged


def lines(*text: str, eol: bool = True) -> LogLines:
    """Return lines of main/0."""
    return LogLines("main", 0, 0, "stdout", text, 5.0, eol)


def progress(at: float) -> Progress:
    """Return a report of that time."""
    return Progress(role="main", replica=0, attempt=0, fraction=0.5, message="half", time=at)


@pytest.mark.parametrize(
    ("event", "remark"),
    [
        (StateChanged(state=AppState.RUNNING, time=5.0), "x is RUNNING"),
        (progress(5.0), "main/0 progress 50%: half"),
        (
            ReplicaChanged(role="main", replica=0, attempt=1, state=AppState.FAILED, time=5.0, exit_code=3),
            "main/0 is FAILED, exit code 3 (attempt 2)",
        ),
        (
            LogsLost(role="main", replica=0, attempt=0, size_bytes=7, reason="full", time=5.0),
            "main/0 7 bytes of output lost: full",
        ),
    ],
)
def test_events_are_remarks(event: AppEvent, remark: str, capfd: pytest.CaptureFixture[str]) -> None:
    """In the words that every engine's log uses."""
    PlainView(Output.of_process(), "x", logs=True).show([event])
    assert capfd.readouterr() == ("", f"{remark}\n")


def test_old_events_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    """`wait` tells what happens while it waits, not the app's history."""
    PlainView(Output.of_process(), "x", logs=False, since=6.0).show([progress(5.0), progress(7.0)])
    assert capfd.readouterr().err.count("progress") == 1


def test_a_line_without_an_end_gets_one(capfd: pytest.CaptureFixture[str]) -> None:
    """Before anything else is said, and when somebody leaves in the middle of it."""
    view = PlainView(Output.of_process(), "x", logs=True)
    view.show([lines("a", eol=False)])
    view.show([lines("b", eol=False), progress(5.0), lines("c", eol=False)])
    view.close()
    assert capfd.readouterr().out == "main/0 ab\nmain/0 c\n"
