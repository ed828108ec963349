"""What is done to a Prefect flow run and to its server while its apps run, and what that excuses."""

from __future__ import annotations

import os
import signal

from prefect_trial import Fault, PrefectTrial

__all__ = ["FAULTS", "api_away", "api_slow", "at_some_moment", "nothing"]


def nothing(_trial: PrefectTrial) -> None:
    """Let the flow run to its end."""


def _flow_killed(trial: PrefectTrial) -> None:
    """SIGKILL the flow's process at a random moment, some times, and have the flow run again."""
    _end_and_begin_again(trial, signal.SIGKILL)


def _flow_terminated(trial: PrefectTrial) -> None:
    """SIGTERM the flow's process at a random moment, some times, and have the flow run again."""
    _end_and_begin_again(trial, signal.SIGTERM)


def _end_and_begin_again(trial: PrefectTrial, number: int) -> None:
    for start in range(trial.rng.choice((1, 1, 2))):
        trial.starts(start + 1)
        if trial.rng.random() < 0.8:
            trial.runs()
        trial.pause(4.0)
        if trial.is_over():
            return
        trial.signal(number)
        trial.wait_for_end()
        trial.begin_again()


def _flow_frozen(trial: PrefectTrial) -> None:
    """SIGSTOP the flow's process for a while."""
    trial.starts()
    trial.pause(4.0)
    trial.signal(signal.SIGSTOP)
    trial.pause(4.0)
    trial.signal(signal.SIGCONT)


def _cancelled(trial: PrefectTrial) -> None:
    """Cancel the flow run by the API, and do what Prefect's runner then does."""
    at_some_moment(trial)
    if not trial.is_over():
        trial.cancel(trial.rng.choice((os.kill, os.killpg)))


def _cancelled_script(trial: PrefectTrial) -> None:
    """Cancel the flow run by the API, where nobody tells its process."""
    at_some_moment(trial)
    if trial.is_over():
        return
    trial.api.set_state("CANCELLING")
    trial.cancelled()


def at_some_moment(trial: PrefectTrial) -> None:
    """Wait until the flow has begun, mostly until its apps run."""
    trial.starts()
    if trial.rng.random() < 0.8:
        trial.runs()
    trial.pause(2.0)


def _left_alone(trial: PrefectTrial) -> None:
    """SIGKILL the flow's process, and leave it at that: the lease ends what it ran."""
    trial.runs()
    trial.pause(2.0)
    if trial.is_over():  # its apps have failed by themselves
        return
    trial.excuse("lease expired")
    trial.signal(signal.SIGKILL)
    trial.wait_for_end()
    trial.ends_as = {"RUNNING"}


def _killed_and_cancelled(trial: PrefectTrial) -> None:
    """SIGKILL the flow's process, have the flow run again, and cancel it soon after that."""
    trial.runs()
    trial.pause(2.0)
    trial.signal(signal.SIGKILL)
    trial.wait_for_end()
    trial.has_rest = False  # of an app that ends before it is found again nobody shows the rest
    trial.begin_again()
    trial.starts(2)
    trial.pause(2.0)
    if not trial.is_over():
        trial.cancel()


def api_away(trial: PrefectTrial) -> None:
    """Have the API away for some seconds, once or twice."""
    for _ in range(trial.rng.choice((1, 2))):
        trial.runs()
        trial.pause(3.0)
        trial.proxy.go_away()
        trial.pause(8.0)
        trial.proxy.away = False


def api_slow(trial: PrefectTrial) -> None:
    """Let every request take a tenth of a second longer."""
    trial.proxy.delay_s = 0.1


def _api_deaf(trial: PrefectTrial) -> None:
    """Break connections off after the server has served a request, and before it has answered."""
    trial.proxy.cuts = trial.rng.choice((1, 3, 10))


def _api_away_and_killed(trial: PrefectTrial) -> None:
    """SIGKILL the flow's process while the API is away, and have the flow run again."""
    trial.runs()
    trial.pause(3.0)
    trial.proxy.go_away()
    trial.pause(5.0)
    if trial.is_over():
        trial.proxy.away = False
        return
    trial.signal(signal.SIGKILL)
    trial.wait_for_end()
    trial.proxy.away = False
    trial.begin_again()


FAULTS: dict[str, Fault] = {
    "nothing": Fault(act=nothing, stretches=False),
    "flow-killed": Fault(act=_flow_killed),
    "flow-terminated": Fault(act=_flow_terminated),
    "flow-frozen": Fault(act=_flow_frozen),
    "cancelled": Fault(act=_cancelled, holds=True, stretches=False),
    "cancelled-script": Fault(act=_cancelled_script, holds=True, stretches=False, supervised=False),
    "killed-and-cancelled": Fault(act=_killed_and_cancelled, holds=True, stretches=False),
    "left-alone": Fault(act=_left_alone, holds=True, stretches=False, leaves=True, options={"lease_s": 15.0}),
    "api-away": Fault(act=api_away),
    "api-slow": Fault(act=api_slow),
    "api-deaf": Fault(act=_api_deaf),
    "api-away-and-killed": Fault(act=_api_away_and_killed),
}
