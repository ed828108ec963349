"""A real Prefect server with a database of its own, which a test may kill and start again."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from daemons import ends, environ, free_port, start_daemon
from engine_database import made_once
from local_apps import processes

from torchx_core.testing import wait_until

__all__ = ["DATABASE", "ONE_CERTIFICATE", "SETTINGS", "PrefectServer", "talking_to"]

PROGRAM = Path(__file__).with_name("prefect_serve.py")
START_S = 900.0
"""Ten seconds on an idle host."""
STOP_S = 15.0
DATABASE = "PREFECT_API_DATABASE_CONNECTION_URL"
"""The variable with the database of a server that has another one than SQLite."""

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_COLORS": "false",
    "PREFECT_CLI_COLORS": "false",
    # On a busy host a writer waits longer for the others; then the server answers 503.
    "PREFECT_SERVER_DATABASE_TIMEOUT": "240",
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "240",
    # What waits for its next look would make every test wait.
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_WORKER_PREFETCH_SECONDS": "1",
}
"""What everything of Prefect in a test is told."""


ONE_CERTIFICATE = str(Path(__file__).with_name("one_certificate.pem"))
"""All that Prefect's clients shall trust, by `PREFECT_API_SSL_CERT_FILE`.

Each reads every authority's certificate before it begins, also where nothing is encrypted, and Prefect makes
a client for nearly everything: that was a third of the CPU time of a flow run.
"""


class PrefectServer:
    """Start it, kill it, start it again with what it knew, and start other processes that talk to it."""

    def __init__(self, home: Path) -> None:
        """Do nothing yet.

        Args:
            home: Where its database and the output of all processes go.
        """
        self._home = home
        self._address = "127.0.0.1"
        self._port = free_port()
        self.url = f"http://{self._address}:{self._port}/api"
        self._pids: list[int] = []
        self._server = 0
        # Of now: a process that outlives the test that starts it must not carry that test's mark.
        self._env: dict[str, str] = {
            **os.environ,
            **SETTINGS,
            "PREFECT_HOME": str(home),
            "PREFECT_UI_API_URL": self.url,
        }

    def start(self) -> None:
        """Start it on its port and its database, and wait until it answers."""
        self._home.mkdir(parents=True, exist_ok=True)
        with made_once(None if DATABASE in self._env else self._home / "prefect.db"):
            address = ("--host", self._address, "--port", str(self._port))
            # SQLite's temporary files may be there while a test looks for what it has left in its own folder.
            own_folder = {"TMPDIR": str(self._home)}
            self._server = self._start("server", str(PROGRAM), "server", "start", *address, **own_folder)
            wait_until(lambda: self._answers() or ends(self._server, 0), START_S)
            assert not ends(self._server, 0), self.output("server")

    def kill(self) -> None:
        """SIGKILL it."""
        os.kill(self._server, signal.SIGKILL)
        assert ends(self._server, STOP_S)

    def run(self, name: str, *args: str, **env: str) -> int:
        """Start a Python that talks to the server; return its process id."""
        return self._start(name, *args, PREFECT_API_URL=self.url, **env)

    def output(self, name: str) -> str:
        """Return what the processes of that name have printed."""
        return self._log(name).read_text(errors="replace")

    def stop(self) -> None:
        """End the server and every process that was started here."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            for pid in reversed(self._pids):
                if not ends(pid, 0):
                    os.kill(pid, signum)
            self._pids = [pid for pid in self._pids if not ends(pid, STOP_S)]
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self) -> list[int]:
        """Return the processes that outlived who started them, by the home that they were given."""
        home = f"PREFECT_HOME={self._home}".encode()
        return [pid for pid in processes() if home in environ(pid).split(b"\0")]

    def here(self) -> AbstractContextManager[None]:
        """Let this process talk to the server."""
        return talking_to(self.url)

    def _start(self, name: str, *args: str, **env: str) -> int:
        pid = start_daemon([sys.executable, *args], {**self._env, **env}, self._log(name))
        self._pids.append(pid)
        return pid

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def _answers(self) -> bool:
        with closing(HTTPConnection(self._address, self._port, timeout=10)) as connection:
            try:
                connection.request("GET", "/api/health")
                return connection.getresponse().status == HTTPStatus.OK
            except (OSError, HTTPException):
                return False


@contextmanager
def talking_to(url: str) -> Iterator[None]:
    """Let this process talk to the server at that address."""
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    # A flow with heartbeats ends a second late: it joins a thread that sleeps in whole seconds.
    with temporary_settings({PREFECT_API_URL: url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield
        APILogWorker.drain_all(timeout=10)  # at exit it would find no server
