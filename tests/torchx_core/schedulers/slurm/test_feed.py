"""Following an app, file by file, without a cluster."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from torchx_core.errors import CorruptRecordError
from torchx_core.schedulers import Batch, LogLines, Progress, ReplicaChanged, Scheduler, StateChanged
from torchx_core.schedulers.feed import drive
from torchx_core.schedulers.remote.handler import Handler
from torchx_core.schedulers.remote.wire import dump
from torchx_core.schedulers.responses import FollowOptions, Stream
from torchx_core.schedulers.slurm import feed as feed_module
from torchx_core.schedulers.slurm import replica_log
from torchx_core.schedulers.slurm.feed import SlurmFeed
from torchx_core.schedulers.slurm.node.output import STDERR, STDOUT, Output
from torchx_core.schedulers.slurm.node.parts import RECORD
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.reconcile import Look, look
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.specs import AppState
from torchx_core.supervisor.records import Json

_ALL = FollowOptions()


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., SlurmFeed]]:
    """A function that follows an app of one replica from a cursor."""
    row = ["w", 0, str(tmp_path / "log")]
    record = AppRecord(
        str(tmp_path),
        {"incarnation": "i", "created_at": 0.0, "replicas": [row], "asked": {"cfg": {}}},
    )
    (tmp_path / "run.0.json").write_text(json.dumps({"job_id": "7", "time": 0.0, "nodes": "n"}))
    (tmp_path / "job.json").write_text(json.dumps({"job_id": "7", "time": 0.0}))
    feeds: list[SlurmFeed] = []

    def open_feed(cursor: str | None, options: FollowOptions = _ALL) -> SlurmFeed:
        feeds.append(SlurmFeed(record, "slurm://s/a", cursor, options, JobQueue()))
        return feeds[-1]

    yield open_feed
    for feed in feeds:
        feed.close()


def write(folder: Path, run: int, *lines: str) -> None:
    """Write an attempt that began in that run of the job and has printed lines, warnings among them."""
    folder.mkdir(parents=True)
    output = Output(str(folder), wait_for_room=os.abort)
    for line in lines:
        output.take(STDERR if line == "warning" else STDOUT, f"{line}\n".encode())
    output.close()
    (folder / "start.json").write_text(json.dumps({"run": run, "host": "n", "time": 1.0}))


def test_an_attempt_that_never_began_hides_nothing(follow: Callable[..., SlurmFeed], tmp_path: Path) -> None:
    """All other attempts are told, each line once; so it is with one of a task that a later run replaced."""
    for number, run, line in ((0, 0, "first"), (2, 1, "second"), (3, 0, "stale"), (4, 1, "third")):
        write(tmp_path / "log" / str(number), run, line)
    (tmp_path / "log" / "1").mkdir()
    batches: list[Batch] = []
    for _ in range(3):
        batch = follow(batches[-1].cursor if batches else None).poll()
        assert batch is not None
        batches.append(batch)
    lines = [(line.attempt, line.text) for batch in batches for line in batch.lines()]
    assert lines == [(0, "first"), (2, "second"), (4, "third")]
    changes = [event for batch in batches for event in batch.events if isinstance(event, ReplicaChanged)]
    assert [c.attempt for c in changes if c.state is AppState.RUNNING] == [0, 2, 4]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return its time."""
        return self.now

    time = monotonic


def test_a_pending_app_is_reconciled_when_something_has_changed(
    follow: Callable[..., SlurmFeed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its directory and Slurm's answer stay as they are, one look in five seconds is enough."""
    (tmp_path / "run.0.json").unlink()
    clock, looks = Clock(), list[float]()

    def noting(record: AppRecord, queue: JobQueue, *, asked_after: float) -> Look:
        looks.append(clock.now)
        return look(record, queue, asked_after=asked_after)

    monkeypatch.setattr(feed_module, "time", clock)
    monkeypatch.setattr(feed_module, "look", noting)
    feed = follow(None)
    for second in range(1, 13):
        clock.now = float(second)
        if second == 9:
            (tmp_path / "stop.json").write_text(
                json.dumps({"outcome": "CANCELLED", "msg": "", "index": -1, "time": 0.0})
            )
        feed.poll()
    assert looks == [1.0, 6.0, 9.0]


@pytest.mark.parametrize(("begins", "told"), [(2, 2), (4, 6)])
def test_a_beginning_is_told_where_the_directory_shows_no_change(
    follow: Callable[..., SlurmFeed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begins: int,
    told: int,
) -> None:
    """An app that begins just after a change is told at once, another with the look that comes every 5 s."""
    run = (tmp_path / "run.0.json").read_text()
    (tmp_path / "run.0.json").unlink()
    clock, states = Clock(), dict[int, list[AppState]]()
    before = tmp_path.stat()
    monkeypatch.setattr(feed_module, "time", clock)
    feed = follow(None)
    for second in range(1, 8):
        clock.now = float(second)
        if second == begins:
            (tmp_path / "run.0.json").write_text(run)
        os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
        batch = feed.poll()
        if batch is not None:
            states[second] = [event.state for event in batch.events if isinstance(event, StateChanged)]
    assert states == {told: [AppState.RUNNING]}


def test_a_stream_that_is_left_out_hides_nothing_of_the_other(
    follow: Callable[..., SlurmFeed], tmp_path: Path
) -> None:
    """However many pieces of the log have nothing that this follower wants, it gets to what is behind."""
    write(tmp_path / "log" / "0", 0, "first", *["warning"] * 200, "last")
    feed = follow(None, FollowOptions(streams=Stream.STDOUT, batch_bytes=64))
    assert [line.text for batch in drive(feed, until_now=True) for line in batch.lines()] == ["first", "last"]


@pytest.mark.parametrize("name", ["index", "combined.log", "reports.jsonl"])
def test_what_a_file_system_shows_as_zeros_comes_later(
    follow: Callable[..., SlurmFeed], tmp_path: Path, name: str
) -> None:
    """NFS may show how long a file is before all that is in it; nothing is lost, or comes twice."""
    folder = tmp_path / "log" / "0"
    write(folder, 0, "first!", "second")
    (folder / "reports.jsonl").write_text("".join(map(_progress, (0.25, 0.75))))
    whole = (folder / name).read_bytes()
    half = len(whole) // 2
    (folder / name).write_bytes(whole[:half] + bytes(half))
    feed = follow(None)
    before = _shown(drive(feed, until_now=True))
    (folder / name).write_bytes(whole)
    after = _shown(drive(feed, until_now=True))
    assert after == (["75%"] if name == "reports.jsonl" else ["second"])
    assert sorted(before + after) == ["25%", "75%", "first!", "second"]


def test_a_report_has_the_time_at_which_it_was_made(follow: Callable[..., SlurmFeed], tmp_path: Path) -> None:
    """A report is not shown as if it were as old as its attempt."""
    write(tmp_path / "log" / "0", 0)
    (tmp_path / "log" / "0" / "reports.jsonl").write_text(_progress(0.5, at=7.25))
    events = [event for batch in drive(follow(None), until_now=True) for event in batch.events]
    assert [event.time for event in events if isinstance(event, Progress)] == [7.25]


@pytest.mark.parametrize("ended", [True, False])
def test_zeros_that_a_program_prints_are_shown(
    follow: Callable[..., SlurmFeed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    """At once when it has ended, else when they have stayed for a while; after that it waits no more."""
    folder = tmp_path / "log" / "0"
    write(folder, 0, "\0", "text", "\0\0", "end")
    if ended:
        (folder / "end.json").write_text(json.dumps({"code": 0, "told": False, "time": 2.0}))
    feed = follow(None)
    if not ended:
        assert _shown(drive(feed, until_now=True)) == []
        monkeypatch.setattr(replica_log, "ZEROS_STAY_S", 0.0)
    batch = feed.poll()
    assert batch is not None
    assert _shown([batch]) == ["\0", "text", "\0\0", "end"]


def _progress(fraction: float, at: float = 1.0) -> str:
    return json.dumps({"type": "progress", "fraction": fraction, "message": "", "time": at}) + "\n"


def _shown(batches: Iterable[Batch]) -> list[str]:
    """Return the lines, and how far the app has said that it is."""
    found: list[str] = []
    for event in (event for batch in batches for event in batch.events):
        if isinstance(event, LogLines):
            found += event.lines
        elif isinstance(event, Progress):
            found.append(f"{event.fraction:.0%}")
    return found


@pytest.mark.parametrize("end", [6, 0, -1, -(1 << 63)])
def test_an_index_that_goes_backwards_is_damaged(
    follow: Callable[..., SlurmFeed], tmp_path: Path, end: int
) -> None:
    """The error names it once all before it was shown; nobody is shown a line again, or waits for ever."""
    folder = tmp_path / "log" / "0"
    write(folder, 0, "first")
    with (folder / "index").open("ab") as file:
        file.write(RECORD.pack(1.0, end, STDOUT, 1))
    shown: list[str] = []
    with pytest.raises(CorruptRecordError, match=f"index: says that a run of lines ends at {end};"):
        shown.extend(line.text for batch in drive(follow(None), until_now=True) for line in batch.lines())
    assert shown == ["first"]


def test_over_ssh_too_a_follower_gets_past_what_it_leaves_out(
    follow: Callable[..., SlurmFeed], tmp_path: Path
) -> None:
    """It is the follower that knows the place: each answer has to bring it further."""
    write(tmp_path / "log" / "0", 0, "first", *["warning"] * 200, "last")
    options = FollowOptions(streams=Stream.STDOUT, batch_bytes=64)
    handler = Handler(lambda _, _session, _root: cast("Scheduler[object]", _Opener(follow)))
    question: Json = {
        "backend": "slurm",
        "session": "s",
        "state_dir": "/s",
        "app_id": "a",
        "feed": "f",
        "cursor": None,
    }
    question |= {"patience_s": 0.0, "options": dump(options)}
    texts: list[str] = []
    for _ in range(400):
        batch, _ = asyncio.run(handler.pull(question))
        if not batch.events and batch.cursor == question["cursor"]:
            break
        texts += [line.text for line in batch.lines()]
        question["cursor"] = batch.cursor
    handler.close()
    assert texts == ["first", "last"]


class _Opener(NamedTuple):
    """Of a scheduler what opens feeds."""

    open_feed: Callable[..., SlurmFeed]

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> SlurmFeed:  # noqa: ARG002
        """Open one."""
        return self.open_feed(cursor, options)

    def close(self) -> None:
        """Have nothing to release."""
