from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from local_apps import app_of

from prefect_torchx.logs import MAX_RECORD_BYTES, MAX_WAIT_S, RunLog, make_mask
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


class Screen:
    """Keeps the records that a run's log would get."""

    def __init__(self) -> None:
        self.records: list[tuple[int, str, float | None]] = []

    def __call__(self, level: int, text: str, time: float | None) -> None:
        self.records.append((level, text, time))

    @property
    def texts(self) -> list[str]:
        """The records' texts."""
        return [text for _, text, _ in self.records]


def _lines(*texts: str, replica: int = 1, time: float = 5.0) -> LogLines:
    return LogLines("r", replica, 0, "stdout", texts, time)


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (_lines("one"), "[r/1] one"),
        (_lines("one", "", "two"), "[r/1] one\n[r/1] \n[r/1] two"),
        (_lines("10 %\r50 %\r99 %"), "[r/1] 99 %"),
        (_lines("100 %s {x}"), "[r/1] 100 %s {x}"),
        (StateChanged(state=AppState.CANCELLED, time=5.0, msg="why"), "app is CANCELLED: why"),
        (ReplicaChanged(**OF, state=AppState.FAILED, exit_code=3), "[r/1] is FAILED, exit code 3"),
        (
            ReplicaChanged(**{**OF, "attempt": 1}, state=AppState.FAILED, signal="SIGKILL", msg="memory"),
            "[r/1] is FAILED, killed by SIGKILL (attempt 2): memory",
        ),
        (Progress(**OF, fraction=0.256, message="epoch 1"), "[r/1] progress 26%: epoch 1"),
        (Metric(**OF, name="loss", value=0.25, step=4), "[r/1] metric loss = 0.25 at step 4"),
        (Metric(**OF, name="loss", value=1.0, step=None), "[r/1] metric loss = 1"),
        (Result(**OF, value={"a": [1]}), '[r/1] result {"a": [1]}'),
    ],
)
def test_each_event_is_readable(event: AppEvent, shown: str) -> None:
    """Every event shows where it comes from and what happened, with the time at which it happened."""
    screen = Screen()
    log = RunLog(screen, str)
    log.write(event)
    log.flush()
    assert screen.records == [(logging.INFO, shown, 5.0)]


@pytest.mark.parametrize(
    ("size", "text"), [(7, "7 bytes of output lost: full"), (None, "some output lost: full")]
)
def test_lost_output_is_a_warning(size: int | None, text: str) -> None:
    """What is missing from the log stands out in it, after what came before."""
    screen = Screen()
    log = RunLog(screen, str)
    log.write(_lines("before"))
    log.write(LogsLost(**OF, size_bytes=size, reason="full"))
    assert screen.records == [(logging.INFO, "[r/1] before", 5.0), (logging.WARNING, f"[r/1] {text}", 5.0)]


def test_lines_of_all_replicas_share_records_in_their_order() -> None:
    """What is written within half a second is one record, with the time of its first line."""
    screen, clock = Screen(), FakeClock()
    log = RunLog(screen, str, clock)
    log.write(_lines("one", replica=0, time=5.0))
    log.write(_lines("two", replica=1, time=5.1))
    log.tick()
    assert screen.records == []
    clock.advance(MAX_WAIT_S)
    log.tick()
    assert screen.records == [(logging.INFO, "[r/0] one\n[r/1] two", 5.0)]


@pytest.mark.parametrize("char", ["a", "é", "😀", "\x1b", '"'])
def test_no_record_is_too_long_and_no_character_is_lost(char: str) -> None:
    """Many lines become several records, a line that no record can hold becomes several lines."""
    screen = Screen()
    log = RunLog(screen, str)
    texts = [char * 1000] * 50 + [char * 100_000]
    log.write(_lines(*texts))
    log.flush()
    assert max(len(json.dumps(text)) for text in screen.texts) <= 1.2 * MAX_RECORD_BYTES
    assert "".join(screen.texts).count(char) == sum(map(len, texts))


def test_a_hundred_thousand_lines_are_few_records() -> None:
    """The number of records, which is what Prefect's server is slow with, follows from the bytes."""
    screen = Screen()
    log = RunLog(screen, str)
    log.write(_lines(*("x" * 90 for _ in range(100_000))))
    log.flush()
    assert len(screen.records) < 600


def test_our_own_words_come_after_the_lines_before_them() -> None:
    """A message does not overtake lines that still wait for others."""
    screen = Screen()
    log = RunLog(screen, str)
    log.write(_lines("line"))
    log.say("message")
    assert screen.records == [(logging.INFO, "[r/1] line", 5.0), (logging.INFO, "message", None)]


def test_secrets_of_the_app_are_masked_wherever_they_appear() -> None:
    """The value of a variable that looks like a secret is shown neither in lines nor in messages."""
    app = app_of(
        "true", env={"API_TOKEN": "hunter2\nsecond", "DB_PASSWORD": "hunter2-and-more", "HOME": "/root"}
    )
    screen = Screen()
    log = RunLog(screen, make_mask(app))
    log.write(_lines("it is hunter2-and-more", "second thought in /root"))
    log.write(StateChanged(state=AppState.FAILED, time=5.0, msg="bad hunter2"))
    log.say("hunter2")
    assert screen.texts == ["[r/1] it is ***\n[r/1] *** thought in /root\napp is FAILED: bad ***", "***"]


def test_short_values_are_no_secrets() -> None:
    """Masking "1" would make every log unreadable."""
    assert make_mask(app_of("true", env={"USE_TOKEN": "1"}))("1 of 10") == "1 of 10"


def test_a_failure_leads_with_what_failed() -> None:
    """Then come the last lines of the replica that failed first, not of those stopped for its sake."""
    log = RunLog(Screen(), make_mask(app_of("true", env={"TOKEN": "hunter2"})))
    log.write(_lines(*(f"line {i}" for i in range(20)), "bad hunter2", replica=0))
    log.write(_lines("stopping", replica=1))
    ended = [
        ReplicaStatus(id=1, state=AppState.FAILED, role="r", hostname="", signal="SIGTERM", ended_at=2.0),
        ReplicaStatus(id=0, state=AppState.FAILED, role="r", hostname="", exit_code=3, ended_at=1.0),
    ]
    message = log.failure(AppStatus(state=AppState.FAILED, roles=[RoleStatus("r", ended)]), "local_cwd://s/a")
    assert message.splitlines() == [
        "replica r/0 failed with exit code 3; app is FAILED",
        "  also failed: r/1 (SIGTERM)",
        "  last lines of r/0:",
        *(f"    line {i}" for i in range(11, 20)),
        "    bad ***",
        "  app: local_cwd://s/a",
    ]
