"""What a sink that fails, hangs or is slow does to the program: nothing."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from torchx_core.sinks import writer as writer_module
from torchx_core.sinks.entries import Entry, Point
from torchx_core.sinks.writer import Writer
from torchx_core.testing import wait_until

Start: TypeAlias = Callable[[], Writer]
Warned: TypeAlias = list[warnings.WarningMessage]


class Recorder:
    """A sink in memory; keeps the contract of `torchx_core.sinks.sink.Sink`, and fails when it is told to."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.opened = 0
        self.closed: list[bool] = []
        self.before: Callable[[str], None] = lambda _: None
        """Called with the name of what is about to be done."""

    def open(self) -> str:
        self.before("open")
        self.opened += 1
        return "/where"

    def write(self, entries: Sequence[Entry]) -> None:
        self.before("write")
        self.entries += entries

    def close(self, *, failed: bool) -> None:
        self.before("close")
        self.closed.append(failed)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short; what a slow host may take stays long."""
    monkeypatch.setattr(writer_module, "INTERVAL_S", 0.01)
    monkeypatch.setattr(writer_module, "LONGEST_PAUSE_S", 0.02)


@pytest.fixture
def sink() -> Recorder:
    """The sink."""
    return Recorder()


@pytest.fixture
def told() -> list[str]:
    """Where the sink said that it writes to."""
    return []


@pytest.fixture
def warned() -> Iterator[Warned]:
    """The warnings of all threads."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@pytest.fixture
def start(sink: Recorder, told: list[str]) -> Iterator[Start]:
    """Starts a writer to the sink, whose thread ends with the test."""
    made: list[Writer] = []

    def make() -> Writer:
        made.append(Writer("fake:x", sink, told.append))
        return made[-1]

    yield make
    sink.before = lambda _: None
    for writer in made:
        writer.close(failed=False)


def points(count: int, start: int = 0) -> list[Entry]:
    """Return some entries."""
    return [Point("loss", float(i), i, 0.0) for i in range(start, start + count)]


def test_everything_arrives_in_order(start: Start, sink: Recorder, told: list[str]) -> None:
    """Also what is reported last, and more at once than a client takes."""
    writer = start()
    for first in range(0, 5000, 100):
        writer.take(points(100, first))
    writer.close(failed=False)
    assert (sink.entries, sink.closed, told) == (points(5000), [False], ["/where"])


def test_a_failed_program_is_told(start: Start, sink: Recorder) -> None:
    """As far as the process knows."""
    start().close(failed=True)
    assert sink.closed == [True]


@pytest.mark.parametrize("what", ["open", "write"])
def test_what_a_failing_sink_has_not_taken_waits(
    start: Start, sink: Recorder, warned: Warned, what: str
) -> None:
    """It is said once, and all arrives once the sink works again."""
    failures: list[str] = []

    def fail(doing: str) -> None:
        if doing == what and len(failures) < 3:
            failures.append(doing)
            raise ConnectionRefusedError("nobody there\nat all")

    sink.before = fail
    writer = start()
    writer.take(points(3))
    wait_until(lambda: sink.entries == points(3), 60)
    writer.close(failed=False)
    assert [str(warning.message) for warning in warned] == [
        "metric sink fake:x: ConnectionRefusedError: nobody there; values wait, and it is tried again"
    ]
    assert (sink.entries, sink.closed) == (points(3), [False])


def test_a_sink_that_stays_away_is_given_up(start: Start, sink: Recorder, warned: Warned) -> None:
    """The program ends, and says how much nobody has."""

    def fail(_: str) -> None:
        raise OSError("away")

    sink.before = fail
    writer = start()
    writer.take(points(7))
    wait_until(lambda: len(warned) == 1, 60)
    writer.close(failed=False)
    assert str(warned[-1].message) == "metric sink fake:x: 7 values were not delivered"


def test_a_sink_that_hangs_holds_up_nobody(
    start: Start, sink: Recorder, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports return at once; after a while it is said; at the end it is given up."""
    monkeypatch.setattr(writer_module, "PATIENCE_S", 0.1)
    release, hanging = threading.Event(), threading.Event()

    def hang(doing: str) -> None:
        if doing == "write":
            hanging.set()
            release.wait(60)

    def is_said() -> bool:
        writer.take(points(1))
        return len(warned) == 1

    sink.before = hang
    writer = start()
    writer.take(points(1))
    assert hanging.wait(60)
    wait_until(is_said, 60)
    writer.close(failed=False)
    release.set()
    assert "it has not answered for 0.1 s" in str(warned[0].message)
    assert "values were not delivered" in str(warned[-1].message)


def test_a_sink_that_fails_fills_no_memory(
    start: Start, sink: Recorder, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number the rest is left out, and counted."""
    monkeypatch.setattr(writer_module, "MOST_WAITING", 10)

    def fail(_: str) -> None:
        raise OSError("away")

    sink.before = fail
    writer = start()
    wait_until(lambda: len(warned) == 1, 60)
    for number in range(20):
        writer.take(points(1, number))
    sink.before = lambda _: None
    writer.close(failed=False)
    assert sink.entries == points(10)
    assert str(warned[-1].message) == "metric sink fake:x: 10 values were not delivered"


def test_where_warnings_are_errors_none_is_raised(
    start: Start, sink: Recorder, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would end the training loop, or the thread that writes."""
    failures: list[str] = []

    def fail(doing: str) -> None:
        if not failures:
            failures.append(doing)
            raise OSError("away")

    sink.before = fail
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = start()
        writer.take(points(2))
        writer.close(failed=False)
    assert sink.entries == points(2)
    assert "metric sink fake:x: OSError: away" in capfd.readouterr().err
