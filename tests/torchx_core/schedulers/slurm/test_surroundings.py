"""A request is the same one from wherever it is made; `sbatch` and the others are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.testing.contract.base import NewRunner
from torchx_core.testing.contract.surroundings import SurroundingsContract


class TestSlurm(SurroundingsContract):
    """``slurm``, as far as the submitting host sees it: one job is handed in, by whom ever."""

    backend = "slurm"

    @pytest.fixture
    def new_runner(self, program: Callable[[str, str], None], tmp_path: Path) -> NewRunner:
        """All runners of a test share one state directory."""
        program("sbatch", f"echo submitted >>{tmp_path}/jobs; echo 7")
        return partial(Runner, "s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))})

    @pytest.fixture
    def runner(self, new_runner: NewRunner) -> Runner:
        """No job runs, so there is nothing to end."""
        return new_runner()

    @pytest.fixture(autouse=True)
    def jobs(self, tmp_path: Path) -> None:
        """Where each submit leaves a line."""
        self._jobs = tmp_path / "jobs"

    def ran_once(self, runner: Runner, handle: str) -> None:
        """One job was handed in, with the request of whoever came first."""
        assert runner.describe(handle) is not None
        assert self._jobs.read_text() == "submitted\n"
