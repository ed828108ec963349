"""Runs trials in Prefect: flows in every form, by a process each or a worker, against a real server."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, final

from engines import Engine, Judged
from prefect_faults import FAULTS
from prefect_server import PrefectServer
from prefect_trial import FORMS, PrefectTrial
from prefect_worker_faults import WORKER_FAULTS
from prefect_worker_trial import WORKER, WorkerTrial

__all__ = ["ENGINE"]

HERE = Path(__file__).parent
START_S = 180.0
"""How long the host may take to import Prefect, on a busy machine."""


@final
class PrefectEngine(Engine):
    """One server, and one host for the processes of flow runs."""

    name: ClassVar[str] = "prefect"
    faults: ClassVar[Mapping[str, tuple[str, ...]]] = {
        form: tuple(WORKER_FAULTS if form == WORKER else FAULTS) for form in FORMS
    }

    def start(self, stack: ExitStack, root: Path) -> None:
        """Start the server and the host."""
        home = root / "prefect"
        self._server = PrefectServer(home)
        stack.callback(self._server.stop)
        self._server.start()
        self._host = str(home / "host")
        host = subprocess.Popen(
            [sys.executable, str(HERE / "prefect_host.py"), self._host],
            env={**os.environ, "PREFECT_HOME": str(home), "PREFECT_API_URL": self._server.url},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        stack.callback(_end, host)
        assert host.stdout is not None
        assert select.select([host.stdout], [], [], START_S)[0], "the host does not start"
        assert host.stdout.readline() == b"ready\n", "the host did not start"

    def trial(self, form: str, fault: str, seed: int, root: Path) -> Judged:
        """Run one trial, and judge it."""
        kind, faults = (WorkerTrial, WORKER_FAULTS) if form == WORKER else (PrefectTrial, FAULTS)
        return kind(form, fault, faults[fault], seed, root, self._server.url, self._begin).run()

    def _begin(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        """Start a process that runs a module with words, as Python does with ``-m``; return its id."""
        request = {"words": list(words), "env": dict(environment), "log": str(log)}
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self._host)
            with client.makefile("rw") as file:
                file.write(json.dumps(request) + "\n")
                file.flush()
                return int(file.readline())


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


ENGINE = PrefectEngine()
