"""The driver of Airflow: a real deployment whose tasks run the witness, by a worker or deferred."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from airflow_server import AirflowServer
from airflow_trial import RETRIES, SharedAirflow, TaskTrial
from daemons import ends
from engines import Engine, Judged
from local_apps import parent_of

__all__ = ["DAGS", "ENGINE", "FAULTS"]

HERE = Path(__file__).parent

DAGS = f"""
from airflow_torchx.operators import torchx

torchx.DEFER_AFTER_S = 0.5
FORMS = {{
    "worker": {{}},
    "deferred": {{"deferrable": True}},
    "resumed": {{"deferrable": True, "on_success_callback": print}},
}}
for form, arguments in FORMS.items():
    with DAG(form, schedule=None, params={{"folder": ""}}, is_paused_upon_creation=False):
        TorchXRunOperator(
            task_id="t",
            component={str(HERE / "witness_app.py")!r} + ":witness",
            component_args=["--folder", "{{{{ params.folder }}}}"],
            cfg="grace_s=2",
            retries={RETRIES},
            retry_delay=timedelta(seconds=1),
            **arguments,
        )
"""

# --- faults

Act = Callable[[TaskTrial], None]
FAULTS: dict[str, tuple[Act, tuple[str, ...]]] = {}
EITHER = ("worker", "deferred", "resumed")
WORKER = ("worker",)
DEFERRED = ("deferred", "resumed")


def _fault(*forms: str) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        FAULTS[act.__name__.strip("_").replace("_", "-")] = act, forms
        return act

    return add


@_fault(*EITHER)
def nothing(trial: TaskTrial) -> None:
    """Let the task run."""
    trial.open("middle")
    trial.open("end")


def _end_by_user(trial: TaskTrial, act: Act, wants: str) -> None:
    trial.begun()
    if not trial.is_over():
        trial.excused += ("cancelled by user action in Airflow",)
        trial.wants = {wants}
        trial.cut_short |= set(trial.apps())
        act(trial)


@_fault(*EITHER)
def mark_failed(trial: TaskTrial) -> None:
    """Mark the task failed: its app is cancelled."""
    _end_by_user(trial, lambda trial: trial.airflow.mark(trial.task, "failed"), "failed")


@_fault(*EITHER)
def mark_success(trial: TaskTrial) -> None:
    """Mark the task succeeded: its app is cancelled."""
    _end_by_user(trial, lambda trial: trial.airflow.mark(trial.task, "success"), "success")


@_fault(*EITHER)
def clear(trial: TaskTrial) -> None:
    """Clear the task: its app is cancelled, and another one runs."""
    trial.begun()
    if trial.is_over():
        return
    first = list(trial.apps())
    trial.excused += ("the Airflow task was cleared",)
    trial.cut_short |= set(first)
    trial.airflow.clear(trial.task)
    trial.eventually(lambda: list(trial.apps()) != first or trial.is_over(), "the cleared task's app")


def _worker(trial: TaskTrial, act: Callable[[int], None], *, ends_try: bool = True) -> None:
    trial.begun()
    pid = trial.process()
    if pid and not trial.is_over():
        act(pid)
        if ends_try and ends(pid, 240):
            trial.next_try()
            trial.pause(1.0)


@_fault(*WORKER)
def process_killed(trial: TaskTrial) -> None:
    """SIGKILL the task's process, perhaps that of the next try too: the app goes on."""
    for _ in range(trial.rng.choice((1, 1, RETRIES))):
        _worker(trial, lambda pid: os.kill(pid, signal.SIGKILL))


@_fault(*WORKER)
def worker_terminated(trial: TaskTrial) -> None:
    """SIGTERM the worker, as a deployment does: the app goes on."""
    _worker(trial, lambda pid: os.kill(parent_of(pid), signal.SIGTERM))


@_fault(*WORKER)
def worker_killed(trial: TaskTrial) -> None:
    """SIGKILL the worker: its heartbeat is missed, and the next try goes on with the app."""
    _worker(trial, lambda pid: os.kill(parent_of(pid), signal.SIGKILL))


@_fault(*WORKER)
def process_stopped(trial: TaskTrial) -> None:
    """SIGSTOP the task's process for a while."""

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        trial.pause(3.0)
        os.kill(pid, signal.SIGCONT)

    _worker(trial, stop, ends_try=False)


@_fault(*WORKER)
def slow_log(trial: TaskTrial) -> None:
    """SIGSTOP the worker that reads the task's log for a while, so that its pipe is full."""

    def stop(pid: int) -> None:
        parent = parent_of(pid)
        os.kill(parent, signal.SIGSTOP)
        trial.open("end")
        trial.pause(4.0)
        os.kill(parent, signal.SIGCONT)

    _worker(trial, stop, ends_try=False)


@_fault(*WORKER)
def worker_frozen(trial: TaskTrial) -> None:
    """SIGSTOP the worker until the next try has the app, and let it go on beside that."""

    def freeze(pid: int) -> None:
        both = (parent_of(pid), pid)
        for each in both:
            os.kill(each, signal.SIGSTOP)
        trial.next_try()
        trial.pause(2.0)
        for each in both:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)

    _worker(trial, freeze, ends_try=False)


@_fault(*EITHER)
def submitter_killed(trial: TaskTrial) -> None:
    """SIGKILL the task's process at a random moment from its start on, also while it submits."""
    trial.eventually(lambda: trial.process() or trial.is_over(), "a process")
    pid = trial.process()
    trial.pause(1.5)
    if pid and trial.state()[0] == "running":
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        trial.next_try()


def _triggerer(trial: TaskTrial, act: Callable[[AirflowServer], None]) -> None:
    trial.begun()
    with trial.airflow.alone():
        act(trial.airflow)


def _restart(airflow: AirflowServer, number: signal.Signals) -> None:
    airflow.end("triggerer", number)
    airflow.start_again("triggerer")


@_fault(*DEFERRED)
def triggerer_killed(trial: TaskTrial) -> None:
    """SIGKILL the triggerer, and start it again: the app goes on."""
    _triggerer(trial, lambda airflow: _restart(airflow, signal.SIGKILL))


@_fault(*DEFERRED)
def triggerer_terminated(trial: TaskTrial) -> None:
    """SIGTERM the triggerer, and start it again: the app goes on."""
    _triggerer(trial, lambda airflow: _restart(airflow, signal.SIGTERM))


@_fault(*DEFERRED)
def triggerer_stopped(trial: TaskTrial) -> None:
    """SIGSTOP the process that reads the triggers' logs and answers them, for a while."""

    def stop(airflow: AirflowServer) -> None:
        pid = airflow.pid_of("triggerer")
        os.kill(pid, signal.SIGSTOP)
        trial.open("end")
        trial.pause(4.0)
        os.kill(pid, signal.SIGCONT)

    _triggerer(trial, stop)


class AirflowEngine(Engine):
    """One deployment for all trials."""

    name: ClassVar[str] = "airflow"
    faults: ClassVar[Mapping[str, tuple[str, ...]]] = {
        form: tuple(name for name, (_, forms) in FAULTS.items() if form in forms) for form in EITHER
    }

    def start(self, stack: ExitStack, root: Path) -> None:
        """Start scheduler, triggerer, DAG processor and API server."""
        self._airflow = SharedAirflow(root / "airflow")
        (root / "airflow").mkdir()
        stack.callback(self._airflow.stop)
        self._airflow.start(DAGS)

    def trial(self, form: str, fault: str, seed: int, root: Path) -> Judged:
        """Run the DAG of the form once."""
        began = time.time()
        trial = TaskTrial(self._airflow, form, fault, seed, root)
        act, _ = FAULTS[fault]
        violations = trial.run(act)
        report = {
            "scenario": asdict(trial.scenario),
            "task": getattr(trial, "task", None),
            "log": trial.log,
            "seconds": time.time() - began,
        }
        return Judged(violations, report)


ENGINE = AirflowEngine()
