"""What a workload may ask of each way to run a command in a Prefect task."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from benchmarks.clock import monotonic


class PrefectSide:
    """One way to run a command; a job is a flow run that has ended."""

    name: str
    """The module's, by which another process finds it."""

    def __init__(self, folder: Path) -> None:
        """Keep what apps leave in the folder."""
        os.environ["TORCHX_STATE_DIR"] = str(folder / "state")

    def work(self, command: Sequence[str]) -> None:
        """Run the command in the present task, with its output in the task's log."""
        raise NotImplementedError

    def work_line_by_line(self, command: Sequence[str]) -> None:
        """Do the same with a record for each line, as one would by hand, where that is another way."""
        raise NotImplementedError

    def submit(self, command: Sequence[str]) -> UUID:
        """Run the command in a flow run of this process, to its end."""
        return run(lambda: self.work(command))[0]

    def wait(self, job: UUID) -> None:
        """Do nothing: it has ended."""

    def close(self) -> None:
        """Do nothing: nothing runs any more."""


def run(work: Callable[[], None]) -> tuple[UUID, float]:
    """Do the work in a task of a flow run; return the flow run's id and when it began, by our clock."""
    from prefect import flow, task
    from prefect.context import FlowRunContext
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    ids: list[UUID] = []
    job = task(name="job")(work)

    @flow(name="bench")
    def bench() -> None:
        context = FlowRunContext.get()
        assert context is not None
        assert context.flow_run is not None
        ids.append(context.flow_run.id)
        job()

    begin = monotonic()
    # A flow with heartbeats ends a second late: it joins a thread that sleeps in whole seconds.
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        bench()
    return ids[0], begin
