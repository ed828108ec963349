"""Apps for the tests of the command line, and what a command line came to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from torchx_core import AppDef, AppStatus, Role, get_runner
from torchx_core.specs import CfgVal
from torchx_core.testing import Step, python_program


class Done(NamedTuple):
    """Exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[dict[str, object]]:
        """The documents on stdout, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


Cli: TypeAlias = Callable[..., Done]


def app_of_steps(*steps: Step, replicas: int = 1, max_retries: int = 0) -> AppDef:
    """Return an app whose role ``main`` carries out the steps."""
    entrypoint, args = python_program(*steps)
    role = Role("main", "", entrypoint=entrypoint, args=args, num_replicas=replicas, max_retries=max_retries)
    return AppDef("app", [role])


def app_file(*steps: Step, replicas: int = 1, max_retries: int = 0) -> str:
    """Write such an app into the working directory and return the file's name."""
    Path("app.json").write_text(app_of_steps(*steps, replicas=replicas, max_retries=max_retries).to_json())
    return "app.json"


def submitted(
    *steps: Step, app_id: str = "x", replicas: int = 1, cfg: dict[str, CfgVal] | None = None
) -> str:
    """Submit such an app and return its handle."""
    with get_runner() as runner:
        return runner.run(app_of_steps(*steps, replicas=replicas), "local_cwd", cfg, app_id=app_id)


def ended(app_handle: str) -> AppStatus:
    """Wait until the app has ended and return its status."""
    with get_runner() as runner:
        status = runner.wait(app_handle, timeout_s=240)
    assert status is not None
    return status


def cut_short(app_handle: str) -> AppStatus:
    """End the app, which is being cancelled and serves a long grace period, at once; return its status."""
    assert state_of(app_handle) == "RUNNING"
    with get_runner() as runner:
        runner.cancel(app_handle, grace_s=0)
    return ended(app_handle)


def state_of(app_handle: str) -> str:
    """Return what another process would see."""
    with get_runner() as runner:
        status = runner.status(app_handle)
    return "gone" if status is None else str(status.state)
