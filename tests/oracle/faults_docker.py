"""What is done to an engine, and between it and us."""

from __future__ import annotations

import random

from backends import DockerBackend
from docker_proxy import DockerProxy
from fault import DOCKER, disturbs, may_be_unstarted, submits
from trial import Trial

from torchx_core.errors import SchedulerError

CRASH_POINTS = (
    (r"^POST \S+/containers/create", 0),
    (r"^POST \S+/containers/create", 0),
    (r"^POST \S+/volumes/create", 0),
    (r"^POST \S+/volumes/create", 1),
    (r"^POST \S+/containers/\S+/start", 0),
    (r"^PUT \S+/archive", 0),
)
"""Requests at which a submitter dies, each by its first line and how many like it have come before."""


@submits(DOCKER)
def engine_restarted_in_submit(trial: Trial) -> None:
    """SIGKILL a submitter between two requests, restart the engine, and submit again."""
    trial.use_backend_of_its_own()
    _kill_at_a_request(trial, _proxy(trial))
    _restart(trial)
    trial.excuse("FAILED", "the engine was stopped")  # it ends what it is about to start
    if trial.status() is not None:  # so there is an app, and its id is taken
        trial.submit_another()
    trial.submit()


@submits(DOCKER)
def submitter_killed_at_a_request(trial: Trial) -> None:
    """SIGKILL a submitter between two requests, and submit again."""
    _kill_at_a_request(trial, _proxy(trial))
    trial.submit()


def _kill_at_a_request(trial: Trial, proxy: DockerProxy) -> None:
    pattern, number = trial.rng.choice(CRASH_POINTS)
    proxy.stop_at(pattern, number, after=trial.rng.random() < 0.3)
    process = trial.start_submit()
    trial.eventually(lambda: proxy.reached.is_set() or process.poll() is not None, "request")
    process.kill()
    trial.finish_submit(process, may_fail=True)
    proxy.calm()
    may_be_unstarted(trial)


def _submit_to_own_engine(trial: Trial) -> None:
    trial.use_backend_of_its_own()
    trial.tolerated = (SchedulerError,)
    trial.submit()


@disturbs(DOCKER, holds=False, submit=_submit_to_own_engine)
def engine_restarted(trial: Trial) -> None:
    """Kill or end the engine of a running app, whose containers live on, and start it again."""
    trial.started()
    trial.pause(0.5)
    _restart(trial)


def _submit_badly(trial: Trial) -> None:
    """Submit through a bad connection until it succeeds, and once more through a good one."""
    proxy = _proxy(trial)
    trial.tolerated = (SchedulerError,)
    proxy.harass(random.Random(trial.scenario.seed))
    for _ in range(trial.rng.choice((1, 2, 4))):
        if trial.finish_submit(trial.start_submit(), may_fail=True):
            break
    may_be_unstarted(trial)
    proxy.calm()
    trial.submit()
    proxy.harass(random.Random(trial.scenario.seed + 1))
    trial.proxy = proxy


@disturbs(DOCKER, holds=False, submit=_submit_badly)
def engine_answers_badly(trial: Trial) -> None:
    """Have answers of the engine come late, broken, cut, or not at all, also while the app is submitted."""
    trial.eventually(lambda: not trial.is_followed or trial.is_over(), "end")
    assert trial.proxy is not None
    trial.proxy.calm()


def _proxy(trial: Trial) -> DockerProxy:
    assert isinstance(trial.backend, DockerBackend)
    return trial.put_between(trial.backend)


def _restart(trial: Trial) -> None:
    assert isinstance(trial.backend, DockerBackend)
    kill = trial.rng.random() < 0.5
    trial.promises.may_lose_unfinished = True
    trial.promises.may_lose_unnoticed = kill
    # An engine that forgets the retry of a replica that fails at that moment may be unable to make up for it.
    trial.excuse("FAILED", ": already exists", ": file exists")
    trial.backend.restart(kill=kill)
