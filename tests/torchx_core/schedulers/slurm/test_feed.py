"""Following an app, file by file, without a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchx_core.schedulers import Batch, ReplicaChanged
from torchx_core.schedulers.responses import FollowOptions
from torchx_core.schedulers.slurm.feed import SlurmFeed
from torchx_core.schedulers.slurm.node.output import STDOUT, Output
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.specs import AppState


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[[str | None], SlurmFeed]]:
    """A function that follows an app of one replica from a cursor."""
    row = ["w", 0, str(tmp_path / "log")]
    record = AppRecord(
        str(tmp_path),
        {"incarnation": "i", "created_at": 0.0, "replicas": [row], "asked": {"cfg": {}}},
    )
    (tmp_path / "run.0.json").write_text(json.dumps({"job_id": "7", "time": 0.0, "nodes": "n"}))
    feeds: list[SlurmFeed] = []

    def open_feed(cursor: str | None) -> SlurmFeed:
        feeds.append(SlurmFeed(record, "slurm://s/a", cursor, FollowOptions(), JobQueue()))
        return feeds[-1]

    yield open_feed
    for feed in feeds:
        feed.close()


def write(folder: Path, run: int, line: str) -> None:
    """Write an attempt that began in that run of the job and has printed a line."""
    folder.mkdir(parents=True)
    output = Output(str(folder), wait_for_room=os.abort)
    output.take(STDOUT, f"{line}\n".encode())
    output.close()
    (folder / "start.json").write_text(json.dumps({"run": run, "host": "n", "time": 1.0}))


def test_an_attempt_that_never_began_hides_nothing(
    follow: Callable[[str | None], SlurmFeed], tmp_path: Path
) -> None:
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
