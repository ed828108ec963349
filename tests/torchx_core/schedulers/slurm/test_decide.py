from __future__ import annotations

from dataclasses import replace

import pytest

from torchx_core.schedulers.slurm.decide import CLOCKS_DIFFER_S, UNSEEN_S, Decision, decide, may_be_listed_yet
from torchx_core.schedulers.slurm.facts import Attempt, Facts, Figures, Run, Stop
from torchx_core.schedulers.slurm.job import UNLISTED, Job
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.specs import AppDef, AppState, Resource, Role, is_terminal

NOW = 1000.0
APP = AppDef("a", [Role("w", "", entrypoint="true", num_replicas=2, resource=Resource(1, 0, 512))])
RECORD = AppRecord(
    "/nowhere",
    {
        "created_at": 0.0,
        "replicas": [["w", 0, "/l/0"], ["w", 1, "/l/1"]],
        "asked": {"app": APP.to_dict(), "cfg": {}},
    },
)


def attempt(code: int | None = None, *, told: bool = False, host: str = "n1", run: int = 0) -> Attempt:
    """An attempt that ended so, or runs."""
    return Attempt(number=0, run=run, host=host, started_at=1.0, ended_at=code, code=code, told=told)


def facts(
    *attempts: Attempt | None,
    stop: Stop | None = None,
    left: bool = False,
    job: str | None = "7",
    runs: int = 1,
    submitting: bool = False,
) -> Facts:
    """What the files of an app of two replicas say."""
    rows = [[a] if a else [] for a in attempts] or [[], []]
    return Facts(
        job_id=job,
        submitted_at=0.0,
        submitting=submitting,
        runs=[Run(started_at=1.0, nodes="n[1-2]")] * runs,
        attempts=rows,
        restarts=0,
        stop=stop,
        all_left=left,
    )


def job(state: str, *, restarts: int = 0, reason: str = "") -> Job:
    """What Slurm says."""
    return Job(job_id="7", state=state, nodes="n[1-2]", restarts=restarts, reason=reason)


CANCEL = Stop(outcome="CANCELLED", msg="enough", index=-1)
FAILURE = Stop(outcome="FAILED", msg="", index=1)


def over(state: str, msg: str = "") -> Decision:
    """How an app stands."""
    return Decision(AppState[state], msg)


SEE = "; see /nowhere/slurm.log"
STOPPED = attempt(143, told=True)
OOM = Figures(peak_mb=500, oom=True)


@pytest.mark.parametrize(
    ("files", "said", "expected"),
    [
        # Its own files say it all.
        (facts(attempt(0), attempt(0), left=True), None, over("SUCCEEDED")),
        (facts(attempt(0), attempt(0), left=True), job("RUNNING"), over("SUCCEEDED")),
        (
            facts(STOPPED, attempt(7), stop=FAILURE, left=True),
            None,
            over("FAILED", "w/1 failed: exit code 7"),
        ),
        (facts(STOPPED, attempt(0), stop=CANCEL, left=True), None, over("CANCELLED", "enough")),
        # It is not over.
        (
            facts(runs=0),
            job("PENDING", reason="Resources"),
            over("PENDING", "waiting in Slurm's queue: Resources"),
        ),
        (facts(attempt(), attempt()), job("RUNNING"), over("RUNNING")),
        (facts(attempt(), attempt(), stop=CANCEL), job("RUNNING"), over("RUNNING", "stopping: enough")),
        (facts(attempt(), attempt()), job("SUSPENDED"), over("RUNNING", "suspended in Slurm")),
        (
            facts(attempt(), attempt()),
            job(UNLISTED),
            over(
                "FAILED",
                "w/0 failed: nobody saw its end; Slurm no longer lists its job" + SEE,
            ),
        ),
        # Slurm's answer is older than what the files say, or the job waits again after a requeue.
        (facts(attempt(), attempt()), job("PENDING"), over("RUNNING")),
        (
            facts(attempt(), STOPPED),
            job("PENDING", restarts=1, reason="BeginTime"),
            over("PENDING", "waiting in Slurm's queue again: BeginTime"),
        ),
        # A state of a version that we do not know is none of a job that is over.
        (facts(attempt(), attempt()), job("TELEPORTING"), over("RUNNING")),
        # State first, exit code second.
        (
            facts(attempt(host="n1"), attempt(0, host="n2")),
            job("NODE_FAIL"),
            over("FAILED", "node n1 failed"),
        ),
        (facts(attempt(), attempt()), job("TIMEOUT"), over("FAILED", "the job ran into Slurm's time limit")),
        (facts(STOPPED, attempt()), job("CANCELLED"), over("CANCELLED", "job 7 was cancelled in Slurm")),
        (
            facts(attempt(0), attempt(137)),
            job("FAILED"),
            over("FAILED", "w/1 failed: killed by SIGKILL; Slurm says FAILED" + SEE),
        ),
        (facts(attempt(0), attempt(0)), job("COMPLETED"), over("SUCCEEDED")),
        (
            facts(attempt(0), None),
            job("COMPLETED"),
            over("FAILED", "w/1 failed: did not start; Slurm says COMPLETED" + SEE),
        ),
        (facts(stop=CANCEL, runs=0), job("CANCELLED"), over("CANCELLED", "enough")),
        (
            facts(runs=0),
            Job(job_id="7", state="CANCELLED", ended_by="ann"),
            over("CANCELLED", "job 7 was cancelled in Slurm by ann"),
        ),
        (
            facts(attempt(137), attempt(0)),
            job("OUT_OF_MEMORY"),
            over("FAILED", "out of memory: memMB allows 512 MB, on n[1-2]"),
        ),
        (
            facts(replace(attempt(137), figures=Figures(peak_mb=500)), attempt(0)),
            job("OUT_OF_MEMORY"),
            over("FAILED", "out of memory: peak 500 MB of 512 MB allowed by memMB, on n[1-2]"),
        ),
        (
            facts(STOPPED, replace(attempt(137), figures=OOM), stop=FAILURE, left=True),
            None,
            over(
                "FAILED",
                "w/1 failed: killed by SIGKILL (out of memory: peak 500 MB of 512 MB allowed by memMB)",
            ),
        ),
        (
            facts(STOPPED, STOPPED, left=True),
            job("PREEMPTED"),
            over("FAILED", "the job was preempted and not started again"),
        ),
        (
            facts(attempt(0, told=True), attempt(0, told=True), left=True),
            job(UNLISTED),
            over(
                "FAILED",
                "w/0 failed: exit code 0 after Slurm told it to end; Slurm no longer lists its job" + SEE,
            ),
        ),
        # Its submitter died on the way.
        (facts(job=None, runs=0, stop=CANCEL), job(UNLISTED), over("CANCELLED", "enough")),
        (
            facts(job=None, runs=0),
            job(UNLISTED),
            over(
                "FAILED", "its submitter ended before the job was handed to Slurm; submit it again"
            )._replace(for_good=False),
        ),
    ],
)
def test_how_an_app_stands(files: Facts, said: Job | None, expected: Decision) -> None:
    """Told from its files and, where they are silent, from Slurm's answer."""
    assert decide(RECORD, files, said) == expected


@pytest.mark.parametrize("files", [facts(runs=0), facts(job=None, runs=0), facts(attempt(), attempt())])
def test_a_controller_that_is_away_ends_nothing(files: Facts) -> None:
    """Whatever its files say, an app is not over because Slurm does not answer."""
    assert not is_terminal(decide(RECORD, files, None).state)


def test_a_submit_that_takes_long_is_waited_for() -> None:
    """Its controller may be slow; it is not dead."""
    assert may_be_listed_yet(RECORD, facts(job=None, runs=0, submitting=True), NOW)


@pytest.mark.parametrize("files", [facts(runs=0), facts(job=None, runs=0)])
@pytest.mark.parametrize(("age_s", "expected"), [(1.0, True), (UNSEEN_S, False)])
def test_a_job_that_slurm_does_not_list_yet_is_waited_for(
    files: Facts, age_s: float, *, expected: bool
) -> None:
    """A moment after it was submitted; what counts is when Slurm was asked, however long ago that is."""
    record = AppRecord("/nowhere", {**RECORD.content, "created_at": NOW - age_s})
    assert may_be_listed_yet(record, files, NOW) is expected


def test_an_app_that_was_stopped_before_it_had_a_job_is_over() -> None:
    """At once: whoever finds it stopped hands no job to Slurm."""
    young = AppRecord("/nowhere", {**RECORD.content, "created_at": NOW - 1})
    assert not may_be_listed_yet(young, facts(job=None, runs=0, stop=CANCEL), NOW)


@pytest.mark.parametrize(
    "files", [facts(attempt(), attempt()), facts(STOPPED, STOPPED, left=True)], ids=["unseen", "told"]
)
@pytest.mark.parametrize(
    ("after_s", "expected"),
    [
        (1.0, over("CANCELLED", "enough")),
        (CLOCKS_DIFFER_S + 1, over("FAILED", "the job ran into Slurm's time limit")),
    ],
    ids=["as it ended", "long after"],
)
def test_a_request_that_comes_too_late_is_none(files: Facts, after_s: float, expected: Decision) -> None:
    """Whoever cancels does not ask Slurm first whether the job has ended by itself."""
    cancel_request = replace(CANCEL, time=NOW + after_s)
    ended = replace(job("TIMEOUT"), ended_at=NOW)
    assert decide(RECORD, replace(files, stop=cancel_request), ended) == expected
