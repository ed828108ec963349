"""Asking Slurm: a program named squeue stands in for it, where the answers of other versions matter."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from slurm_programs import AWAY, listing

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm import queue as queue_module
from torchx_core.schedulers.slurm.job import Job, is_over, is_waiting
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.testing import wait_until

OLD = {"job_id": 7, "job_state": "RUNNING", "comment": "torchx:s/a:1", "nodes": "n1", "restart_cnt": 1}
NEW = {
    "job_id": 7,
    "job_state": ["RUNNING"],
    "comment": "torchx:s/a:1",
    "nodes": "n1",
    "restart_cnt": {"set": True, "infinite": False, "number": 1},
    "het_job_id": {"set": True, "infinite": False, "number": 0},
}


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that makes `squeue` do what a shell script says; it notes when it was asked."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def make(script: str) -> Path:
        asked = tmp_path / "asked"
        program = tmp_path / "squeue"
        program.write_text(f"#!/bin/sh\ndate +%s.%N >>{asked}\n{script}\n")
        program.chmod(0o755)
        return asked

    return make


@pytest.fixture
def interval_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """Return how often Slurm is asked at most: half of what it is for users."""
    monkeypatch.setattr(queue_module, "INTERVAL_S", 0.5)
    return 0.5


@pytest.mark.parametrize("row", [OLD, NEW], ids=["22.05", "newer"])
def test_every_version_is_understood(row: object, squeue: Callable[[str], Path]) -> None:
    """Newer ones wrap numbers, and give a list of states."""
    squeue(listing(row))
    jobs = JobQueue().ask().jobs
    assert jobs == {"7": Job(job_id="7", state="RUNNING", comment="torchx:s/a:1", nodes="n1", restarts=1)}


def test_what_completes_is_not_over(squeue: Callable[[str], Path]) -> None:
    """Its processes may still write, whatever newer versions call its outcome already."""
    squeue(listing({**NEW, "job_state": ["TIMEOUT", "COMPLETING"]}))
    job = JobQueue().ask().jobs["7"]
    assert (job.state, is_over(job)) == ("COMPLETING", False)


def test_the_components_of_a_job_are_one_job(squeue: Callable[[str], Path]) -> None:
    """It runs as long as one of them does, and what went wrong with one went wrong with it."""
    first = {**OLD, "het_job_id": 7, "job_state": "COMPLETED"}
    second = {**OLD, "job_id": 8, "het_job_id": 7, "job_state": "RUNNING", "comment": "", "nodes": "n2"}
    squeue(listing(first, second))
    job = JobQueue().ask().jobs["7"]
    assert (job.state, job.nodes, job.comment) == ("RUNNING", "n1,n2", "torchx:s/a:1")
    squeue(listing(first, {**second, "job_state": "NODE_FAIL"}))
    assert JobQueue().ask().jobs["7"].state == "NODE_FAIL"


def test_it_is_asked_at_most_once_an_interval(squeue: Callable[[str], Path], interval_s: float) -> None:
    """However many follow, however often they look; and less often while nothing changes."""
    asked = squeue(listing(OLD))
    queue = JobQueue()
    for _ in range(500):
        queue.join()

    def answered() -> bool:
        for _ in range(500):
            queue.poll()
        return asked.exists() and asked.read_text().count("\n") >= 4

    wait_until(answered, 240)
    for _ in range(500):
        queue.leave()
    times = [float(line) for line in asked.read_text().split()]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    # A question that a busy host begins late is noted late, but then the next one comes later too: four times
    # what an answer takes. So gaps are never shorter than three quarters of what was waited.
    assert min(gaps) > 0.7 * interval_s
    assert gaps[-1] > 1.6 * interval_s  # 2.25 without that


def test_looking_never_waits(squeue: Callable[[str], Path]) -> None:
    """A controller that does not answer holds nobody up; when nobody follows, no question is left."""
    squeue("exec sleep 600")
    queue = JobQueue()
    queue.join()
    assert queue.poll().jobs == {}
    queue.leave()


@pytest.mark.parametrize(
    ("said", "retryable"),
    [
        ("squeue: error: slurm_load_jobs error: Unable to contact slurm controller (connect failure)", True),
        ("squeue: error: Invalid user", False),
    ],
)
def test_what_it_says_when_it_fails(said: str, *, retryable: bool, squeue: Callable[[str], Path]) -> None:
    """Its own words; a controller that is away may be back."""
    squeue(f"echo '{said}' >&2; exit 1")
    with pytest.raises(SchedulerError, match=said.removeprefix("squeue: error: ").split(" (")[0]) as caught:
        JobQueue().ask()
    assert caught.value.retryable is retryable


@pytest.mark.parametrize("said", ["torn", '{"jobs": [{}]}', '{"jobs": [7]}'])
def test_what_is_no_answer_is_none(said: str, squeue: Callable[[str], Path]) -> None:
    """Whoever waits for one hears that Slurm does not answer, which may pass."""
    squeue(f"echo '{said}'")
    with pytest.raises(SchedulerError, match="no answer") as caught:
        JobQueue().ask()
    assert caught.value.retryable


@pytest.mark.usefixtures("interval_s")
def test_an_answer_that_is_none_costs_one_question(squeue: Callable[[str], Path]) -> None:
    """It is asked again, and the last good answer stands meanwhile."""
    asked = squeue("echo torn")
    queue = JobQueue()
    queue.join()

    def asked_twice() -> bool:
        queue.poll()
        return asked.exists() and asked.read_text().count("\n") >= 2

    wait_until(asked_twice, 240)
    squeue(listing(OLD))
    assert wait_until(lambda: queue.poll().jobs, 240)
    queue.leave()


def test_many_who_ask_cost_one_question(squeue: Callable[[str], Path]) -> None:
    """A slow answer is shared by all who came meanwhile, and counts for as long as four of its kind take."""
    asked = squeue(f"sleep 2; {listing(OLD)}")
    queue = JobQueue()
    with ThreadPoolExecutor(16) as pool:
        answers = [
            future.result() for future in [pool.submit(queue.ask, at_most_s_old=0.1) for _ in range(64)]
        ]
    assert {len(answer.jobs) for answer in answers} == {1}
    assert asked.read_text().count("\n") == 1


def test_a_controller_that_is_away_is_not_asked_for_each_app(squeue: Callable[[str], Path]) -> None:
    """All who ask within the pause hear that it is away, at once."""
    asked = squeue(AWAY)
    queue = JobQueue()
    for _ in range(100):
        with pytest.raises(SchedulerError, match=r"no answer .*: slurm_load_jobs: Failed while looking"):
            queue.ask(at_most_s_old=1.0)
    assert asked.read_text().count("\n") < 10
    assert queue.poll().jobs == {}
    assert asked.read_text().count("\n") < 10


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("PENDING", (True, False)),
        ("RUNNING", (False, False)),
        ("COMPLETING", (False, False)),
        ("FAILED", (False, True)),
        ("TELEPORTING", (False, False)),
    ],
)
def test_states(state: str, expected: tuple[bool, bool]) -> None:
    """Waiting, on nodes, over; one that we do not know is not over: what is over is killed."""
    job = Job(job_id="1", state=state)
    assert (is_waiting(job), is_over(job)) == expected


def test_a_controller_that_is_away_has_not_said_that_there_are_no_jobs(
    squeue: Callable[[str], Path], interval_s: float
) -> None:
    """Followers keep the last good answer, and it is asked less and less often."""
    squeue(listing(OLD))
    queue = JobQueue()
    queue.join()
    assert wait_until(lambda: queue.poll().jobs, 240)
    asked = squeue(AWAY)
    before = asked.read_text().count("\n")
    assert wait_until(lambda: queue.poll().jobs and asked.read_text().count("\n") >= before + 3, 240)
    with pytest.raises(SchedulerError, match="no answer") as caught:
        queue.ask()
    queue.leave()
    assert caught.value.retryable
    times = [float(line) for line in asked.read_text().split()[before:]]
    assert times[2] - times[1] > 2 * interval_s


def test_what_is_not_utf_8(squeue: Callable[[str], Path], tmp_path: Path) -> None:
    """In anybody's job hides no other job, neither from who asks nor from who follows."""
    rows = json.dumps({"jobs": [OLD, {**OLD, "job_id": 8, "name": "caf?"}]})
    (tmp_path / "rows").write_bytes(rows.encode("ascii").replace(b"?", b"\xe9"))
    squeue(f"cat {tmp_path / 'rows'}")
    assert {*JobQueue().ask().jobs} == {"7", "8"}
    queue = JobQueue()
    queue.join()
    assert {*wait_until(lambda: queue.poll().jobs, 240)} == {"7", "8"}
    queue.leave()
