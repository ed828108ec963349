"""One replica's log, read from an engine whose answers end anywhere: nothing repeated, nothing lost."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_engine import LogEngine

from torchx_core.schedulers.docker.cursor import AppPlace, ReplicaPlace, decode_cursor, encode_cursor
from torchx_core.schedulers.docker.frames import STDERR, STDOUT, Record
from torchx_core.schedulers.docker.lines import LogPlace, Run
from torchx_core.schedulers.docker.log import ReplicaLog
from torchx_core.schedulers.docker.notifier import wait_for
from torchx_core.schedulers.docker.shim import MARKER_PREFIX
from torchx_core.schedulers.responses import Stream

KEY = "0123456789ab"
FULL = b"x" * (1 << 14)
"""What the engine stores of a long line at a time."""
STEPS_NS = (0, 0, 1, 2_000_000, 300_000_000, -50_000)
"""From one line's time to the next one's; two streams may overtake each other."""

MOST_STEPS = 2000

Line = tuple[int, int, bytes, bool]
"""Stream, attempt, text, whether it ended with a newline."""


@pytest.fixture(scope="module")
def log_engine() -> Iterator[LogEngine]:
    """An engine whose log each test chooses."""
    with tempfile.TemporaryDirectory() as folder, LogEngine(Path(folder) / "s") as engine:
        yield engine


class Log:
    """What a container prints, as lines and as the records that the engine keeps of them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.lines: list[Line] = []
        self._times = {-1}
        self._ns = 40_000 * 10**9

    def print(self, stream: int, attempt: int, full: int, text: bytes, step_ns: int) -> None:
        """Add a line, of so many full records and a short one."""
        for part in [FULL] * full + [text + b"\n"]:
            self.records.append(Record(stream, self._stamp(step_ns), part))
            step_ns = 0
        self.lines.append((stream, attempt, FULL * full + text, True))

    def begin(self, attempt: int) -> None:
        """Add the markers of an attempt."""
        marker = MARKER_PREFIX + f"{KEY}:{attempt}\n".encode()
        self.records += [Record(s, self._stamp(1), marker) for s in (STDOUT, STDERR)]

    def _stamp(self, step_ns: int) -> bytes:
        self._ns += step_ns
        while step_ns and self._ns in self._times:
            self._ns += 1  # no moment comes twice
        self._times.add(self._ns)
        seconds, ns = divmod(self._ns, 10**9)
        return b"2026-11-21T%02d:%02d:%02d.%09dZ" % (seconds // 3600, seconds // 60 % 60, seconds % 60, ns)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw what a container prints in one or two attempts."""
    log = Log()
    lines = st.tuples(
        st.sampled_from([STDOUT, STDOUT, STDERR]),
        st.sampled_from([0, 0, 0, 0, 1, 2]),
        st.sampled_from([b"", b"a", b"bb"]),
        st.sampled_from(STEPS_NS),
    )
    for attempt in range(draw(st.integers(1, 2))):
        log.begin(attempt)
        for stream, full, text, step_ns in draw(st.lists(lines, max_size=12)):
            log.print(stream, attempt, full, text, step_ns)
    return log


def read(
    engine: LogEngine, log: Log, cuts: Sequence[int], *, ahead: int, leave_after: int, streams: Stream
) -> list[Line]:
    """Read to the end, taking a little at a time; begin anew from the cursor after so many takes."""
    engine.records, engine.cuts, engine.printed, engine.ahead = log.records, list(cuts), 0, ahead
    found: list[Line] = []
    place = LogPlace()
    while True:
        reader = ReplicaLog(engine.endpoint, "1.41", container="c", key=KEY, streams=streams, place=place)
        for run in _some(reader, engine, leave_after):
            found += [(run.stream, run.attempt, line, run.eol) for line in run.lines]
        assert reader.lost == []
        reader.close()
        if reader.drained:
            return found
        cursor = encode_cursor("n", AppPlace(replicas={0: ReplicaPlace(log=reader.place)}))
        place = decode_cursor(cursor, "n").replicas[0].log


@pytest.mark.parametrize("status", [200, 500, 502, 503])
def test_an_engine_in_trouble_loses_no_line(log_engine: LogEngine, status: int) -> None:
    """A log that an engine, or a proxy before it, refuses for a while is read once it answers."""
    log = Log()
    log.begin(0)
    for number in range(5):
        log.print(STDOUT, 0, 0, b"%d" % number, 1)
    log_engine.refusals = [status] * (1 if status == 200 else 30)
    assert read(log_engine, log, [], ahead=9, leave_after=-1, streams=Stream.COMBINED) == log.lines
    assert log_engine.refusals == []
    log_engine.idle.wait()


def test_an_attempt_of_which_the_log_has_nothing_is_told_as_lost(log_engine: LogEngine) -> None:
    """An engine that was killed while the attempt ended has no record of it, only of the next one."""
    log = Log()
    log.begin(1)
    log.print(STDOUT, 1, 0, b"the second attempt", 1)
    log_engine.records, log_engine.printed, log_engine.ahead = log.records, 0, 9
    reader = ReplicaLog(
        log_engine.endpoint, "1.41", container="c", key=KEY, streams=Stream.COMBINED, place=LogPlace()
    )
    assert [run.lines for run in _some(reader, log_engine, -1)] == [[b"the second attempt"]]
    reader.close()
    assert reader.lost == ["the engine has dropped the beginning of the log"]
    log_engine.idle.wait()


@pytest.mark.parametrize(("status", "refusals"), [(500, 99), (501, 1), (400, 1)])
def test_a_log_that_cannot_be_read_is_told_as_lost(log_engine: LogEngine, status: int, refusals: int) -> None:
    """What the engine never says is not waited for: its log driver keeps nothing, or it stays in trouble."""
    log_engine.records, log_engine.refusals = [], [status] * refusals
    reader = ReplicaLog(
        log_engine.endpoint, "1.41", container="c", key=KEY, streams=Stream.COMBINED, place=LogPlace()
    )
    assert list(_some(reader, log_engine, -1)) == []
    reader.close()
    log_engine.refusals = []
    assert reader.lost == ["no log to read: no"]
    log_engine.idle.wait()


def _some(reader: ReplicaLog, engine: LogEngine, takes: int) -> Iterator[Run]:
    """Drive the reader as a feed does; stop after so many takes that gave something."""
    reader.mind(up=engine.up, starts=1)
    now = 0.0
    for _ in range(MOST_STEPS):
        if reader.drained or not takes:
            return
        reader.advance(now)
        runs = reader.take(99, 40_000)
        takes -= bool(runs)
        yield from runs
        if reader.wants_look:
            reader.wants_look = False
            reader.mind(up=engine.up, starts=1)
        if reader.exchange is not None:
            wait_for([reader.exchange], 1.0)
        now = max(now, reader.due_at)
    pytest.fail("the reader comes to no end")


def expected(log: Log, streams: Stream) -> dict[int, list[Line]]:
    """Return the lines of each stream that is read."""
    wanted = {Stream.STDOUT: [STDOUT], Stream.STDERR: [STDERR], Stream.COMBINED: [STDOUT, STDERR]}[streams]
    return {s: [line for line in log.lines if line[0] == s] for s in wanted}


def by_stream(found: list[Line], streams: Stream) -> dict[int, list[Line]]:
    """Sort what was read."""
    return {s: [line for line in found if line[0] == s] for s in expected(Log(), streams)}


cuts = st.lists(st.integers(0, 60) | st.integers(0, 1500) | st.integers(0, 60_000), max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    log=logs(),
    cuts=cuts,
    ahead=st.integers(0, 9),
    leave_after=st.sampled_from([1, 2, 1000]),
    streams=st.sampled_from(Stream),
)
def test_each_line_arrives_once(
    log_engine: LogEngine, log: Log, cuts: list[int], ahead: int, leave_after: int, streams: Stream
) -> None:
    """Wherever the engine's answers end, and wherever the reader leaves and comes back."""
    found = read(log_engine, log, cuts, ahead=ahead, leave_after=leave_after, streams=streams)
    assert by_stream(found, streams) == expected(log, streams)


@pytest.mark.parametrize("leave_after", [1, 1000])
def test_a_cut_at_every_byte(log_engine: LogEngine, leave_after: int) -> None:
    """A frame's header, a time or a marker may be cut, in the stream and in what is read again."""
    log = Log()
    log.begin(0)
    for i in range(4):
        log.print(STDOUT, 0, 0, b"%d" % i, 0)
        log.print(STDERR, 0, 0, b"e", 5)
    size = sum(8 + 31 + len(record.data) for record in log.records)
    for cut in range(size + 1):
        found = read(
            log_engine, log, [300, cut, cut], ahead=3, leave_after=leave_after, streams=Stream.COMBINED
        )
        assert by_stream(found, Stream.COMBINED) == expected(log, Stream.COMBINED)


@pytest.mark.parametrize("moment", range(12))
def test_the_end_may_be_told_during_any_request(log_engine: LogEngine, moment: int) -> None:
    """Whoever is told once, for good, that the container is down reads to the end of its log."""
    log = Log()
    log.begin(0)
    log.print(STDOUT, 0, 0, b"a", 1)
    log_engine.records, log_engine.cuts, log_engine.printed, log_engine.ahead = log.records, [], 3, 0
    reader = ReplicaLog(
        log_engine.endpoint, "1.41", container="c", key=KEY, streams=Stream.COMBINED, place=LogPlace()
    )
    now, found = 0.0, list[Run]()
    for request in range(MOST_STEPS):
        if request <= moment:
            reader.mind(up=True, starts=1)
        log_engine.answers.clear()
        reader.advance(now)
        if request == moment:
            reader.mind(up=False, starts=1)
        log_engine.answers.set()
        while reader.exchange is not None:
            wait_for([reader.exchange], 1.0)
            reader.advance(now)
            found += reader.take(99, 40_000)
        if reader.drained:
            break
        now = max(now, reader.due_at)
    reader.close()
    assert (reader.drained, [run.lines for run in found if run.lines]) == (True, [[b"a"]])


def test_a_line_longer_than_what_may_be_taken_comes_whole(log_engine: LogEngine) -> None:
    """A take that gives nothing leaves something to wait for: else a feed with small batches never ends."""
    log = Log()
    log.begin(0)
    log.print(STDOUT, 0, 3, b"end", 1)
    log_engine.records, log_engine.cuts, log_engine.printed, log_engine.ahead = log.records, [], 6, 0
    reader = ReplicaLog(
        log_engine.endpoint, "1.41", container="c", key=KEY, streams=Stream.COMBINED, place=LogPlace()
    )
    reader.mind(up=False, starts=1)
    runs = list[Run]()
    while not any(run.lines for run in runs):
        reader.advance(0.0)
        runs = reader.take(99, 1000)
        if not runs:
            assert reader.exchange is not None or reader.waits_for_time
            wait_for([reader.exchange] if reader.exchange else [], 1.0)
    reader.close()
    assert [run.lines for run in runs] == [[FULL * 3 + b"end"]]
