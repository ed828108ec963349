"""Records, journal, timeline, reports, timers: what they promise whatever is on the disk."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.supervisor import machine, timeline
from torchx_core.supervisor.final import RESERVED, FinalRecord, read_final
from torchx_core.supervisor.journal import Appender, decode_event, encode_event, read_journal
from torchx_core.supervisor.loop import Timers
from torchx_core.supervisor.records import (
    LOOK,
    STOP,
    ordered_grace_s,
    read_json,
    stop_order,
    write_once,
)
from torchx_core.supervisor.reports import MAX_REPORT, BadReport, ReportPipe, parse_report
from torchx_core.testing import FakeClock

STATE = machine.State((machine.Replica("r", 0, "REPLICA", 1),), phase=machine.ENDED, outcome=machine.FAILED)


@pytest.mark.parametrize(
    ("orders", "grace_s"),
    [
        (stop_order(1.5), 1.5),
        (LOOK + stop_order(0) + LOOK, 0.0),
        (stop_order(600.0) + stop_order(1e-5), 1e-5),
        (stop_order(None), None),
        (LOOK, None),
        (b"S12", None),
        (STOP + b"what;", None),
    ],
)
def test_an_order_to_stop_may_name_a_grace_period(orders: bytes, grace_s: float | None) -> None:
    """The last order counts; one that is torn or somebody else's names none."""
    assert ordered_grace_s(orders) == grace_s


def test_a_record_is_written_once_by_one_of_many(tmp_path: Path) -> None:
    """Of sixteen threads that write a record one wins, the file is whole, and no temporary file is left."""
    wins: list[int] = []

    def write(number: int) -> None:
        if write_once(str(tmp_path), "record", {"by": number}):
            wins.append(number)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert read_json(str(tmp_path / "record")) == {"by": wins[0]}
    assert [p.name for p in tmp_path.iterdir()] == ["record"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"\0\0", b"null"])
def test_a_torn_record_reads_as_none(tmp_path: Path, content: bytes) -> None:
    """Reading never raises on what is in the file."""
    (tmp_path / "record").write_bytes(content)
    assert read_json(str(tmp_path / "record")) is None


def test_the_final_record_is_the_first_one_written(tmp_path: Path) -> None:
    """A second end of an app does not replace the first."""
    FinalRecord(str(tmp_path), 1).write(STATE)
    FinalRecord(str(tmp_path), 1).write(STATE._replace(outcome=machine.CANCELLED))
    assert read_final(str(tmp_path)) == STATE
    assert [p.name for p in tmp_path.iterdir()] == ["final.json"]


@pytest.mark.parametrize("what", ["a loop", "a folder", "a pipe", "a file"])
def test_the_final_record_is_written_though_something_lies_in_its_reserved_place(
    tmp_path: Path, what: str
) -> None:
    """Whoever put it there, just before the app ended: the app has ended, and its followers are told so."""
    record = FinalRecord(str(tmp_path), 1)
    place = tmp_path / RESERVED
    place.unlink()
    match what:
        case "a loop":
            place.symlink_to(place)
        case "a folder":
            place.mkdir()
        case "a pipe":
            os.mkfifo(place)
        case _:
            place.write_text("mine")
    assert record.write(STATE)
    assert read_final(str(tmp_path)) == STATE
    assert sorted(p.name for p in tmp_path.iterdir()) == [RESERVED, "final.json"]
    assert what != "a file" or place.read_text() == "mine"


EVENTS = st.one_of(
    st.builds(machine.Began, st.floats(0, 1e10), st.integers(1, 2**22)),
    st.builds(
        machine.Exited,
        st.floats(0, 1e10),
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(0, 255),
        st.none(),
        error=st.text(),
        max_rss_mb=st.integers(0, 2**20),
        cpu_s=st.floats(0, 1e6),
        msg=st.text(),
    ),
    st.builds(machine.StopAsked, st.floats(0, 1e10), st.just("cancelled"), st.text(), st.floats(0, 100)),
    st.builds(machine.Lost, st.floats(0, 1e10), st.text()),
)


@given(EVENTS)
def test_events_survive_the_journal(event: machine.Event) -> None:
    """Every event reads back as it was written, on one line."""
    line = encode_event(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_event(line) == event


@given(st.lists(EVENTS, max_size=5), st.binary(max_size=60))
def test_whatever_follows_the_whole_lines_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, events: list[machine.Event], tail: bytes
) -> None:
    """A journal that ends in garbage without a newline tells what it told before."""
    path = tmp_path_factory.mktemp("journal") / "journal"
    path.write_bytes(b"".join(map(encode_event, events)) + tail.replace(b"\n", b""))
    assert list(read_journal(str(path))) == events


def test_an_appender_waits_for_what_it_speaks_of(tmp_path: Path) -> None:
    """On a full disk a line is not written before the line that it points at; then both are, in order."""
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    first, second = Appender(str(full)), Appender(str(tmp_path / "second"), after=[])
    waiting = Appender(str(tmp_path / "waiting"), after=[first, second])
    first.append(b"text")
    waiting.append(b"pointer")
    assert first.blocked
    assert waiting.blocked
    assert (tmp_path / "waiting").read_bytes() == b""
    for file in (first, second, waiting):
        file.close()


@given(
    st.lists(
        st.builds(
            timeline.Entry,
            st.integers(0, 2**63),
            st.integers(0, 2**63),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**16 - 1),
            st.integers(1, 255),
            st.integers(0, 255),
        )
    )
)
def test_timeline_records_survive(entries: list[timeline.Entry]) -> None:
    """Records read back as written, and so do zeros, as after a power cut; a torn one is left out."""
    data = b"".join(map(timeline.pack, entries))
    assert [timeline.Entry(*fields[:7]) for fields in timeline.rows_of(data + b"x")] == entries
    zeros = list(timeline.rows_of(data + bytes(timeline.SIZE * 2)))[len(entries) :]
    assert zeros == [(0,) * 8] * 2


def test_report_pipe_joins_what_arrives_in_pieces(tmp_path: Path) -> None:
    """A line that comes in two writes is one report; one without a newline is read at the end."""
    pipe = ReportPipe(str(tmp_path / "pipe"))
    with (tmp_path / "pipe").open("ab", buffering=0) as file:
        file.write(b'{"type":')
        assert pipe.read() == []
        file.write(b'"result"}\nrest')
        assert pipe.read() == [b'{"type":"result"}']
    assert pipe.read_all() == [b"rest"]
    pipe.pipe.close()
    pipe.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "report"),
    [
        ('{"type":"progress","fraction":1}', {"type": "progress", "fraction": 1.0, "message": ""}),
        (
            '{"type":"metric","name":"a","value":2}',
            {"type": "metric", "name": "a", "value": 2.0, "step": None},
        ),
        ('{"type":"result","value":[1,null]}', {"type": "result", "value": [1, None]}),
    ],
)
def test_good_reports(line: str, report: dict[str, object]) -> None:
    """Reports come out with every field."""
    assert parse_report(line.encode()) == report


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "not JSON"),
        ("3", "not a JSON object"),
        ("{}", "type must be"),
        ('{"type":"progress","fraction":"half"}', "fraction must be a number"),
        ('{"type":"metric","name":"a","value":true}', "value must be a number"),
        ('{"type":"metric","name":"a","value":1,"step":1.5}', "step must be a whole number"),
        ('{"type":"result","value":"' + "x" * MAX_REPORT + '"}', "longer than"),
    ],
)
def test_bad_reports(line: str, problem: str) -> None:
    """A line that is no report says why."""
    with pytest.raises(BadReport, match=problem):
        parse_report(line.encode())


def test_timers() -> None:
    """A timer comes up once, when it is due; setting it again moves it; dropping it ends it."""
    clock = FakeClock()
    timers = Timers(clock)
    seen: list[str] = []
    timers.set("a", 5, lambda: seen.append("a"))
    timers.set("b", 2, lambda: seen.append("b"))
    timers.set("c", 1, lambda: seen.append("c"))
    timers.set("a", 3, lambda: seen.append("a again"))
    timers.drop("c")
    assert timers.left() == 2
    clock.advance(2.5)
    for due in timers.due():
        due()
    clock.advance(10)
    for due in timers.due():
        due()
    assert seen == ["b", "a again"]
    assert timers.left() == float("inf")
    assert json.dumps(seen)
