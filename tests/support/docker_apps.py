"""Apps on a Docker Engine, as tests submit and look at them: by their status, without following."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import docker
from docker_images import PYTHON_IMAGE

from torchx_core.runner import Runner
from torchx_core.schedulers.docker import create_scheduler
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.endpoint import find_endpoint
from torchx_core.schedulers.docker.sdk import Api, sdk_client
from torchx_core.specs import AppDef, AppStatus, Role
from torchx_core.testing import wait_until
from torchx_core.testing.program import python_program
from torchx_core.testing.steps import Step

__all__ = ["SESSION", "app", "connected", "end", "logs", "make_runner", "new_runner", "role", "states"]

SESSION = "tests"
_PATIENCE_S = 240.0


def make_runner(url: str, session: str = SESSION) -> Runner:
    """Return a runner whose only scheduler is this engine's."""
    return Runner(session, {"local_docker": functools.partial(create_scheduler, docker_host=url)})


@contextmanager
def new_runner(url: str, session: str = SESSION) -> Iterator[Runner]:
    """Yield a runner; cancel and delete afterwards whatever apps its session has."""
    with make_runner(url, session) as runner:
        yield runner
        for row in runner.list("local_docker"):
            runner.cancel(row.app_handle, grace_s=0, reason="end of the test")
        for row in runner.list("local_docker"):
            end(runner, row.app_handle)
            runner.delete(row.app_handle)


def role(name: str, *steps: Step, **fields: object) -> Role:
    """Return a role that carries out the steps."""
    entrypoint, args = python_program(*steps)
    return Role(**{"name": name, "image": PYTHON_IMAGE, "entrypoint": entrypoint, "args": args, **fields})  # type: ignore[arg-type]  # a test's own


def app(*steps: Step, **fields: object) -> AppDef:
    """Return an app whose only role, ``worker``, carries out the steps."""
    return AppDef("app", [role("worker", *steps, **fields)])


def end(runner: Runner, handle: str) -> AppStatus:
    """Ask for the status until the app has ended; there is such an app."""

    def ended() -> AppStatus | None:
        status = runner.status(handle)
        assert status is not None
        return status if status.is_terminal() else None

    return wait_until(ended, _PATIENCE_S)


def states(status: AppStatus) -> dict[str, str]:
    """Return the state of each replica by its address."""
    return {f"{r.role}/{r.id}": str(r.state) for group in status.roles for r in group.replicas}


def logs(client: docker.DockerClient) -> list[str]:
    """Return what all containers have printed, without the marks of their attempts."""
    printed = [c.logs().decode() for c in client.containers.list(all=True)]
    return sorted(
        line
        for text in printed
        for line in text.removesuffix("\n").split("\n")
        if not line.startswith("\x1e")
    )


def connected(url: str, wrap: Callable[[Api], Api] = lambda api: api) -> Engine:
    """Return our client of the engine; ``wrap`` may put something between."""
    endpoint = find_endpoint(url, cast("Mapping[str, str]", {}))
    return Engine(wrap(sdk_client(endpoint)), endpoint)


class DyingApi:
    """Passes calls on, and kills this process when so many have been answered."""

    def __init__(self, api: Api, calls: int) -> None:
        self._api = api
        self._left = calls

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._api, name)
        return functools.partial(self._call, value) if callable(value) else value

    def _call(self, act: Callable[..., object], *args: object, **kwargs: object) -> object:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1
        return act(*args, **kwargs)
