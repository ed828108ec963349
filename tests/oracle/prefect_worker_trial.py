"""One trial on a torchx worker: it runs the flow run as an app, whose process runs the flow.

The flow is one that calls `run_app`, and not the witness itself as the job's command: only a flow has a final
state, a result and a log that Prefect shows. So the witnesses of its apps judge the whole chain: worker, flow
process and `run_app`. The process notes its own start and holds a lock, as a witness does: two that run one
flow run are found.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, final

from daemons import ends, environ
from judge import Violation
from local_apps import processes
from prefect_judge import HostSeen, judge_hosts
from prefect_server import SETTINGS
from prefect_trial import PrefectTrial
from typing_extensions import override

from torchx_core import get_runner
from torchx_core.specs import is_terminal

__all__ = ["KILLED", "WORKER", "WorkerTrial"]

WORKER = "worker"
"""The form's name."""
HOSTS = "torchx"
"""The session of the apps that run flows."""
OVER = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
STARTED_AGAIN = "cancelled because the Prefect flow run was started again"
KILLED = re.compile(r"SIGKILL|-9\b")
"""How a crashed flow run says that its process was killed; Prefect gives a negative exit code."""


@final
class WorkerTrial(PrefectTrial):
    """Its processes are the workers of a pool of its own."""

    limit_s: ClassVar[float] = 900.0
    """Four programs import Prefect one after the other, until a flow has begun."""
    _workers: dict[str, int]

    @override
    def _create(self) -> None:
        self._workers = {}
        self.dispatches = 1
        """How often the flow run was handed to a worker, at most."""
        self.hosts_may_end: dict[str, tuple[str, ...]] = {}
        """States of the apps that run the flow, and what is in the message of each that is excused."""
        self._pool = f"oracle-{self.root.name}"
        self.api.create_in_pool("direct", "prefect_program.direct", self.root, pool=self._pool)

    # --- what a fault uses

    @override
    def begin(self) -> None:
        self.start_worker("one")

    @override
    def begin_again(self) -> None:
        """Have the flow run handed to a worker once more, whatever Prefect thinks of it."""
        self.dispatches += 1
        self.api.set_state("SCHEDULED")

    def start_worker(self, name: str) -> None:
        """Start a worker of that name."""
        words = ["prefect", "worker", "start", "-t", "torchx", "-p", self._pool, "-n", name]
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        environment = {
            **SETTINGS,
            "PREFECT_API_URL": self.proxy.url,
            "PREFECT_WORKER_HEARTBEAT_SECONDS": "2",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TORCHX_STATE_DIR": str(self.root / "state"),
        }
        self._workers[name] = self._begin(words, environment, self.root / "workers.log")
        self.pids.append(self._workers[name])

    def signal_worker(self, number: int, name: str = "one") -> None:
        """Send a worker a signal, and wait for the end of one that is to end by it."""
        pid = self._workers[name]
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if number in {signal.SIGKILL, signal.SIGTERM}:
            del self._workers[name]
        if number in {signal.SIGKILL, signal.SIGTERM} and not ends(pid, self.limit_s):
            self.broken("hang", f"worker {name} does not end")

    def kill_app(self, *, whole: bool) -> None:
        """SIGKILL the process in which the flow began last; or the whole app: the one that started that."""
        start = self._notes("starts")[-1]
        with suppress(ProcessLookupError):
            os.kill(start["parent" if whole else "pid"], signal.SIGKILL)

    @override
    def cancel(self, send: object = None) -> None:
        """Cancel the flow run by the API, and leave the rest to Prefect and the worker."""
        self.api.set_state("CANCELLING", force=False)
        self.cancelled()
        self.hosts_may_end["CANCELLED"] = ("cancelled because the Prefect flow run was cancelled",)
        self.hosts_may_end["FAILED"] = ("",)  # Prefect's own exit code

    def is_taken_up(self) -> bool:
        """Return whether another worker has said that it takes the flow run up."""
        return any("takes up this flow run" in each["message"] for each in self.api.records())

    @override
    def is_over(self) -> bool:
        """Return whether the flow run has a final state; start workers again that have ended by themselves.

        Prefect's worker gives up where a busy server does not answer at its start; a service manager helps.
        """
        for name in [name for name, pid in self._workers.items() if ends(pid, 0)]:
            self.start_worker(name)
        return self.api.state()["type"] in OVER

    @override
    def wait_for_end(self) -> None:
        """Wait for the flow run's final state."""
        self.eventually(self.is_over, "end of the flow run")

    # --- the end

    @override
    def _wait_for_apps(self) -> None:
        """Wait until the apps are over; then nothing may run that a worker ever started."""
        over = self.eventually(lambda: all(host.is_over for host in self._hosts()), "end of the flow's apps")
        for name in list(self._workers):
            self.signal_worker(signal.SIGKILL, name)
        if over and not self.eventually(lambda: not self._left(), "end of the last process"):
            self.violations += [Violation("left-running", " ".join(_words(pid))) for pid in self._left()]
        if self.api.state()["type"] == "FAILED":  # Prefect's own exit code for a flow that failed
            self.hosts_may_end.setdefault("FAILED", ("exit code 1",))
        self.violations += judge_hosts(
            self._hosts(), self._notes("starts"), dispatches=self.dispatches, may_end=self.hosts_may_end
        )

    def _hosts(self) -> list[HostSeen]:
        found = []
        with get_runner(HOSTS, state_dir=str(self.root / "state")) as runner:
            for app in runner.list("local_cwd"):
                status = runner.status(app.app_handle)
                assert status is not None
                over = is_terminal(status.state)
                why = f"{status.msg} {status.failure_summary()}"
                found.append(
                    HostSeen(handle=app.app_handle, state=status.state.name, message=why, is_over=over)
                )
        return found

    def _left(self) -> list[int]:
        """Return the processes that run in the trial's place: workers have another environment."""
        mark = f"TORCHX_STATE_DIR={self.root / 'state'}".encode()
        return [pid for pid in processes() if mark in environ(pid).split(b"\0")]

    @override
    def _clean(self) -> None:
        super()._clean()
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _words(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []
