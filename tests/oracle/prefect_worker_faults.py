"""What is done to a flow run on a torchx worker, to its worker and to the server, and what that excuses."""

from __future__ import annotations

import signal
from contextlib import suppress

from prefect_faults import api_away, api_slow, at_some_moment, nothing
from prefect_trial import Fault
from prefect_worker_trial import KILLED, STARTED_AGAIN, WorkerTrial

from torchx_core.testing import wait_until

__all__ = ["WORKER_FAULTS"]

TAKEN_UP_S = 60.0
"""How long a frozen worker waits for a colleague that takes its flow run up, at most."""


def _worker_killed(trial: WorkerTrial) -> None:
    """SIGKILL the worker around its submit or while the app runs, once or twice, and start another."""
    _end_worker(trial, signal.SIGKILL)


def _worker_terminated(trial: WorkerTrial) -> None:
    """SIGTERM the worker at such a moment, and start another."""
    _end_worker(trial, signal.SIGTERM)


def _end_worker(trial: WorkerTrial, number: signal.Signals) -> None:
    name = "one"
    for _ in range(trial.rng.choice((1, 1, 2))):
        _around_its_work(trial)
        trial.signal_worker(number, name)
        trial.pause(2.0)
        name = trial.rng.choice(("one", "two"))
        trial.start_worker(name)


def _around_its_work(trial: WorkerTrial) -> None:
    """Wait for a moment around the submit, or one at which the app runs."""
    if trial.rng.random() < 0.5:
        trial.pause(10.0)
    else:
        trial.runs()
        trial.pause(3.0)


def _worker_frozen(trial: WorkerTrial) -> None:
    """SIGSTOP the worker until a colleague has taken its flow run up, or for some seconds."""
    _around_its_work(trial)
    trial.signal_worker(signal.SIGSTOP)
    trial.start_worker("two")
    if trial.rng.random() < 0.7:
        with suppress(AssertionError):
            wait_until(lambda: trial.is_taken_up() or trial.is_over(), TAKEN_UP_S)
    else:
        trial.pause(10.0)
    trial.signal_worker(signal.SIGCONT)


def _app_killed(trial: WorkerTrial) -> None:
    """SIGKILL the flow's process or its whole app, and have the flow run again when it has crashed."""
    at_some_moment(trial)
    if trial.is_over():
        return
    trial.hosts_may_end["FAILED"] = ("",)
    trial.kill_app(whole=trial.rng.random() < 0.5)
    trial.wait_for_end()
    state = trial.api.state()
    if state["type"] == "CRASHED":
        if not KILLED.search(str(state["message"])):
            trial.broken("wrong-run-message", f"{state['message']!r}")
        trial.begin_again()


def _cancelled(trial: WorkerTrial) -> None:
    """Cancel the flow run by the API."""
    at_some_moment(trial)
    if not trial.is_over():
        trial.cancel()


def _cancelled_alone(trial: WorkerTrial) -> None:
    """SIGKILL the worker, cancel the flow run by the API, and start another worker."""
    at_some_moment(trial)
    if not trial.is_over():
        trial.signal_worker(signal.SIGKILL)
        trial.cancel()
        trial.pause(5.0)
        trial.start_worker(trial.rng.choice(("one", "two")))


def _started_again(trial: WorkerTrial) -> None:
    """Have the flow run dispatched again while its app runs."""
    at_some_moment(trial)
    if trial.is_over():
        return
    trial.hosts_may_end["CANCELLED"] = (STARTED_AGAIN,)
    trial.begin_again()


WORKER_FAULTS: dict[str, Fault] = {
    "nothing": Fault(act=nothing, stretches=False),
    "worker-killed": Fault(act=_worker_killed),
    "worker-terminated": Fault(act=_worker_terminated),
    "worker-frozen": Fault(act=_worker_frozen),
    "app-killed": Fault(act=_app_killed),
    "cancelled": Fault(act=_cancelled, holds=True, stretches=False),
    "cancelled-alone": Fault(act=_cancelled_alone, holds=True, stretches=False),
    "started-again": Fault(act=_started_again),
    "api-away": Fault(act=api_away),
    "api-slow": Fault(act=api_slow),
}
