"""What Slurm does for an app once it has nodes, without Slurm: tasks that share a directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import psutil

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.schedulers.slurm.node.parts import RECORD
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.submit import packed
from torchx_core.specs import AppDef, CfgVal, Role

__all__ = ["PATIENCE_S", "Nodes", "below", "run_ends"]

PATIENCE_S = 240.0


class Nodes:
    """What Slurm does for an app once it has nodes: a task per replica."""

    def __init__(self, root: Path) -> None:
        self.app_dir = root
        self.logs = root / "log"
        self.tasks: list[subprocess.Popen[bytes]] = []

    def prepare(self, *scripts: str, cfg: dict[str, CfgVal] | None = None, max_retries: int = 0) -> None:
        """Write down an app with a role per shell script."""
        roles = [
            Role(f"r{i}", "", entrypoint="sh", args=["-c", script], max_retries=max_retries)
            for i, script in enumerate(scripts)
        ]
        with Runner("s", {"slurm": create_scheduler}) as runner:
            request = cast("SlurmRequest", runner.dryrun(AppDef("a", roles), "slurm", cfg or {}).request)
        for row in cast("list[dict[str, object]]", request.plan["replicas"]):
            row["log_dir"] = str(self.logs / str(row["role"]))
        self.app_dir.mkdir(exist_ok=True)
        (self.app_dir / "plan.json").write_text(json.dumps(request.plan))
        (self.app_dir / "shim.pyz").write_bytes(packed())
        self.begin(0)

    def begin(self, run: int) -> None:
        """Note that a run of the job begins, as the batch script does."""
        note = {"job_id": "7", "time": 0, "nodes": "n"}
        (self.app_dir / f"run.{run}.json").write_text(json.dumps(note))

    def start(self, replica: int, *, run: int = 0, by: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start the task of a replica, directly or by a command that takes its command line."""
        env = {**os.environ, "SLURM_PROCID": str(replica), "SLURM_RESTART_COUNT": str(run)}
        command = [*by, sys.executable, str(self.app_dir / "shim.pyz"), "replica", str(self.app_dir)]
        self.tasks.append(subprocess.Popen(command, env=env, start_new_session=True))
        return self.tasks[-1]

    def output(self, role: str, attempt: int = 0, name: str = "combined.log") -> bytes:
        """Return what a replica has printed."""
        with suppress(FileNotFoundError):
            return (self.logs / role / str(attempt) / name).read_bytes()
        return b""

    def read(self, name: str) -> Any:  # JSON
        """Return one of the app's records, or None."""
        with suppress(FileNotFoundError):
            return json.loads((self.app_dir / name).read_text())
        return None

    def end(self, role: str, attempt: int = 0) -> Any:  # JSON
        """Return the record of an attempt's end, or None."""
        return self.read(f"log/{role}/{attempt}/end.json")


def below(pid: int) -> list[psutil.Process]:
    """Return its children, and theirs."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def run_ends(index: bytes) -> list[int]:
    """Return where each run of lines ends, as an attempt's index has it."""
    return [int(row[1]) for row in RECORD.iter_unpack(index)]
