"""A scheduler as a third party writes one for TorchX: only TorchX's interface, nothing of ours.

Each app is a directory of files, so that its processes outlive whoever submitted them. It tells no exit
codes, mixes the two outputs, knows no grace period, and names its apps itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import requests
import urllib3
from torchx.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, split_lines
from torchx.schedulers.ids import make_unique
from torchx.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    ReplicaStatus,
    Role,
    RoleStatus,
    is_terminal,
    macros,
    runopts,
)

PLACE = "TORCHX_SHELF"
"""The variable that says where the apps lie."""
DIES = "TORCHX_SHELF_DIES"
"""The variable that says when to die in ``schedule`` (``before``, ``half``, ``after``), or how to fail.

``raise`` is a refusal half way; ``lost`` a connection that ends, ``reset`` one that ends where a file was
missed before, ``killed`` a command that is killed, and ``refused`` a connection that nobody accepts, each
when the app was submitted.
"""


class Request(dict[str, Any]):
    """Commands and environment of each replica, by role."""

    app_id: str


class Shelf(Scheduler[Any]):  # type: ignore[misc]  # TorchX has no types
    """Keeps apps on a shelf."""

    def __init__(self, session_name: str) -> None:
        super().__init__("shelf", session_name)
        self._place = Path(os.environ[PLACE])

    def _run_opts(self) -> runopts:
        opts = runopts()
        opts.add("label", type_=str, help="what to write on it", default="none")
        opts.add("fragile", type_=bool, help="whether to refuse it", default=False)
        return opts

    def _validate(self, app: AppDef, scheduler: str, cfg: Any) -> None:
        if cfg.get("fragile"):
            raise ValueError(f"{app.name} is too fragile for {scheduler}")

    def _submit_dryrun(self, app: AppDef, cfg: Any) -> AppDryRunInfo[Any, Any]:
        del cfg
        request = Request(
            {role.name: list(map(_command, [role] * role.num_replicas, range(99))) for role in app.roles}
        )
        request.app_id = make_unique(app.name)
        return AppDryRunInfo(request, repr)

    def schedule(self, dryrun_info: AppDryRunInfo[Any, Any]) -> str:
        request = dryrun_info.request
        _come_to("before")
        for role, commands in request.items():
            for k, (argv, env) in enumerate(commands):
                box = self._place / request.app_id / role / str(k)
                box.mkdir(parents=True)
                self._start(box, argv, env)
                _come_to("half", "raise")
        _come_to("after", "lost", "reset", "killed", "refused")
        return str(request.app_id)

    def _start(self, box: Path, argv: list[str], env: dict[str, str]) -> None:
        script = '"$@" >"$BOX/log" 2>&1; echo $? >"$BOX/code.new"; mv "$BOX/code.new" "$BOX/code"'
        process = subprocess.Popen(
            ["sh", "-c", f'({script}) & echo $! >"$BOX/pid"', "sh", *argv],
            env={**os.environ, **env, "BOX": str(box)},
            start_new_session=True,
        )
        (box / "group").write_text(str(process.pid))
        process.wait()

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        if not (self._place / app_id).is_dir():
            return None
        response = DescribeAppResponse(app_id=app_id)
        for role in sorted((self._place / app_id).iterdir()):
            replicas = [
                ReplicaStatus(id=int(box.name), state=_state(box), role=role.name, hostname="shelf")
                for box in sorted(role.iterdir())
            ]
            response.roles_statuses.append(RoleStatus(role.name, replicas))
        states = [replica.state for role in response.roles_statuses for replica in role.replicas]
        response.state = max(states) if all(map(is_terminal, states)) else AppState.RUNNING
        return response

    def list(self, cfg: Any = None) -> list[ListAppResponse]:
        del cfg
        found = [(app.name, self.describe(app.name)) for app in self._place.iterdir()]
        return [ListAppResponse(app_id=name, state=seen.state) for name, seen in found if seen]

    def _cancel_existing(self, app_id: str) -> None:
        for box in (self._place / app_id).glob("*/*"):
            if not (box / "code").exists():
                os.killpg(int((box / "group").read_text()), signal.SIGKILL)
                (box / "code").write_text("137")

    def log_iter(self, app_id: str, role_name: str, k: int = 0, *_: Any, **__: Any) -> Iterable[str]:
        text = (self._place / app_id / role_name / str(k) / "log").read_bytes().decode()
        return list(split_lines(text))


def _come_to(*moments: str) -> None:
    """Die, or fail, if that is asked of this moment."""
    wanted = os.environ.get(DIES)
    if wanted not in moments:
        return
    if wanted == "raise":
        raise RuntimeError("the shelf is full")
    if wanted == "lost":
        raise urllib3.exceptions.ProtocolError("Connection aborted.")
    if wanted == "reset":
        try:
            Path("/no/credentials").read_text()
        except FileNotFoundError:
            raise ConnectionResetError(104, "Connection reset by peer")  # noqa: B904
    if wanted == "killed":
        subprocess.run(["sh", "-c", "kill -KILL $$"], check=True)
    if wanted == "refused":
        raise requests.exceptions.ConnectionError("no way there") from ConnectionRefusedError(111, "refused")
    os.kill(os.getpid(), signal.SIGKILL)


def _command(role: Role, k: int) -> tuple[list[str], dict[str, str]]:
    values = macros.Values(img_root="", app_id=macros.app_id, replica_id=str(k), rank0_env="RANK0")
    filled = values.apply(role)
    return [filled.entrypoint, *filled.args], filled.env


def _state(box: Path) -> AppState:
    try:
        return AppState.FAILED if int((box / "code").read_text()) else AppState.SUCCEEDED
    except FileNotFoundError:
        return AppState.RUNNING


def create_scheduler(session_name: str, **_: Any) -> Shelf:
    """Make one, as an entry point of TorchX does."""
    return Shelf(session_name)
