"""A log in parts: the beginning and the latest part stay, and a reader can tell what went."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchx_core.schedulers.events import LogsLost
from torchx_core.schedulers.last_lines import read_last_lines
from torchx_core.schedulers.responses import Stream
from torchx_core.schedulers.slurm.cursor import ReplicaPlace
from torchx_core.schedulers.slurm.node.output import STDERR, STDOUT, Output
from torchx_core.schedulers.slurm.node.parts import COMBINED, INDEX, RECORD, parts_of
from torchx_core.schedulers.slurm.record import Planned
from torchx_core.schedulers.slurm.replica_log import latest_files, read_lines
from torchx_core.supervisor.reading import read_part

LIMIT = 64 << 10
_BUDGET = 4096


class _Replica:
    """What a task writes for a replica, attempt by attempt."""

    def __init__(self, log_dir: Path, limit: int | None = LIMIT) -> None:
        self.log_dir = log_dir
        self.printed: list[list[bytes]] = []
        self._limit = limit
        self._output: Output | None = None
        self.start()

    def start(self) -> None:
        """Begin the next attempt."""
        self.close()
        folder = self.log_dir / str(len(self.printed))
        folder.mkdir(parents=True)
        self.printed.append([])
        self._output = Output(str(folder), os.abort, self._limit)

    def print(self, stream: int, lines: int, width: int = 20) -> None:
        """Print numbered lines at once."""
        assert self._output is not None
        printed = self.printed[-1]
        fresh = [b"%06d" % (len(printed) + i) + b"x" * width for i in range(lines)]
        printed += fresh
        self._output.take(stream, b"".join(line + b"\n" for line in fresh))

    def close(self) -> None:
        """End the attempt."""
        if self._output is not None:
            self._output.close()
            self._output = None

    def size(self, pattern: str = "*") -> int:
        """Return what its files take."""
        return sum(path.stat().st_size for path in self.log_dir.rglob(pattern) if path.is_file())


class _Follower:
    """Reads as a feed does, whenever it is told to."""

    def __init__(self, replica: _Replica) -> None:
        self._planned = Planned("w", 0, str(replica.log_dir))
        self._place = ReplicaPlace()
        self.shown: dict[int, list[str]] = defaultdict(list)
        self.lost: dict[int, int] = defaultdict(int)
        self.size: dict[int, int] = defaultdict(int)

    def read(self, last_attempt: int) -> bool:
        """Take a step; return whether that was one."""
        attempt, before = self._place.attempt, self._place.runs
        for event in read_lines(
            self._planned, self._place, Stream.COMBINED, _BUDGET, in_parts=True, closed=False
        ):
            if isinstance(event, LogsLost):
                assert event.size_bytes
                assert event.reason == "over log_max_mb"
                self.lost[attempt] += event.size_bytes
            else:
                self.shown[attempt] += event.lines
                self.size[attempt] += sum(len(line) + 1 for line in event.lines)
        if self._place.runs == before and attempt < last_attempt:
            self._place = ReplicaPlace(attempt + 1)
            return True
        return self._place.runs != before

    def read_all(self, last_attempt: int) -> None:
        """Read until nothing is left."""
        while self.read(last_attempt):
            pass


def _is_part_of(shown: list[str], printed: list[bytes]) -> bool:
    """Return whether all of it was printed, in that order, each line once."""
    rest = iter(printed)
    return all(line.encode() in rest for line in shown)


@contextmanager
def _place_for(name: str) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix=name) as folder:
        yield Path(folder)


_STEPS = st.one_of(
    st.tuples(st.just("print"), st.sampled_from([STDOUT, STDERR]), st.integers(1, 300)),
    st.tuples(st.just("read"), st.integers(0, 1), st.integers(1, 5)),
    st.just(("start", 0, 0)),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(_STEPS, max_size=60))
def test_what_is_shown_and_what_is_told_as_lost_make_up_all_of_it(steps: list[tuple[str, int, int]]) -> None:
    """To the byte for each attempt, whenever one reads; what lies on disk stays within the limit."""
    with _place_for("parts") as folder:
        replica = _Replica(folder / "log")
        followers = [_Follower(replica), _Follower(replica)]
        for step, which, much in steps:
            last = len(replica.printed) - 1
            if step == "print":
                replica.print(which, much)
            elif step == "start":
                replica.start()
            else:
                for _ in range(much):
                    followers[which].read(last)
            assert replica.size() < 1.25 * LIMIT
        replica.close()
        for follower in [*followers, _Follower(replica)]:
            follower.read_all(len(replica.printed) - 1)
            for attempt, printed in enumerate(replica.printed):
                assert _is_part_of(follower.shown[attempt], printed)
                whole = sum(len(line) + 1 for line in printed)
                assert follower.size[attempt] + follower.lost[attempt] == whole


def test_the_beginning_and_the_latest_part_stay(tmp_path: Path) -> None:
    """Of the first and of the last attempt; a share of the limit is for each kind of file."""
    replica = _Replica(tmp_path / "log")
    for attempt in range(3):
        if attempt:
            replica.start()
        for i in range(400):
            replica.print((STDOUT, STDERR)[i % 2], 10)
    replica.close()
    follower = _Follower(replica)
    follower.read_all(2)
    first, last = follower.shown[0], follower.shown[2]
    assert [line.encode() for line in first] == replica.printed[0][: len(first)]
    assert [line.encode() for line in last] == replica.printed[2][-len(last) :]
    assert len(first) > LIMIT // 2 // 4 / 27 / 2
    assert len(last) > LIMIT // 2 // 2 / 27 / 2
    assert not follower.shown[1]
    assert follower.lost[1] == 4000 * 27
    assert [(end.offset, end.runs) for end in parts_of(str(tmp_path / "log" / "1"), INDEX)] == [
        (4000 * 27, 400)
    ]
    assert replica.size("index*") + replica.size("combined*") <= LIMIT // 2
    for name in ("stdout", "stderr"):
        assert LIMIT // 8 < replica.size(f"{name}*") <= LIMIT // 4


def test_whoever_keeps_up_misses_nothing(tmp_path: Path) -> None:
    """However much is printed."""
    replica = _Replica(tmp_path / "log")
    follower = _Follower(replica)
    for _ in range(200):
        replica.print(STDOUT, 100)
        follower.read(0)
    replica.close()
    follower.read_all(0)
    assert [line.encode() for line in follower.shown[0]] == replica.printed[0]
    assert not follower.lost
    assert replica.size() < LIMIT


def test_a_part_that_goes_while_it_is_read_is_read_no_further(tmp_path: Path) -> None:
    """Its index was there, its text is not: nothing is shown, nor told, before the names are read again."""
    replica = _Replica(tmp_path / "log")
    replica.print(STDOUT, 10)
    text = tmp_path / "log" / "0" / COMBINED
    text.rename(tmp_path / "away")
    follower = _Follower(replica)
    assert not follower.read(0)
    (tmp_path / "away").rename(text)
    follower.read_all(0)
    assert len(follower.shown[0]) == 10
    replica.close()


def test_the_last_lines_are_read_over_the_border_of_parts(tmp_path: Path) -> None:
    """They are what was printed last, also where the last part has but a few; none has lost its beginning."""
    replica = _Replica(tmp_path / "log")
    while len(parts_of(str(tmp_path / "log" / "0"), COMBINED)) < 6:
        replica.print(STDOUT, 3)
        replica.print(STDERR, 3)
    replica.close()
    lines = read_last_lines(str(tmp_path / "log" / "0"), latest_files)
    assert len(lines.both) > 300
    assert [line.encode() for line in lines.both] == replica.printed[0][-len(lines.both) :]
    assert len(lines.stderr) > 100
    assert {len(line) for line in lines.stderr} == {26}


def test_without_a_limit_a_log_is_one_file(tmp_path: Path) -> None:
    """Its names are those that earlier releases read."""
    replica = _Replica(tmp_path / "log", limit=None)
    for _ in range(100):
        replica.print(STDOUT, 1000)
    replica.close()
    names = {path.name for path in (tmp_path / "log" / "0").iterdir()}
    assert names == {"combined.log", "index", "stdout.log", "stderr.log"}


@pytest.mark.parametrize(
    "name", ["combined.log.x", "combined.log.1.2.3", "combined.log.", "combined.logs", "x.index"]
)
def test_other_files_are_no_parts(tmp_path: Path, name: str) -> None:
    """Whatever somebody puts there."""
    (tmp_path / name).touch()
    (tmp_path / COMBINED).touch()
    assert [part.path for part in parts_of(str(tmp_path), COMBINED)] == [str(tmp_path / COMBINED)]


def test_an_attempt_whose_task_died_is_counted_by_its_index(tmp_path: Path) -> None:
    """Text that no record tells of was never shown, and is not told as lost."""
    replica = _Replica(tmp_path / "log")
    replica.print(STDOUT, 1, width=LIMIT // 8)  # all of the beginning that is kept
    replica.start()
    replica.print(STDOUT, 10)
    with (tmp_path / "log" / "1" / COMBINED).open("ab") as file:
        file.write(b"torn")
    with (tmp_path / "log" / "1" / INDEX).open("ab") as file:
        file.write(b"torn")
    replica.start()
    for _ in range(100):
        replica.print(STDOUT, 100)
    replica.close()
    follower = _Follower(replica)
    follower.read_all(2)
    assert follower.lost[1] == 10 * 27
    (end,) = parts_of(str(tmp_path / "log" / "1"), INDEX)
    assert (end.offset, end.runs) == (10 * 27, 1)
    assert not read_part(end.path, 0, RECORD.size)
