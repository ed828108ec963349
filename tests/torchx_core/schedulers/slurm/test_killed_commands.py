"""What a submit and a look make of a command of Slurm's that is killed: programs stand in for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from slurm_programs import listing

from torchx_core.errors import SchedulerError, SubmitOutcomeUnknownError
from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.schedulers.slurm.accounting import Accounting, JobName
from torchx_core.specs import AppDef, Role, make_app_handle

APP = AppDef("app", [Role("w", "", entrypoint="true")])
ONE = make_app_handle("slurm", "s", "one")


@pytest.fixture
def runner(program: Callable[[str, str], None], tmp_path: Path) -> Iterator[Runner]:
    """A runner."""
    del program
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        yield runner


def _app_dir(tmp_path: Path) -> Path:
    return tmp_path / "state" / "slurm" / "s" / "one"


@pytest.mark.parametrize("handed_in", [True, False])
def test_a_killed_sbatch_may_have_handed_in_the_job(
    runner: Runner, program: Callable[[str, str], None], tmp_path: Path, *, handed_in: bool
) -> None:
    """The submit says that the outcome is unknown, and the next one finds the job, or hands one in."""
    program("sbatch", f"echo called >>{tmp_path}/sbatches; kill -KILL $$")
    with pytest.raises(SubmitOutcomeUnknownError, match="it was killed by SIGKILL"):
        runner.run(APP, "slurm", app_id="one")
    comment = json.loads((_app_dir(tmp_path) / "spec.json").read_text())["comment"]
    job = {"job_id": 9, "job_state": "PENDING", "comment": comment, "name": "app"}
    program("squeue", listing(*([job] if handed_in else [])))
    program("sbatch", f"echo called >>{tmp_path}/sbatches; echo 7")
    assert runner.run(APP, "slurm", app_id="one") == ONE
    written = json.loads((_app_dir(tmp_path) / "job.json").read_text())
    calls = (tmp_path / "sbatches").read_text().split()
    assert (written["job_id"], len(calls)) == (("9", 1) if handed_in else ("7", 2))


def test_a_killed_sacct_has_not_said_that_there_is_no_accounting(program: Callable[[str, str], None]) -> None:
    """Taken for that, a job that accounting knows would be told as one that nobody knows."""
    program("sacct", "kill -KILL $$")
    accounts = Accounting()
    with pytest.raises(SchedulerError, match=r"sacct: .*killed by SIGKILL") as caught:
        accounts.ask([JobName("7", "a")])
    assert caught.value.retryable
    assert accounts.poll(JobName("7", "a")) is None
