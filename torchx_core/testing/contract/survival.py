"""Survival: an app belongs to its scheduler, not to the process that submitted it."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys

from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.specs import AppDef, AppState
from torchx_core.testing.contract.base import UP, ContractBase, NewRunner, each_line, texts
from torchx_core.testing.steps import Hold, Print, ReportResult

__all__ = ["SurvivalContract"]

_SUBMIT_AND_DIE = """
import os, pickle, signal, sys
new_runner, app, backend, cfg = pickle.load(sys.stdin.buffer)
print(new_runner().run(app, backend, cfg), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class SurvivalContract(ContractBase):
    """What was submitted goes on, and any process can deal with it."""

    __test__ = False

    def test_the_app_survives_its_submitter(self, runner: Runner, new_runner: NewRunner) -> None:
        """A process submits and is killed; another one follows and cancels the app."""
        self.needs(runner, "survives_submitter")
        handle = self._submitted_by_the_dead(new_runner, self.app(Print(UP), Hold()))
        next(line for line in each_line(runner.follow(handle)) if line.text == UP)
        assert self.state(runner, handle) == AppState.RUNNING
        assert runner.cancel(handle) == CancelOutcome.REQUESTED
        assert self.end(runner, handle).state == AppState.CANCELLED

    def test_the_outcome_survives_the_submitter(self, runner: Runner, new_runner: NewRunner) -> None:
        """Lines, exit codes and result of an app whose submitter is dead are all there."""
        self.needs(runner, "survives_submitter")
        reports = self.claims(runner, "reports")
        app = self.app(Print("x"), ReportResult(42)) if reports else self.app(Print("x"))
        handle = self._submitted_by_the_dead(new_runner, app)
        status = self.end(runner, handle)
        assert (status.state, status.result) == (AppState.SUCCEEDED, 42 if reports else None)
        assert texts(runner.follow(handle)) == ["x"]

    def _submitted_by_the_dead(self, new_runner: NewRunner, app: AppDef) -> str:
        """Submit from a process that is killed right afterwards."""
        request = pickle.dumps((new_runner, app, self.backend, dict(self.cfg)))
        done = subprocess.run(
            [sys.executable, "-c", _SUBMIT_AND_DIE], input=request, stdout=subprocess.PIPE, check=False
        )
        assert done.returncode == -signal.SIGKILL
        return done.stdout.decode().strip()
