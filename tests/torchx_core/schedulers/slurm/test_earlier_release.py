"""An app of the release before this one, of which only the record is there, on a cluster that stands in."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from earlier_records import WORDS, asked_of_slurm, spec

from torchx_core.errors import AppIdConflictError
from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.schedulers.slurm.record import SPEC


@pytest.mark.usefixtures("program")
def test_a_slurm_app_of_the_release_before_goes_on(tmp_path: Path) -> None:
    """A repeated submit finds the job; status, follow and cancel work as for any app."""
    runner = Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))})
    handle = runner.run_component("utils.sh", WORDS, "slurm", {}, app_id="one")
    place = tmp_path / "state" / "slurm" / "s" / "one"
    log_dir = str(place / "log/sh/0")
    fields = {
        "comment": "torchx:s/one:c7c7833294beb111",
        "sbatch": ["sbatch"],
        "replicas": [["sh", 0, log_dir]],
    }
    (place / SPEC).write_bytes(spec(asked_of_slurm("s"), **fields))
    assert runner.run_component("utils.sh", WORDS, "slurm", {}, app_id="one") == handle
    status = runner.status(handle)
    assert status
    assert not status.is_terminal()
    assert next(runner.follow(handle, tick_s=0.01)).events == ()
    assert runner.cancel(handle, reason="enough") == CancelOutcome.REQUESTED
    assert "7" in (tmp_path / "scancelled").read_text()
    with pytest.raises(AppIdConflictError, match="args"):
        runner.run_component("utils.sh", [*WORDS, "more"], "slurm", {}, app_id="one")
