"""The Slurm scheduler: one job per app, a task per replica, records where all nodes see them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from torchx_core.errors import CorruptRecordError, InvalidAppError, NewerRecordError, UnknownAppException
from torchx_core.schedulers import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Scheduler,
)
from torchx_core.schedulers.ids import make_unique
from torchx_core.schedulers.option_values import check_grace
from torchx_core.schedulers.paths import default_state_dir, file_name, name_of
from torchx_core.schedulers.removing import remove_debris
from torchx_core.schedulers.slurm.cancelling import ask_to_end
from torchx_core.schedulers.slurm.deletion import delete_app, size_bytes
from torchx_core.schedulers.slurm.diagnosis import diagnose
from torchx_core.schedulers.slurm.feed import SlurmFeed
from torchx_core.schedulers.slurm.options import slurm_run_opts
from torchx_core.schedulers.slurm.ownership import owner_of, set_owner
from torchx_core.schedulers.slurm.queue import JobQueue, shared_queue
from torchx_core.schedulers.slurm.record import AppRecord, read_record
from torchx_core.schedulers.slurm.request import SlurmRequest, render
from torchx_core.schedulers.slurm.settle import Standing, settle
from torchx_core.schedulers.slurm.submit import submit
from torchx_core.specs import AppDef, AppDryRunInfo, AppState, CfgVal, runopts

__all__ = ["SlurmScheduler"]


class SlurmScheduler(Scheduler[SlurmRequest]):
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
    )

    def __init__(self, backend: str, session_name: str, *, state_dir: str | None = None) -> None:
        """Do no I/O.

        Args:
            backend: The name under which it is registered.
            session_name: Apps of one session are listed together.
            state_dir: Where records lie, on a file system that submitters and nodes share; None for
                ``TORCHX_STATE_DIR``, or the XDG state directory, which is in the home directory.
        """
        super().__init__(backend, session_name)
        self._root = os.path.abspath(state_dir) if state_dir else default_state_dir()
        self._session_dir = os.path.join(self._root, backend, file_name(session_name))

    def run_opts(self) -> runopts:
        """Return the options."""
        return slurm_run_opts()

    def _validate(self, app: AppDef) -> None:
        for i, role in enumerate(app.roles):
            if role.mounts:
                problem = f"{self.backend} cannot mount anything; use paths that the nodes have"
                raise InvalidAppError(f"roles[{i}].mounts", problem)

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str | None
    ) -> AppDryRunInfo[SlurmRequest]:
        chosen = make_unique(app.name) if app_id is None else app_id
        request = render(
            app,
            cfg,
            app_id=chosen,
            app_dir=self._app_dir(chosen),
            session=self.session_name,
            cwd=os.getcwd(),
        )
        return AppDryRunInfo(request, str)

    def schedule(self, dryrun_info: AppDryRunInfo[SlurmRequest]) -> str:
        """Create the app and its job, or attach to the one that an equal request created."""
        submit(dryrun_info.request, self._queue)
        return dryrun_info.request.app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of the app."""
        with suppress(FileNotFoundError):  # deleted while we look
            record = read_record(self._app_dir(app_id))
            if record is not None:
                return _description(app_id, record, settle(record, self._queue))
        return None

    def describe_native(self, app_id: str) -> dict[str, object] | None:
        """Return what Slurm says of the app's job; None when it does not list it."""
        record = read_record(self._app_dir(app_id))
        job = record.read("job.json") if record else None
        return dict(job) if job else None

    def list(self) -> list[ListAppResponse]:
        """Return the apps of the session, oldest first; a record that cannot be read is UNKNOWN."""
        try:
            names = [n for n in os.listdir(self._session_dir) if not n.startswith(".")]
        except FileNotFoundError:
            return []
        rows = [row for name in names if (row := self._row(name))]
        return sorted(rows, key=lambda row: (row.submitted_at or 0.0, row.app_id))

    def _row(self, name: str) -> ListAppResponse | None:
        app_id = name_of(name)
        try:
            record = read_record(os.path.join(self._session_dir, name))
            if record is None:
                return None
            state = settle(record, self._queue).state
        except FileNotFoundError:
            return None  # deleted while we look
        except (CorruptRecordError, NewerRecordError):
            return ListAppResponse(app_id=app_id, state=AppState.UNKNOWN)
        return ListAppResponse(app_id=app_id, state=state, name=record.name, submitted_at=record.created_at)

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Write the wish, ring the nodes, return.

        Raises:
            InvalidInputError: The grace period is no length of time.
        """
        check_grace(grace_s)
        record = read_record(self._app_dir(app_id))
        if record is None:
            return CancelOutcome.UNKNOWN_APP
        if if_owner is not None and owner_of(record) != if_owner:
            return CancelOutcome.NOT_OWNER
        if settle(record, self._queue).ended_at is not None:
            return CancelOutcome.ALREADY_TERMINAL
        try:
            ask_to_end(record, grace_s, reason)
        except FileNotFoundError:
            return CancelOutcome.UNKNOWN_APP  # deleted while we looked
        return CancelOutcome.REQUESTED

    def delete(self, app_id: str) -> None:
        """Remove the record of a terminal app, and its logs, wherever they lie."""
        record = read_record(self._app_dir(app_id))
        if record is not None:
            delete_app(record, self._handle(app_id), self._queue)

    def size_bytes(self, app_id: str) -> int:
        """Return the size of the app's record and logs."""
        record = read_record(self._app_dir(app_id))
        return 0 if record is None else size_bytes(record)

    def diagnose(self) -> builtins.list[Finding]:
        """Look at the cluster, and at the state directory."""
        return diagnose(self._root)

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps as every scheduler does, and what killed submits and deletes left over."""
        remove_debris(self._session_dir)
        return super().prune(max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> SlurmFeed:
        """Open the app's event stream."""
        return SlurmFeed(self._record(app_id), self._handle(app_id), cursor, options, self._queue)

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return owner_of(self._record(app_id))

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set."""
        try:
            return set_owner(self._record(app_id), token, expected, force=force)
        except FileNotFoundError as err:
            raise UnknownAppException(self._handle(app_id)) from err

    @property
    def _queue(self) -> JobQueue:
        return shared_queue()

    def _record(self, app_id: str) -> AppRecord:
        record = read_record(self._app_dir(app_id))
        if record is None:
            raise UnknownAppException(self._handle(app_id))
        return record

    def _app_dir(self, app_id: str) -> str:
        return os.path.join(self._session_dir, file_name(app_id))

    def _handle(self, app_id: str) -> str:
        return f"{self.backend}://{self.session_name}/{app_id}"


def _description(app_id: str, record: AppRecord, standing: Standing) -> DescribeAppResponse:
    told, app = standing.status, record.app
    return DescribeAppResponse(
        app_id=app_id,
        state=told.state,
        num_restarts=told.num_restarts,
        msg=told.msg,
        structured_error_msg=told.structured_error_msg,
        metadata=app.metadata,
        roles_statuses=told.roles,
        roles=app.roles,
        name=app.name,
        result=told.result,
    )
