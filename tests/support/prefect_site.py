"""A Prefect server and whoever runs flows for it: a process that serves them, a worker, a script."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import prefect_flows
from daemons import ends
from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect_jobs import WAIT_S, Form, Job
from prefect_runs import FlowRun
from prefect_server import PrefectServer

__all__ = ["Site", "Way", "running_site"]

Way: TypeAlias = Literal["serve", "worker", "script"]
"""Who runs the flow: a process that serves it, a worker of a process pool, or nobody, it is a script."""

POOL = "processes"
PROGRAM = Path(prefect_flows.__file__)
GRACE_S = 1.0


class Site:
    """Start it, run flows in it, do to those who run them what fate does."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.server = PrefectServer(home / "prefect")
        self._state_dir = home / "state"
        self._supervisors: dict[Way, int] = {}
        self._runs: dict[Job, tuple[Way, dict[str, Any]]] = {}

    def begin(
        self, form: Form, way: Way, *, limit_s: float | None = None, each: int | None = None, **options: Any
    ) -> Job:
        """Have a flow run, and start who runs it if need be; return at once.

        Args:
            form: Where in the flow the app runs.
            way: Who runs it.
            limit_s: The task's `timeout_seconds`.
            each: How many lines the app writes at a time; a flow's body only.
            options: Of `run_app`.
        """
        folder = self._home / f"{form.replace('_', '-')}-{uuid4().hex[:8]}"
        folder.mkdir()
        given = {"session": folder.name, "cfg": {"grace_s": GRACE_S}, **options}
        if way == "script":  # each of its processes is a flow run of its own
            given.setdefault("idempotency_key", folder.name)
        job = Job(folder, form, self._state_dir, options.get("scheduler", "local_cwd"))
        self._runs[job] = way, {"folder": str(folder), "options": given, "limit_s": limit_s}
        if each:
            self._runs[job][1]["each"] = each
        self._run(job)
        return job

    def run_again(self, job: Job) -> None:
        """Have the job's flow run once more, whatever Prefect thinks of it."""
        way, _ = self._runs[job]
        if way == "script":
            self._run(job)
            return
        self.supervise(way)
        job.run.run_again()

    def _run(self, job: Job) -> None:
        way, parameters = self._runs[job]
        if way == "script":
            self._start(f"script-{job.session}", job.form, json.dumps(parameters))
            return
        self.supervise(way)
        FlowRun.ask(f"{job.form.replace('_', '-')}/{way}", **parameters)

    def supervise(self, way: Way) -> None:
        """Start who runs flows in this way, unless it runs."""
        if way in self._supervisors:
            return
        if way == "serve":
            self._supervisors[way] = self._start("serve")
        else:
            _deploy(way)
            words = ("-m", "prefect", "worker", "start", "--pool", POOL, "--name", "w")
            self._supervisors[way] = self._start_python("worker", *words)

    def end(self, way: Way, signum: signal.Signals) -> None:
        """End who runs flows in this way with a signal."""
        os.kill(self._supervisors[way], signum)
        assert ends(self._supervisors.pop(way), WAIT_S)

    def _start(self, name: str, *args: str) -> int:
        return self._start_python(name, str(PROGRAM), *args)

    def _start_python(self, name: str, *args: str) -> int:
        return self.server.run(name, *args, TORCHX_STATE_DIR=str(self._state_dir))


@contextmanager
def running_site(home: Path) -> Iterator[Site]:
    """Yield one whose server runs, and which this process uses."""
    site = Site(home)
    try:
        site.server.start()
        with site.server.here():
            yield site
    finally:
        site.server.stop()


def _deploy(name: str) -> None:
    """Make a deployment of that name for every flow, for the worker's pool."""
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"), overwrite=True)
        for flow in prefect_flows.FLOWS:
            client.create_deployment(
                client.create_flow_from_name(flow.name),
                name,
                work_pool_name=POOL,
                path=str(PROGRAM.parent),
                entrypoint=f"{PROGRAM.name}:{flow.fn.__name__}",
            )
