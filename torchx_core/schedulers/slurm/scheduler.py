"""The Slurm scheduler: one job per app, a task per replica, records where all nodes see them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from torchx_core.errors import SubmitFailedError
from torchx_core.schedulers import (
    CancelOutcome,
    Capabilities,
    Finding,
    FollowOptions,
    UsageSample,
)
from torchx_core.schedulers.attached import run_attached
from torchx_core.schedulers.last_lines import read_last_lines
from torchx_core.schedulers.option_values import check_grace
from torchx_core.schedulers.options.slurm import slurm_run_opts
from torchx_core.schedulers.ownership import owned_by
from torchx_core.schedulers.paths import check_owner
from torchx_core.schedulers.recorded import RecordedScheduler
from torchx_core.schedulers.slurm.cancelling import end_in_slurm, wake_tasks, write_cancel_request
from torchx_core.schedulers.slurm.commands import CommandFailed, ask, call
from torchx_core.schedulers.slurm.diagnosis import diagnose
from torchx_core.schedulers.slurm.facts import read_facts
from torchx_core.schedulers.slurm.feed import SlurmFeed
from torchx_core.schedulers.slurm.inside import step_inside
from torchx_core.schedulers.slurm.job import Row, number, rows
from torchx_core.schedulers.slurm.node.files import refresh
from torchx_core.schedulers.slurm.queue import QUESTION, JobQueue, shared_queue
from torchx_core.schedulers.slurm.reconcile import ask_about_all, is_known_over, jobs_left, reconcile
from torchx_core.schedulers.slurm.record import JOB, AppRecord, JobFile
from torchx_core.schedulers.slurm.replica_log import latest_files
from torchx_core.schedulers.slurm.request import SlurmRequest, render
from torchx_core.schedulers.slurm.submit import is_submitted, submit
from torchx_core.schedulers.slurm.usage import usage_now
from torchx_core.schedulers.stored import handle_of
from torchx_core.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    AppStatus,
    CfgVal,
    LastLines,
    ReplicaStatus,
    runopts,
)

__all__ = ["SlurmScheduler"]


class SlurmScheduler(RecordedScheduler[SlurmRequest, AppRecord]):
    """Runs each app as one job of a Slurm cluster: a component per role, a task per replica.

    What the nodes do lies in files that they share with everybody who follows the app (see ``node``); Slurm
    is asked for the rest, once a second for all apps of a process together.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        tail=True,
        survives_submitter=True,
        submit_once=True,
        retries=True,
        gang=True,
        deadline=True,
        lease=True,
        resource_limits=True,
        reports=True,
        cancelled_state=True,
        usage=True,
        exec=True,
    )

    def __init__(self, backend: str, session_name: str, *, state_dir: str | None = None) -> None:
        """Do no I/O.

        Args:
            backend: The name under which it is registered.
            session_name: Apps of one session are listed together.
            state_dir: Where records lie, on a file system that submitters and nodes share; None for
                ``TORCHX_STATE_DIR``, or the XDG state directory, which is in the home directory.
        """
        super().__init__(backend, session_name, state_dir=state_dir)

    def run_opts(self) -> runopts:
        """Return the options."""
        return slurm_run_opts()

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[SlurmRequest]:
        request = render(
            app,
            cfg,
            app_id=app_id,
            app_dir=self._app_dir(app_id),
            session=self.session_name,
            cwd=os.getcwd(),
            absolute=_absolute,
        )
        return AppDryRunInfo(request, str)

    def schedule(self, dryrun_info: AppDryRunInfo[SlurmRequest]) -> str:
        """Create the app and its job, or attach to the one that an equal request created."""
        request = dryrun_info.request
        existing = self._for_submit(request.app_dir, request.cfg)
        if existing is not None and not is_submitted(existing):
            check_owner(self._session_dir)  # the command that would be run may be somebody else's
        submit(request, self._queue)
        if existing is None:
            self._forget_old(request.cfg)
        return request.app_id

    def usage(self, app_id: str) -> Sequence[UsageSample]:
        """Ask the programs beside the replicas, and return what they have answered to whoever asked last."""
        record = self._record(app_id)
        with record.naming_damage():
            return usage_now(record)

    def exec(self, app_id: str, role_name: str, k: int, argv: Sequence[str], *, terminal: bool) -> int:
        """Run the command as another step of the job, on the replica's node."""
        step = self.step_inside(app_id, role_name, k, argv, terminal=terminal)
        return run_attached(step, needs_reader=True)

    def step_inside(
        self, app_id: str, role_name: str, k: int, argv: Sequence[str], *, terminal: bool
    ) -> builtins.list[str]:
        """Return the command line that does what `exec` does, on a host of the cluster.

        Raises:
            ReplicaNotRunningError: The replica has ended, or has not begun.
        """
        record = self._record(app_id)
        index = [(planned.role, planned.replica) for planned in record.replicas].index((role_name, k))
        return step_inside(
            record, read_facts(record), index, argv, terminal=terminal, app_handle=self._handle(app_id)
        )

    def describe_native(self, app_id: str) -> dict[str, object] | None:
        """Return what Slurm says of the app's job: its queue, or else its accounting."""
        record = self._find(app_id)
        return None if record is None else native(record)

    def last_lines(self, app_id: str, replica: ReplicaStatus) -> LastLines:
        """Read the ends of the attempt's log files."""
        for planned in self._record(app_id).replicas:
            if (planned.role, planned.replica) == (replica.role, replica.id):
                directory = os.path.join(planned.log_dir, str(replica.attempt))
                refresh(directory)
                return read_last_lines(directory, latest_files)
        return LastLines((), ())

    def _read(self, directory: str) -> AppRecord | None:
        return AppRecord.read_from(directory)

    def _prefetch(self, names: builtins.list[str]) -> None:
        ask_about_all((os.path.join(self._session_dir, name) for name in names), self._queue)

    def _status_of(self, record: AppRecord) -> AppStatus:
        return reconcile(record, self._queue).status

    def _state_of(self, record: AppRecord) -> AppState:
        return reconcile(record, self._queue).state

    def _may_run(self, directory: str) -> bool:
        return bool(jobs_left(directory, self._queue))

    def _end_by_force(self, directory: str) -> None:
        for job_id in jobs_left(directory, self._queue):
            with suppress(CommandFailed):  # it has just ended
                call(["scancel", job_id])

    def _end_orphans(self, directory: str) -> None:
        jobs = jobs_left(directory, self._queue)
        if jobs:
            raise SubmitFailedError(
                f"an app of this id was deleted by hand, and its job still runs: {', '.join(jobs)};"
                f" end it with: torchx-core delete --force {handle_of(directory)}",
                retryable=True,
            )

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Write the request at once, wake its tasks, return: after seconds, also if Slurm does not answer.

        An app that has ended in a way that only Slurm knows is REQUESTED to end, and stays what it was.

        Raises:
            InvalidInputError: The grace period is no length of time.
            SchedulerError: There is no room for the request, and Slurm is away or has no job yet; retryable.
        """
        check_grace(grace_s)
        record = self._find(app_id)
        if record is None:
            return CancelOutcome.UNKNOWN_APP
        try:
            with owned_by(record, if_owner) as owned:
                if not owned:
                    return CancelOutcome.NOT_OWNER
                if is_known_over(record):
                    return CancelOutcome.ALREADY_TERMINAL
                written = write_cancel_request(record, grace_s, reason)
            (wake_tasks if written else end_in_slurm)(record)
        except FileNotFoundError:
            return CancelOutcome.UNKNOWN_APP  # deleted while we looked
        return CancelOutcome.REQUESTED

    def diagnose(self) -> builtins.list[Finding]:
        """Look at the cluster, and at the state directory."""
        return [*diagnose(self._root), *self._damaged()]

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> SlurmFeed:
        """Open the app's event stream."""
        return SlurmFeed(self._record(app_id), self._handle(app_id), cursor, options, self._queue)

    @property
    def _queue(self) -> JobQueue:
        return shared_queue()


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def native(record: AppRecord) -> dict[str, object]:
    """Return the submitted command, and each component of the job as Slurm has it.

    ``squeue`` is its rows there; ``sacct`` is what accounting says once no row is left. Neither has an
    environment in it.

    Raises:
        SchedulerError: Slurm does not answer.
    """
    found: dict[str, object] = {"sbatch": record.sbatch}
    job = record.read(JOB, JobFile)
    if job is None:
        return found
    job_id = job.job_id
    listed = [row for row in ask(QUESTION, rows) if job_id in _ids(row)]
    if listed:
        return {**found, "job_id": job_id, "squeue": listed}
    return {**found, "job_id": job_id, "sacct": _accounted(job_id)}


def _accounted(job_id: str) -> list[Row]:
    try:
        return ask(["sacct", "--json", f"--jobs={job_id}"], rows)
    except CommandFailed:
        return []  # there is no accounting


def _ids(row: Row) -> set[str]:
    return {str(number(row.get(name))) for name in ("job_id", "het_job_id")}
