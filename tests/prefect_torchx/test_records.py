from __future__ import annotations

import json
import logging
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from prefect_torchx.position import START, Position, Shown
from prefect_torchx.records import (
    CATCH_UP_S,
    MAX_LEVELS,
    MAX_RECORD_BYTES,
    MAX_TIMES,
    MAX_WAIT_S,
    Record,
    Records,
)
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
from torchx_core.specs import AppState
from torchx_core.testing import FakeClock

OF: dict[str, Any] = {"role": "r", "replica": 1, "attempt": 0, "time": 5.0}


def _lines(*texts: str, replica: int = 1, time: float = 5.0) -> LogLines:
    return LogLines("r", replica, 0, "stdout", texts, time)


def _records_of(*events: AppEvent) -> list[Record]:
    """Return what these events are shown as."""
    got: list[Record] = []
    records = Records(got.append, str)
    for event in events:
        records.write(event)
    records.flush()
    return got


@pytest.mark.parametrize(
    ("event", "shown", "level"),
    [
        (_lines("one"), "[r/1] one", "INFO"),
        (_lines("one", "", "two"), "[r/1] one\n[r/1] \n[r/1] two", "INFO"),
        (_lines("10 %\r50 %\r99 %"), "[r/1] 99 %", "INFO"),
        (_lines("100 %s {x}"), "[r/1] 100 %s {x}", "INFO"),
        (_lines("\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J"), "[r/1] \x1b[31mred\x1b[0m", "INFO"),
        (Progress(**OF, fraction=0.5, message="\x1b[2Jhalf"), "[r/1] progress 50%: half", "INFO"),
        (_lines("WARNING disk"), "[r/1] WARNING disk", "WARNING"),
        (
            _lines("E1121 10:00:00.123456 7 file.cc:12] x"),
            "[r/1] E1121 10:00:00.123456 7 file.cc:12] x",
            "ERROR",
        ),
        (_lines("DEBUG x"), "[r/1] DEBUG x", "DEBUG"),
        (StateChanged(state=AppState.RUNNING, time=5.0), "app is RUNNING", "INFO"),
        (StateChanged(state=AppState.CANCELLED, time=5.0, msg="why"), "app is CANCELLED: why", "WARNING"),
        (ReplicaChanged(**OF, state=AppState.FAILED, exit_code=3), "[r/1] is FAILED, exit code 3", "ERROR"),
        (
            ReplicaChanged(**{**OF, "attempt": 1}, state=AppState.FAILED, signal="SIGKILL", msg="memory"),
            "[r/1] is FAILED, killed by SIGKILL (attempt 2): memory",
            "ERROR",
        ),
        (Progress(**OF, fraction=0.256, message="epoch 1"), "[r/1] progress 26%: epoch 1", "INFO"),
        (Metric(**OF, name="loss", value=0.25, step=4), "[r/1] metric loss = 0.25 at step 4", "INFO"),
        (Result(**OF, value={"a": [1]}), '[r/1] result {"a": [1]}', "INFO"),
        (LogsLost(**OF, size_bytes=7, reason="full"), "[r/1] 7 bytes of output lost: full", "WARNING"),
    ],
)
def test_each_event_is_readable(event: AppEvent, shown: str, level: str) -> None:
    """Every event shows where it comes from, what happened, how bad that is, and when it happened."""
    [record] = _records_of(event)
    assert (record.text, logging.getLevelName(record.level), record.time) == (shown, level, 5.0)


def test_each_replica_has_records_of_its_own() -> None:
    """A record is one replica's, which may have a logger of its own, and counts its lines."""
    got = _records_of(
        _lines("one", replica=0), _lines("two", replica=1, time=5.1), _lines("three", replica=0)
    )
    assert got == [
        Record(logging.INFO, "[r/0] one\n[r/0] three", 5.0, "r.0", 2),
        Record(logging.INFO, "[r/1] two", 5.1, "r.1", 1),
    ]


def test_lines_wait_for_others_half_a_second() -> None:
    """What is written within that time is one record, with the time of its first line."""
    got: list[Record] = []
    clock = FakeClock()
    records = Records(got.append, str, clock)
    records.write(_lines("one"))
    assert not records.tick()
    clock.advance(MAX_WAIT_S)
    records.write(_lines("two", time=5.4))
    assert records.tick()
    assert [(record.text, record.time) for record in got] == [("[r/1] one\n[r/1] two", 5.0)]
    assert not records.tick()


def test_lines_of_many_replicas_wait_longer() -> None:
    """A thousand replicas that write all the time are 200 records a second, which Prefect's server takes."""
    got: list[Record] = []
    clock = FakeClock()
    records = Records(got.append, str, clock)
    for _ in range(10):
        for replica in range(1000):
            records.write(_lines("x", replica=replica))
        clock.advance(1.0)
        records.tick()
    assert len(got) == 2000


def test_levels_have_records_of_their_own() -> None:
    """One can look at errors alone."""
    got = _records_of(_lines("a", "b", "ERROR c", "d"))
    assert [(record.level, record.lines) for record in got] == [(20, 2), (40, 1), (20, 1)]


def test_each_record_has_the_time_of_its_first_line() -> None:
    """Prefect's page shows an error behind what a peer had said before it, also where both came at once."""
    got = _records_of(
        _lines("a", replica=1, time=1.0),
        _lines("b", replica=0, time=2.0),
        _lines("ERROR c", replica=1, time=3.0),
    )
    by_time = sorted(got, key=lambda record: record.time or 0.0)
    assert [(record.text, record.time) for record in by_time] == [
        ("[r/1] a", 1.0),
        ("[r/0] b", 2.0),
        ("[r/1] ERROR c", 3.0),
    ]


def test_a_program_that_alternates_between_levels_costs_few_records() -> None:
    """Lines whose level changes all the time share the highest: nothing is slow, nothing bad is hidden."""
    got = _records_of(_lines(*["x", "WARNING y"] * MAX_LEVELS))
    assert [(record.level, record.lines) for record in got] == [(30, 2 * MAX_LEVELS)]


def test_records_of_a_replica_never_share_a_time() -> None:
    """Prefect sorts by time, in microseconds: what was written at once must not change places."""
    got = _records_of(*(_lines("x", "ERROR y") for _ in range(3)), _lines("z", time=4.0))
    times = [record.time or 0.0 for record in got]
    assert all(after - before >= 1e-6 for before, after in pairwise(times))


@pytest.mark.parametrize("char", ["a", "é", "😀", "\u2028", '"'])
def test_no_record_is_too_long_and_no_character_is_lost(char: str) -> None:
    """Many lines become several records, a line that no record can hold becomes several lines."""
    texts = [char * 1000] * 50 + [char * 100_000]
    got = _records_of(_lines(*texts))
    assert max(len(json.dumps(record.text)) for record in got) <= 1.2 * MAX_RECORD_BYTES
    assert "".join(record.text for record in got).count(char) == sum(map(len, texts))


def test_a_hundred_thousand_lines_are_few_records() -> None:
    """The number of records, which is what Prefect's server is slow with, follows from the bytes."""
    assert len(_records_of(_lines(*("x" * 90 for _ in range(100_000))))) < 600


def test_our_own_words_come_after_the_lines_before_them() -> None:
    """A message does not overtake lines that still wait for others, and it is masked."""
    got: list[Record] = []
    records = Records(got.append, lambda text: text.replace("secret", "***"))
    records.write(_lines("line"))
    records.say("message, secret")
    assert [record.text for record in got] == ["[r/1] line", "message, ***"]


def test_secrets_are_masked_in_lines_and_in_what_happened() -> None:
    """Wherever the backend quotes them."""
    got: list[Record] = []
    records = Records(got.append, lambda text: text.replace("secret", "***"))
    records.write(_lines("a secret"))
    records.write(StateChanged(state=AppState.FAILED, time=5.0, msg="secret"))
    assert [record.text for record in got] == ["[r/1] a ***", "app is FAILED: ***"]


def test_reports_are_shown_once_a_second() -> None:
    """Of each replica's progress and metrics the latest; all of them are in the pictures."""
    got: list[Record] = []
    clock = FakeClock()
    records = Records(got.append, str, clock)
    for step in range(100):
        records.write(Metric(**OF, name="loss", value=float(step), step=step))
        records.write(Metric(**OF, name="rate", value=1.0, step=None))
        records.write(Progress(**OF, fraction=step / 100, message=""))
        records.tick()
        clock.advance(0.021)
    records.end()
    lines = [line for record in got for line in record.text.splitlines()]
    assert [line for line in lines if "loss" in line] == [
        f"[r/1] metric loss = {step} at step {step}" for step in (0, 48, 96, 99)
    ]
    assert [line for line in lines if "progress" in line][-1] == "[r/1] progress 99%"
    assert len(lines) == 10


def _go_on(shown: dict[str, Shown], *events: AppEvent) -> list[Record]:
    """Return what is shown of events of which the log has some already."""
    got: list[Record] = []
    records = Records(got.append, str)
    records.go_on(replace(START, after=shown))
    for event in events:
        records.write(event)
    records.end()
    return got


def test_lines_that_the_log_has_are_left_out() -> None:
    """Of each replica as many as are there, however they were cut into records; equal ones too."""
    has = {"r.0": Shown(7.0, ("[r/0] a", "[r/0] a")), "r.1": Shown(8.0, ("[r/1] x",))}
    got = _go_on(has, _lines("a", replica=0), _lines("x", "y"), _lines("a", "a", "b", replica=0))
    assert [record.text for record in got] == ["[r/0] a\n[r/0] b", "[r/1] y"]


def test_what_comes_after_them_is_later() -> None:
    """Records of a replica never share a time, those of an earlier process included."""
    [record] = _go_on({"r.1": Shown(8.0, ("[r/1] x",))}, _lines("x", "y", time=5.0))
    assert record.time is not None
    assert record.time > 8.0


def test_from_the_first_difference_on_everything_is_shown() -> None:
    """What is there was perhaps not written by this app: a line that comes twice is better than one lost."""
    got = _go_on({"r.1": Shown(5.0, ("[r/1] a", "[r/1] b", "[r/1] c"))}, _lines("a", "other", "b", "c"))
    assert [record.text for record in got] == ["[r/1] other\n[r/1] b\n[r/1] c"]


def test_events_and_reports_that_the_log_has_are_left_out() -> None:
    """Reports are shown by the clock, so of those any that is there; a line that reads like one is a line."""
    has = {
        "": Shown(5.0, ("app is RUNNING",)),
        "r.1": Shown(5.0, ("[r/1] is RUNNING",)),
        "r.1.reports": Shown(5.0, ("[r/1] progress 10%", "[r/1] progress 30%")),
    }
    got = _go_on(
        has,
        StateChanged(state=AppState.RUNNING, time=5.0),
        ReplicaChanged(**OF, state=AppState.RUNNING),
        Progress(**OF, fraction=0.3, message=""),
        _lines("progress 30%"),
    )
    assert [(record.source, record.text) for record in got] == [("r.1", "[r/1] progress 30%")]


def test_a_report_is_left_out_once() -> None:
    """A metric that stays the same is reported again, and that report the log has not."""
    clock = FakeClock()
    got: list[Record] = []
    records = Records(got.append, str, clock)
    records.go_on(replace(START, after={"r.1.reports": Shown(5.0, ("[r/1] metric loss = 1",))}))
    for _ in range(2):
        records.write(Metric(**OF, name="loss", value=1.0, step=None))
        clock.advance(1.1)
    records.end()
    assert [record.text for record in got] == ["[r/1] metric loss = 1"]


def test_a_result_has_no_place_among_the_lines() -> None:
    """A result is left out wherever it comes again; so is a message of several lines, all of it."""
    has = {
        "": Shown(5.0, ("app is CANCELLED: one", "two")),
        "r.1": Shown(5.0, ("[r/1] a", "[r/1] b")),
        "r.1.results": Shown(5.0, ("[r/1] result 1",)),
    }
    cancelled = StateChanged(state=AppState.CANCELLED, time=5.0, msg="one\ntwo")
    assert _go_on(has, _lines("a"), Result(**OF, value=1), _lines("b"), cancelled) == []


def test_the_next_app_has_all_its_lines() -> None:
    """What the log has is one app's; what was taken of that one is shown before the next."""
    got: list[Record] = []
    records = Records(got.append, str)
    records.go_on(replace(START, after={"r.1": Shown(5.0, ("[r/1] a", "[r/1] b"))}))
    records.write(_lines("a", "b", "c"))
    records.go_on(None)
    records.write(_lines("a"))
    records.flush()
    assert [record.text for record in got] == ["[r/1] c", "[r/1] a"]


def test_it_is_known_when_each_source_wrote_last() -> None:
    """Of as many as can be saved every second, the latest; of those before the place too."""
    records = Records(lambda _: None, str)
    records.go_on(Position(cursor="c", shown_bytes=0, times={"r.1": 4.0, "old.0": 3.0}))
    records.write(_lines("a"))
    records.flush()
    assert records.times == {"r.1": 5.0, "old.0": 3.0}
    for replica in range(MAX_TIMES):
        records.write(_lines("a", replica=replica, time=6.0 + replica))
    records.flush()
    assert len(records.times) == MAX_TIMES
    assert "old.0" not in records.times


def test_it_catches_up_until_the_lines_have_come_that_the_log_has() -> None:
    """Reports may never come again; nor may lines that are of something else: those have a minute to come."""
    clock = FakeClock()
    records = Records(lambda _: None, str, clock)
    has = {"r.1": Shown(5.0, ("[r/1] a", "[r/1] b")), "r.1.reports": Shown(5.0, ("[r/1] progress 10%",))}
    records.go_on(replace(START, after=has))
    seen = []
    for text in ("a", "b"):
        records.write(_lines(text))
        seen.append(records.catching_up)
    records.go_on(replace(START, after=has))
    clock.advance(CATCH_UP_S + 1)
    assert [*seen, records.catching_up] == [True, False, False]
