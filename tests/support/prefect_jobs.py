"""A flow run whose apps write their lines when the test lets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from uuid import UUID

from local_apps import cmdline, has_no_line_after, running
from prefect_runs import FlowRun, ask_until

from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, AppState, AppStatus
from torchx_core.testing import wait_until

__all__ = ["FORMS", "WAIT_S", "Form", "Job"]

WAIT_S = 240.0

Form: TypeAlias = Literal[
    "direct",
    "submitted",
    "mapped",
    "async_direct",
    "async_submitted",
    "sync_in_async",
    "body",
    "pooled",
    "nested",
]
"""Where in a flow the app runs; the flows of `prefect_flows` have these names."""

FORMS: tuple[Form, ...] = tuple(form for form in get_args(Form) if form != "nested")
"""Those whose log is the flow run's: a subflow has a log of its own."""


class Job:
    """A flow run, its process, and its app; two apps when mapped."""

    def __init__(
        self,
        folder: Path,
        form: Form,
        state_dir: Path,
        scheduler: str = "local_cwd",
        docker_host: str | None = None,
    ) -> None:
        """Do nothing yet.

        Args:
            folder: Of this job alone; the words of all its apps' processes hold it.
            form: Where in the flow the app runs.
            state_dir: Of its apps.
            scheduler: Whose apps they are.
            docker_host: Its engine; None for the usual one.
        """
        self.folder = folder
        self.form: Form = form
        self.names = ("a", "b") if form == "mapped" else ("a",)
        self.hit_at = 0.0
        """When the test did to it what it is about; seconds since the epoch."""
        self._state_dir = state_dir
        self.scheduler = scheduler
        self._docker_host = docker_host

    @property
    def session(self) -> str:
        """The session of its apps, and of no other."""
        return self.folder.name

    @property
    def run(self) -> FlowRun:
        """The flow run; waits until it has begun."""
        return FlowRun(UUID(self.starts()[-1][1]))

    @property
    def pid(self) -> int:
        """The process that runs the flow, or did so last; waits until it has begun."""
        return int(self.starts()[-1][0])

    def starts(self, number: int = 1) -> list[list[str]]:
        """Wait until the flow has begun so many times; return the process and the flow run of each."""
        file = self.folder / "starts"
        found = wait_until(
            lambda: file.exists() and (n := file.read_text().splitlines())[number - 1 :] and n, WAIT_S
        )
        return [line.split() for line in found]

    def write(self, count: int) -> None:
        """Let every app write that many of its four parts, a line each; it ends after the last."""
        for i in range(count):
            (self.folder / str(i)).touch()

    def wait_for_lines(self, count: int) -> None:
        """Wait until the log shows so many lines of every app."""
        ask_until(lambda: set(self.lines()) >= {*self.first_lines(count)}, WAIT_S)

    def wait_for_saved_positions(self) -> None:
        """Wait until the server knows that the log shows all that the apps have written so far."""
        ask_until(lambda: all(self._is_at_its_end(*place) for place in self._saved_positions()), WAIT_S)

    def _saved_positions(self) -> list[tuple[AppHandle, str | None]]:
        return [(app, place.cursor if place else None) for app, place in self.run.saved_positions().items()]

    def _is_at_its_end(self, handle: AppHandle, cursor: str | None) -> bool:
        with self._runner() as runner:
            return has_no_line_after(runner, handle, cursor)

    def first_lines(self, count: int) -> list[str]:
        """Return the first lines of all its apps, sorted."""
        return sorted(f"line {name} {i}" for name in self.names for i in range(count))

    def lines(self) -> list[str]:
        """Return the apps' lines, as often as the log of the flow run shows them, sorted."""
        shown = (re.search(r"line [ab] \d+$", line) for line in self.run.lines())
        return sorted(found[0] for found in shown if found)

    def handles(self) -> list[AppHandle]:
        """Return every app there ever was, oldest first."""
        with self._runner() as runner:
            return [app.app_handle for app in runner.list(self.scheduler)]

    def owners(self) -> list[str | None]:
        """Return who holds each of them."""
        with self._runner() as runner:
            return [runner.owner(handle) for handle in self.handles()]

    def statuses(self) -> list[AppStatus]:
        """Return how they are doing."""
        with self._runner() as runner:
            found = [runner.status(handle) for handle in self.handles()]
        return [status for status in found if status is not None]

    def wait_for_apps(self) -> None:
        """Wait until every app runs: one that loses its submitter before that may never be started."""
        ask_until(lambda: len(self.handles()) == len(self.names), WAIT_S)
        waits = {AppState.SUBMITTED, AppState.PENDING}
        wait_until(lambda: waits.isdisjoint(status.state for status in self.statuses()), WAIT_S)

    def wait_for_end(self) -> list[AppStatus]:
        """Wait for the end of every app, without following any, which would renew its lease."""
        wait_until(lambda: all(status.is_terminal() for status in self.statuses()), WAIT_S)
        return self.statuses()

    def processes(self) -> list[int]:
        """Return the living processes of all its apps.

        A script has their folder among its words as well, and is none of them. Once in some 150 runs one
        was there minutes after its app had ended; at its exit Prefect waits for its services without a limit.
        """
        own = running(str(self.folder))
        return [pid for pid in own if not any(word.endswith("prefect_flows.py") for word in cmdline(pid))]

    def clean_up(self) -> None:
        """End all its apps."""
        with self._runner() as runner:
            for handle in self.handles():
                runner.cancel(handle, grace_s=0)
                runner.wait(handle, timeout_s=30)

    def _runner(self) -> Runner:
        return get_runner(self.session, state_dir=str(self._state_dir), docker_host=self._docker_host)
