"""A log with a limit keeps its beginning and its latest part, and says whose lines went, and how much."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_apps import app_of, wait_until_unserved

from torchx_core import AppDef, Role, Runner
from torchx_core.errors import CorruptRecordError, InvalidInputError, InvalidRunConfigException
from torchx_core.schedulers import AppEvent, Batch, FollowOptions, LogLines, LogsLost
from torchx_core.schedulers.local.reader import TimelineReader
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.timeline_file import TimelineFile
from torchx_core.schedulers.removing import tree_size
from torchx_core.specs import AppHandle, RetryPolicy
from torchx_core.supervisor import log_limit, timeline
from torchx_core.supervisor.journal import Appender
from torchx_core.supervisor.plan import Plan, ReplicaPlan, encode_plan
from torchx_core.supervisor.records import DROPPED, TIMELINE
from torchx_core.supervisor.relay import Relay, Sink

LIMIT = 1 << 20
CHATTER = """
import os, sys
attempt = os.environ["TORCHX_ATTEMPT"].encode()
pace = os.open(sys.argv[1], os.O_RDONLY) if len(sys.argv) > 1 else -1
for i in range(1500):
    if i % 20 == 0 and pace >= 0:
        os.read(pace, 1)
    os.write(1 + i % 2, b"".join(b"%s:%06d %s\\n" % (attempt, i * 40 + k, b"x" * 88) for k in range(40)))
sys.exit(attempt != b"1")
"""
"""Two attempts print a hundred bytes a line, forty lines at a time, to either stream in turn."""


class _Seen(NamedTuple):
    """What one reader was shown of one replica."""

    lines: list[str]
    lost: list[LogsLost]

    @property
    def size(self) -> int:
        """Bytes of it all, as printed."""
        return sum(len(line) + 1 for line in self.lines) + sum(each.size_bytes or 0 for each in self.lost)


def _seen(batches: Iterable[Batch]) -> dict[str, _Seen]:
    """Return what each role's one replica was shown to print."""
    seen: dict[str, _Seen] = defaultdict(lambda: _Seen([], []))
    for event in (event for batch in batches for event in batch.events):
        if isinstance(event, LogLines):
            seen[event.role].lines.extend(event.lines)
        elif isinstance(event, LogsLost):
            seen[event.role].lost.append(event)
    return seen


def _chatty(runner: Runner, *args: str) -> AppHandle:
    """Submit a chatty replica that fails once, and a quiet one beside it."""
    chatty = Role(
        "chatty",
        "",
        entrypoint=sys.executable,
        args=["-c", CHATTER, *args],
        max_retries=1,
        retry_policy=RetryPolicy.REPLICA,
    )
    quiet = Role("quiet", "", entrypoint="sh", args=["-c", "echo first; sleep 1; echo last"])
    return runner.run(AppDef("app", [chatty, quiet]), "local_cwd", {"log_max_mb": 1}, app_id="x")


def _printed() -> list[str]:
    return [f"{attempt}:{i:06d} {'x' * 88}" for attempt in (0, 1) for i in range(60_000)]


def _number(line: str) -> int:
    attempt, number = line.split(" ", maxsplit=1)[0].split(":")
    return int(attempt) * 60_000 + int(number)


def test_whoever_keeps_up_misses_nothing(runner: Runner, tmp_path: Path) -> None:
    """Every line of both attempts is shown, in order; what is on disk afterwards is within the limit."""
    pace = tmp_path / "pace"
    os.mkfifo(pace)
    both = os.open(pace, os.O_RDWR)
    os.write(both, b"go")
    handle = _chatty(runner, str(pace))
    batches: list[Batch] = []
    shown = 0
    for batch in runner.follow(handle):
        batches.append(batch)
        before, shown = shown, shown + sum(line.role == "chatty" for line in batch.lines())
        os.write(both, b"x" * (shown // 800 - before // 800))
    os.close(both)
    seen = _seen(batches)
    assert not seen["chatty"].lost
    assert seen["chatty"].lines == _printed()
    assert seen["quiet"] == _Seen(["first", "last"], [])
    (logs,) = tmp_path.rglob("x/log")
    assert tree_size(str(logs)) < 1.2 * LIMIT


def test_whoever_comes_late_is_told_what_went(runner: Runner) -> None:
    """First and last lines are there, whole; the rest is counted to the byte; a quiet neighbour keeps all."""
    handle = _chatty(runner)
    runner.wait(handle)
    seen = _seen(runner.follow(handle))
    whole = _printed()
    lines = seen["chatty"].lines
    first = next(i for i, line in enumerate(lines) if line != whole[i])
    assert first > 100
    assert lines[first:] == whole[len(whole) - len(lines) + first :]
    assert len(lines) - first > 2000
    assert seen["chatty"].size == sum(len(line) + 1 for line in whole)
    assert {each.attempt for each in seen["chatty"].lost} == {0, 1}
    assert all("log_max_mb" in each.reason for each in seen["chatty"].lost)
    assert seen["quiet"] == _Seen(["first", "last"], [])
    status = runner.status(handle)
    assert status is not None
    assert status.roles[0].replicas[0].attempt == 1


def test_a_place_amid_what_went_is_still_a_place(runner: Runner) -> None:
    """Whoever stopped there goes on at the latest part, is told that lines are lost, and gets none twice."""
    handle = _chatty(runner)
    batches = list(runner.follow(handle))
    with_gaps: list[bool] = []
    last = -1
    for n, batch in enumerate(batches):
        last = max([last, *(_number(line.text) for line in batch.lines() if line.role == "chatty")])
        if n % max(1, len(batches) // 20) and batch is not batches[-1]:
            continue  # to read the rest from each place takes long
        rest = _seen(runner.follow(handle, batch.cursor))["chatty"]
        numbers = list(map(_number, rest.lines))
        assert numbers == sorted(set(numbers))
        assert not numbers or (last < numbers[0] and numbers[-1] == 119_999)
        gaps = sum(after - before for before, after in pairwise([last, *numbers])) > len(numbers)
        assert gaps == bool(rest.lost)
        with_gaps.append(gaps)
    assert set(with_gaps) == {False, True}


def test_damaged_notes_of_what_went_are_an_error(runner: Runner, tmp_path: Path) -> None:
    """A reader neither breaks nor hangs, whatever lies there; the error names the file."""
    handle = _chatty(runner)
    runner.wait(handle)
    wait_until_unserved(tmp_path / "state", "x")
    (notes,) = tmp_path.rglob(DROPPED)
    row = json.loads(notes.read_text())["dropped"][0]
    values = [("replica", 2), ("last", -1), ("time_us", 1 << 62), ("size", "x"), ("unknown", 0)]
    damaged = [json.dumps({"dropped": [{**row, name: value}]}) for name, value in values]
    for text in ("", "{", "[]", *damaged):
        notes.write_text(text)
        with pytest.raises(CorruptRecordError, match=DROPPED):
            list(runner.follow(handle))
    notes.unlink()
    notes.mkdir()
    with pytest.raises(CorruptRecordError, match=DROPPED):
        list(runner.follow(handle))


def test_only_an_app_with_a_limit_is_closed_to_earlier_releases(runner: Runner, tmp_path: Path) -> None:
    """They know neither its field nor its zeros, and the version says so; others they read as before."""
    runner.wait(runner.run(app_of("true"), "local_cwd", {"log_max_mb": 1}, app_id="limited"))
    runner.wait(runner.run(app_of("true"), "local_cwd", app_id="plain"))
    found = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.rglob("spec.json")}
    assert found["limited"]["version"] == 2
    assert found["limited"]["plan"]["log_max_mb"] == 1
    assert found["plain"]["version"] == 1
    assert "log_max_mb" not in found["plain"]["plan"]


@pytest.mark.parametrize("most_mb", [-1, 0])
def test_a_limit_that_keeps_nothing_is_refused(runner: Runner, most_mb: int) -> None:
    """The last lines of a failure have to be there."""
    with pytest.raises(InvalidRunConfigException, match="log_max_mb must be a positive number"):
        runner.run(app_of("true"), "local_cwd", {"log_max_mb": most_mb})


def test_a_file_system_without_holes_is_refused(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the directory, before anything is submitted."""

    def cannot(_directory: str) -> bool:
        return False

    monkeypatch.setattr(log_limit, "can_free_parts", cannot)
    with pytest.raises(InvalidInputError, match=r"cannot free a part of a file; choose another log_dir"):
        runner.run(app_of("true"), "local_cwd", {"log_max_mb": 1})


class _App:
    """What a supervisor writes for an app of two replicas, without processes."""

    def __init__(self, directory: Path, limit: int) -> None:
        self.printed: dict[int, int] = defaultdict(int)
        replicas = [ReplicaPlan(f"r{k}", 0, ["true"], {}, "/", str(directory / str(k))) for k in (0, 1)]
        plan = Plan(replicas, log_max_mb=1)
        self.record = AppRecord(str(directory), {"plan": encode_plan(plan)})
        self._directory = directory
        self._line = Appender(str(directory / TIMELINE))
        self._relay = Relay(self._line)
        self._relay.limit = log_limit.LogLimit(str(directory), limit, self._line)
        self._sinks: dict[int, Sink] = {}
        for k in (0, 1):
            self.start(k)

    def start(self, k: int) -> None:
        """Begin the replica's next attempt."""
        before = self._sinks.get(k)
        if before is not None:
            self._relay.close(before)
        attempt = before.attempt + 1 if before else 0
        directory = self._directory / str(k) / str(attempt)
        directory.mkdir(parents=True)
        self._sinks[k] = self._relay.sink(str(directory), k, attempt)

    def print(self, k: int, kind: int, lines: int) -> None:
        """Have the replica print some numbered lines."""
        sink = self._sinks[k]
        text = b"".join(b"%d %d\n" % (k, self.printed[k] + i) for i in range(lines))
        self.printed[k] += lines
        sink.add_raw(kind, text)
        sink.add(kind, text, eol=True)
        self._relay.flush()

    def close(self) -> None:
        """Write the rest."""
        for sink in self._sinks.values():
            self._relay.close(sink)
        self._line.close()


class _Follower:
    """Reads as a feed does, whenever it is told to."""

    def __init__(self, app: _App) -> None:
        self._file = TimelineFile(app.record)
        self._reader = TimelineReader(app.record, FollowOptions())
        self._at = 0
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.lost: dict[str, list[LogsLost]] = defaultdict(list)

    def read(self, meanwhile: Callable[[], object] = bool) -> bool:
        """Take a step; something may happen between reading the timeline and reading the text."""
        while True:
            stretch = self._file.read(self._at, 2000)
            meanwhile()
            meanwhile = bool
            texts = self._reader.texts(stretch.entries)
            if self._file.is_current(stretch):
                break
        for event in self._reader.events(stretch.entries, texts):
            self._take(event)
        has_moved, self._at = stretch.end > self._at, stretch.end
        return has_moved

    def _take(self, event: AppEvent) -> None:
        if isinstance(event, LogLines):
            for line in event.lines:
                role, number = line.split(" ")  # whole, and no zeros
                assert event.role == f"r{role}"
                self.numbers[event.role].append(int(number))
        elif isinstance(event, LogsLost):
            self.lost[event.role].append(event)

    def close(self) -> None:
        """Read the rest, and let go."""
        while self.read():
            pass
        self._file.close()


STEPS = st.tuples(
    st.sampled_from(["print", "print", "start", "read"]), st.sampled_from([0, 0, 0, 1]), st.integers(1, 400)
)
"""What happens, to which replica, and how many lines it prints."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(steps=st.lists(STEPS, min_size=20, max_size=120), limit=st.sampled_from([2_000, 20_000]))
def test_every_line_is_shown_once_or_counted(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[str, int, int]],
    limit: int,
) -> None:
    """Whoever reads, whenever, even while lines go between its looks: no line twice, none unannounced."""
    monkeypatch.setattr(log_limit, "_MOST_NOTES", 4)
    app = _App(tmp_path_factory.mktemp("app"), limit)
    lagging = _Follower(app)
    for what, k, lines in steps:
        printing = partial(app.print, k, timeline.STDOUT if lines % 3 else timeline.STDERR, lines)
        if what == "print":
            printing()
        elif what == "start":
            app.start(k)
        else:
            lagging.read(printing)
    app.close()
    lagging.close()
    late = _Follower(app)
    late.close()
    for follower in (lagging, late):
        for k in (0, 1):
            numbers, lost = follower.numbers[f"r{k}"], follower.lost[f"r{k}"]
            assert numbers == sorted(set(numbers))
            assert bool(lost) == (len(numbers) < app.printed[k])
    for k in (0, 1):
        whole = sum(len(f"{k} {i}\n") for i in range(app.printed[k]))
        shown = sum(len(f"{k} {i}\n") for i in late.numbers[f"r{k}"])
        assert shown + sum(each.size_bytes or 0 for each in late.lost[f"r{k}"]) == whole
        assert shown <= limit / 2 + 8000  # a flush may be above it
