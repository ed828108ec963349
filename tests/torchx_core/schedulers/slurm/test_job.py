"""Reading squeue's JSON, and what only looks like it."""

from __future__ import annotations

import json

import pytest

from torchx_core.schedulers.slurm.job import Job, parse_queue


@pytest.mark.parametrize("text", ["", "[]", "3", '{"jobs": 3}', '{"errors": ["away"]}', "[" * 100_000])
def test_what_is_no_answer_is_refused(text: str) -> None:
    """A text that is no list of jobs is a ValueError, which the caller takes for no answer."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_queue(text)


def test_the_same_requeued_job_as_newer_versions_tell_it() -> None:
    """Both components of a heterogeneous job wait again, as squeue of 24.11.5 and of 26.05.5 prints it."""
    row = {
        "het_job_id": {"set": True, "infinite": False, "number": 2},
        "job_state": ["PENDING"],
        "comment": "torchx:s/h:1",
        "state_reason": "BeginTime",
        "nodes": "",
        "restart_cnt": 1,
        "end_time": {"set": True, "infinite": False, "number": 6090387475},
        "name": "wrap",
    }
    said = {"jobs": [{"job_id": 2, **row}, {"job_id": 3, **row}], "errors": [], "warnings": []}
    job = Job(
        job_id="2",
        state="PENDING",
        name="wrap",
        comment="torchx:s/h:1",
        reason="BeginTime",
        restarts=1,
        ended_at=6090387475,
    )
    assert parse_queue(json.dumps(said)) == {"2": job}
