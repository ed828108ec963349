"""Asking accounting: a program named sacct stands in for it, as squeue's stand-in does for the queue."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_programs import AWAY, listing

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm import accounting
from torchx_core.schedulers.slurm.accounting import Accounting, JobName
from torchx_core.schedulers.slurm.job import UNLISTED, Job
from torchx_core.testing import wait_until

OLD = {
    "job_id": 7,
    "het": {"job_id": 0, "job_offset": None},
    "name": "a",
    "comment": {"administrator": None, "job": "torchx:s/a:1", "system": None},
    "state": {"current": "CANCELLED", "reason": "None"},
    "nodes": "None assigned",
    "kill_request_user": "ann",
}
NEW = {
    **OLD,
    "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
    "state": {"current": ["CANCELLED"], "reason": "None"},
}
A = JobName("7", "a")
SEVEN = Job(
    job_id="7", state="CANCELLED", name="a", comment="torchx:s/a:1", reason="None", nodes="", ended_by="ann"
)


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that makes `sacct` do what a shell script says; it notes what it was asked."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def make(script: str) -> Path:
        asked = tmp_path / "asked"
        program = tmp_path / "new"
        program.write_text(f'#!/bin/sh\necho "$*" >>{asked}\n{script}\n')
        program.chmod(0o755)
        program.rename(tmp_path / "sacct")  # at once: somebody may be about to start it
        return asked

    return make


@pytest.mark.parametrize("row", [OLD, NEW], ids=["22.05", "newer"])
def test_every_version_is_understood(row: object, sacct: Callable[[str], Path]) -> None:
    """Newer ones wrap numbers, and give a list of states."""
    sacct(listing(row))
    accounts = Accounting()
    accounts.ask([A])
    assert accounts.poll(A) == SEVEN


def test_the_components_of_a_job_are_one_job(sacct: Callable[[str], Path]) -> None:
    """What went wrong with one went wrong with it."""
    first = {**OLD, "het": {"job_id": 7, "job_offset": 0}, "state": {"current": "COMPLETED"}, "nodes": "n1"}
    second = {**first, "job_id": 8, "state": {"current": "NODE_FAIL"}, "nodes": "n2"}
    sacct(listing(first, second))
    accounts = Accounting()
    accounts.ask([A])
    job = accounts.poll(A)
    assert job is not None
    assert (job.state, job.nodes) == ("NODE_FAIL", "n1,n2")


@pytest.mark.parametrize("requeued", ["REQUEUED", ["PENDING", "REQUEUED"]], ids=["22.05", "24.11"])
def test_of_the_runs_of_a_job_the_latest_counts(requeued: object, sacct: Callable[[str], Path]) -> None:
    """Each run of a job that was requeued is a row; the components of a heterogeneous job have a run each."""
    first = {**OLD, "state": {"current": requeued}, "time": {"submission": 100}}
    sacct(listing({**OLD, "time": {"submission": 200}}, first))
    accounts = Accounting()
    accounts.ask([A])
    assert accounts.poll(A) == SEVEN
    first |= {"het": {"job_id": 7, "job_offset": 0}}
    second = {**first, "job_id": 8, "name": "job.sh"}
    again = {"state": {"current": "COMPLETED"}, "time": {"submission": 200}}
    sacct(listing(first, second, {**first, **again, "nodes": "n1"}, {**second, **again, "nodes": "n2"}))
    others = Accounting()
    others.ask([A])
    job = others.poll(A)
    assert job is not None
    assert (job.state, job.nodes) == ("COMPLETED", "n1,n2")


def test_another_job_of_its_number_is_not_taken_for_it(sacct: Callable[[str], Path]) -> None:
    """A controller that has lost its state begins to count anew; accounting keeps both."""
    other = {**OLD, "name": "b", "state": {"current": "PENDING"}, "time": {"submission": 200}}
    sacct(listing({**OLD, "time": {"submission": 100}}, other))
    accounts = Accounting()
    accounts.ask([A])
    assert accounts.poll(A) == SEVEN
    assert accounts.poll(JobName("7", "b")) is None


def test_a_job_that_was_given_another_name_is_found(sacct: Callable[[str], Path]) -> None:
    """By its number; whoever asked sees from its comment whether it is the one."""
    sacct(listing({**OLD, "name": "renamed"}))
    accounts = Accounting()
    accounts.ask([A])
    job = accounts.poll(A)
    assert job is not None
    assert (job.name, job.comment) == ("renamed", SEVEN.comment)


def test_a_job_of_which_accounting_knows_its_steps_alone_may_still_be_told(
    sacct: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounting that was away hears of things out of order, and has another name for the job meanwhile."""
    monkeypatch.setattr(accounting, "INTERVAL_S", 0.1)
    asked = sacct(listing({**OLD, "name": "allocation", "comment": {}, "state": {"current": "PENDING"}}))
    accounts = Accounting()
    accounts.ask([A])
    wait_until(lambda: accounts.poll(A) is None and asked.read_text().count("\n") >= 3, 240)
    sacct(listing(OLD))
    assert wait_until(lambda: accounts.poll(A), 240) == SEVEN


def test_many_jobs_are_one_question(sacct: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many follow, however often they look; and what is known is not asked again."""
    monkeypatch.setattr(accounting, "INTERVAL_S", 0.0)
    asked = sacct(listing(OLD))
    accounts = Accounting()
    ids = [str(i) for i in range(500)]
    jobs = [JobName(job_id, "a") for job_id in ids]

    def answered() -> bool:
        return None not in [accounts.poll(job) for job in jobs]

    assert not answered()
    wait_until(answered, 240)
    accounts.ask(jobs)
    assert accounts.poll(A) == SEVEN
    wait_until(lambda: accounts.poll(A) and accounts.poll(JobName("500", "a")), 240)
    assert (
        asked.read_text() == f"--json --duplicates --jobs={','.join(ids)}\n--json --duplicates --jobs=500\n"
    )


def test_looking_never_waits(sacct: Callable[[str], Path]) -> None:
    """An accounting that does not answer holds nobody up; when nobody follows, no question is left."""
    asked = sacct("exec sleep 600")
    accounts = Accounting()
    wait_until(lambda: accounts.poll(A) is None and asked.exists(), 240)
    accounts.drop()


@pytest.mark.parametrize(
    "script",
    ["echo 'Slurm accounting storage is disabled' >&2; exit 1", listing()],
    ids=["disabled", "not in there"],
)
def test_what_accounting_does_not_know(script: str, sacct: Callable[[str], Path]) -> None:
    """Is unlisted: it is judged by its own files, as where there is no accounting."""
    sacct(script)
    accounts, followed = Accounting(), Accounting()
    accounts.ask([A])
    assert accounts.poll(A) == Job(job_id="7", state=UNLISTED)
    assert wait_until(lambda: followed.poll(A), 240) == Job(job_id="7", state=UNLISTED)


def test_news_that_is_on_its_way_is_waited_for(
    sacct: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounting that was away takes the job for one that runs, until it hears better; not for ever."""
    monkeypatch.setattr(accounting, "INTERVAL_S", 0.1)
    asked = sacct(listing({**OLD, "state": {"current": "RUNNING"}}))
    accounts, patient = Accounting(), Accounting()
    for each in (accounts, patient):
        each.ask([A])
    wait_until(lambda: accounts.poll(A) is None and asked.read_text().count("\n") >= 4, 240)
    monkeypatch.setattr(accounting, "PATIENCE_S", 0.0)
    assert wait_until(lambda: accounts.poll(A), 240) == Job(job_id="7", state=UNLISTED)
    sacct(listing(OLD))
    assert wait_until(lambda: patient.poll(A), 240) == SEVEN


def test_without_sacct_there_is_no_accounting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host where only a part of Slurm's commands is installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    accounts, followed = Accounting(), Accounting()
    accounts.ask([A])
    assert accounts.poll(A) == Job(job_id="7", state=UNLISTED)
    assert wait_until(lambda: followed.poll(A), 240) == Job(job_id="7", state=UNLISTED)


@pytest.mark.parametrize(
    "script",
    [
        "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1",
        "echo torn",
        AWAY,
    ],
    ids=["refused", "torn", "away"],
)
def test_an_accounting_that_is_away_is_waited_for(
    script: str, sacct: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be back, and then knows."""
    monkeypatch.setattr(accounting, "INTERVAL_S", 0.1)
    asked = sacct(script)
    accounts = Accounting()
    with pytest.raises(SchedulerError) as caught:
        accounts.ask([A])
    assert caught.value.retryable
    wait_until(lambda: accounts.poll(A) is None and asked.read_text().count("\n") >= 3, 240)
    sacct(listing(OLD))
    assert wait_until(lambda: accounts.poll(A), 240) == SEVEN
