from __future__ import annotations

from typing import Any

import pytest

from airflow_torchx._log import LINES_PER_RECORD, AppLog, records
from torchx_core.display.tails import TAIL_LINE_CHARS, TAIL_LINES
from torchx_core.schedulers import (
    AppEvent,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus
from torchx_core.testing import FakeClock

OF: dict[str, Any] = {"role": "r", "replica": 1, "attempt": 0, "time": 5.0}

AGAIN: dict[str, Any] = {**OF, "attempt": 1}


def _lines(*texts: str, replica: int = 1) -> LogLines:
    return LogLines("r", replica, 0, "stdout", texts, 5.0)


@pytest.mark.parametrize(
    ("event", "level", "message"),
    [
        (_lines("one"), "info", "[r/1] one"),
        (_lines("one", "two"), "info", "[r/1] one\n[r/1] two"),
        (_lines("10 %\r50 %\r99 %"), "info", "[r/1] 99 %"),
        (_lines("DOS\r"), "info", "[r/1] DOS"),
        (_lines("\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J"), "info", "[r/1] \x1b[31mred\x1b[0m"),
        (Progress(**OF, fraction=0.5, message="\x1b[2Jhalf"), "info", "[r/1] progress 50%: half"),
        (_lines("100 %s {x}"), "info", "[r/1] 100 %s {x}"),
        (StateChanged(state=AppState.RUNNING, time=5.0), "info", "app is RUNNING"),
        (StateChanged(state=AppState.CANCELLED, time=5.0, msg="why"), "warning", "app is CANCELLED: why"),
        (ReplicaChanged(**OF, state=AppState.FAILED, exit_code=3), "error", "[r/1] is FAILED, exit code 3"),
        (
            ReplicaChanged(**AGAIN, state=AppState.FAILED, signal="SIGKILL", msg="memory"),
            "error",
            "[r/1] is FAILED, killed by SIGKILL (attempt 2): memory",
        ),
        (ReplicaChanged(**OF, state=AppState.SUCCEEDED, exit_code=0), "info", "[r/1] is SUCCEEDED"),
        (Progress(**OF, fraction=0.256, message="epoch 1"), "info", "[r/1] progress 26%: epoch 1"),
        (Metric(**OF, name="loss", value=0.25, step=4), "info", "[r/1] metric loss = 0.25 at step 4"),
        (Metric(**OF, name="loss", value=1.0, step=None), "info", "[r/1] metric loss = 1"),
        (Result(**OF, value={"a": [1]}), "info", '[r/1] result {"a": [1]}'),
        (Result(**OF, value="x" * 5000), "info", '[r/1] result "' + "x" * 999 + "…"),
        (
            LogsLost(**OF, size_bytes=7, reason="disk full"),
            "warning",
            "[r/1] 7 bytes of output lost: disk full",
        ),
        (LogsLost(**OF, size_bytes=None, reason="?"), "warning", "[r/1] some output lost: ?"),
    ],
)
def test_each_event_is_one_readable_record(event: AppEvent, level: str, message: str) -> None:
    """Every event shows where it comes from and what happened, at the time at which it happened."""
    assert list(records(event)) == [(level, message, 5.0)]


def test_fast_output_shares_records() -> None:
    """A long run of lines becomes few records, with every line in its place."""
    texts = [str(i) for i in range(2 * LINES_PER_RECORD + 1)]
    messages = [record.message for record in records(_lines(*texts))]
    assert len(messages) == 3
    assert "\n".join(messages).split("\n") == [f"[r/1] {text}" for text in texts]


def test_a_failure_shows_the_last_lines_of_the_first_replica_to_fail() -> None:
    """The lines that tell why are repeated as an error, without those of replicas stopped for its sake."""
    said: list[tuple[str, str]] = []
    log = AppLog(lambda level, message, _time: said.append((level, message)))
    log.write(_lines(*(f"old {i}" for i in range(TAIL_LINES)), replica=0))
    log.write(_lines("bad input", replica=0))
    log.write(_lines("stopping", replica=1))
    said.clear()

    log.show_end(_failed(0, 1), "local_cwd://s/a")

    old = [f"old {i}" for i in range(1, TAIL_LINES)]
    assert said == [("error", "\n".join(["the last 50 lines of r/0:", *old, "bad input"]))]


def test_half_a_secret_is_none_the_less_one() -> None:
    """The last lines are cut to size after they are masked."""
    said: list[str] = []
    log = AppLog(lambda _level, message, _time: said.append(message), mask=lambda s: s.replace("secret", "*"))
    log.write(_lines("x" * (TAIL_LINE_CHARS - 3) + "secret", replica=0))
    log.show_end(_failed(0), "local_cwd://s/a")
    assert "x*" in said[-1]
    assert "xsec" not in said[-1]


def test_a_silent_failure_shows_no_lines() -> None:
    """An app that wrote nothing adds nothing to its failure."""
    said: list[str] = []
    AppLog(lambda _level, message, _time: said.append(message)).show_end(_failed(0), "local_cwd://s/a")
    assert said == []


def test_levels_are_the_apps_own() -> None:
    """A line that says that it is an error is one in the task's log, and stands in its place."""
    found = [(record.level, record.message) for record in records(_lines("a", "ERROR: b", "c"))]
    assert found == [("info", "[r/1] a"), ("error", "[r/1] ERROR: b"), ("info", "[r/1] c")]


def test_a_line_that_folds_stands_alone() -> None:
    """The web UI hides the whole record that such a mark is in."""
    messages = [record.message for record in records(_lines("a", "::endgroup::", "b", "c"))]
    assert messages == ["[r/1] a", "[r/1] ::endgroup::", "[r/1] b\n[r/1] c"]


def test_a_log_has_a_limit() -> None:
    """Beyond it lines are counted; at the end the log says how many, how to see them, and shows the last."""
    said: list[str] = []
    log = AppLog(lambda _level, message, _time: said.append(message), limit_bytes=10)
    log.write(_lines("12345678", "9"))
    log.write(_lines("left out"))
    log.write(_lines("also", "the last"))
    log.show_end(AppStatus(state=AppState.SUCCEEDED), "local_cwd://s/a")
    assert said[0] == "[r/1] 12345678\n[r/1] 9"
    assert said[2] == "3 lines were left out; `torchx-core log local_cwd://s/a` shows the whole log"
    assert said[3:] == [
        "::group::The end of r/1",
        "the last 5 lines of r/1:\n12345678\n9\nleft out\nalso\nthe last",
        "::endgroup::",
    ]
    assert "limit" in said[1]


def test_what_another_process_left_out_counts() -> None:
    """The limit was reached while the task was deferred: said there, and summed up here."""
    said: list[str] = []

    def log(left_out: dict[str, int]) -> AppLog:
        return AppLog(
            lambda _level, message, _time: said.append(message),
            limit_bytes=10,
            shown_bytes=10,
            left_out=left_out,
        )

    first = log({})
    first.write(_lines("a", "b"))
    assert first.left_out == {"r/1": 2}
    second = log(first.left_out)
    second.write(_lines("c"))
    second.show_end(AppStatus(state=AppState.SUCCEEDED), "local_cwd://s/a")
    assert [text.split(";")[0] for text in said] == [
        "the log has reached its limit of 1e-05 MB",
        "3 lines were left out",
        "::group::The end of r/1",
        "the last 1 lines of r/1:\nc",
        "::endgroup::",
    ]


def test_reports_are_shown_once_a_second() -> None:
    """Of each replica's progress and metrics the log has the latest, in time, and the last before the end."""
    said: list[str] = []
    clock = FakeClock()
    log = AppLog(lambda _level, message, _time: said.append(message), clock=clock)
    for step in range(100):
        log.write(Metric(**OF, name="loss", value=float(step), step=None))
        log.tick()
        clock.advance(0.021)
    log.write(StateChanged(state=AppState.SUCCEEDED, time=5.0))
    log.flush()
    shown = [f"[r/1] metric loss = {step}" for step in (0, 48, 96, 99)]
    assert said == [*shown, "app is SUCCEEDED"]


def test_a_report_before_a_silence_is_shown_in_time() -> None:
    """An app may say nothing for hours after it; nothing of what it said last is kept from the log."""
    said: list[str] = []
    clock = FakeClock()
    log = AppLog(lambda _level, message, _time: said.append(message), clock=clock)
    log.write(Progress(**OF, fraction=0.1, message=""))
    log.write(Progress(**OF, fraction=0.2, message=""))
    clock.advance(1.0)
    log.tick()
    assert said == ["[r/1] progress 10%", "[r/1] progress 20%"]


def _failed(*replicas: int) -> AppStatus:
    """Return the status of an app whose replicas failed in this order."""
    ended = [
        ReplicaStatus(id=replica, state=AppState.FAILED, role="r", hostname="h", ended_at=float(order))
        for order, replica in enumerate(replicas)
    ]
    return AppStatus(state=AppState.FAILED, roles=[RoleStatus("r", ended)])
