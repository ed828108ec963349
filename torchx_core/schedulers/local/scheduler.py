"""The local scheduler: durable processes on this host."""

from __future__ import annotations

import builtins
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, cast

from torchx_core.errors import (
    AppIdConflictError,
    AppNotTerminalError,
    CorruptRecordError,
    InvalidAppError,
    InvalidInputError,
    NewerRecordError,
    SubmitFailedError,
    UnknownAppException,
)
from torchx_core.schedulers import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    FollowOptions,
    ListAppResponse,
    Scheduler,
)
from torchx_core.schedulers.difference import differences
from torchx_core.schedulers.ids import make_unique
from torchx_core.schedulers.local import launch, view
from torchx_core.schedulers.local.feed import LocalFeed, knock
from torchx_core.schedulers.local.images import ImageProvider
from torchx_core.schedulers.local.life import settle
from torchx_core.schedulers.local.options import local_run_opts
from torchx_core.schedulers.local.ownership import owned_by, owner_of, set_owner
from torchx_core.schedulers.local.paths import check_file_system, default_state_dir, file_name, name_of
from torchx_core.schedulers.local.record import AppRecord, asked_for, encode_record, read_record
from torchx_core.schedulers.local.request import LocalRequest, render
from torchx_core.specs import AppDef, AppDryRunInfo, AppState, CfgVal, runopts
from torchx_core.supervisor import machine
from torchx_core.supervisor.records import CANCEL, LOOK, Json, write_once

__all__ = ["LocalScheduler"]


class LocalScheduler(Scheduler[LocalRequest]):
    """Runs each replica as a process of this user on this host.

    All state lies in a directory per app, so a handle works from any process of the same user that sees the
    directory, and the app survives its submitter. See ``launch`` for what a crash leaves at each point.
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

    def __init__(
        self,
        backend: str,
        session_name: str,
        images: ImageProvider,
        *,
        state_dir: str | None = None,
        gpus: tuple[str, ...] | None = None,
    ) -> None:
        """Do no I/O.

        Args:
            backend: The name under which it is registered.
            session_name: Apps of one session are listed together.
            images: What a role's image means.
            state_dir: Where records lie; None for ``$TORCHX_STATE_DIR`` or the XDG state directory.
            gpus: This host's GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None to ask the driver.
        """
        super().__init__(backend, session_name)
        self._images = images
        self._gpus = gpus
        self._root = os.path.abspath(state_dir) if state_dir else default_state_dir()
        self._session_dir = os.path.join(self._root, backend, file_name(session_name))

    def run_opts(self) -> runopts:
        """Return the options."""
        return local_run_opts()

    def _validate(self, app: AppDef) -> None:
        for i, role in enumerate(app.roles):
            if role.mounts:
                raise InvalidAppError(
                    f"roles[{i}].mounts",
                    f"{self.backend} cannot mount anything; use paths of this host instead",
                )

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str | None
    ) -> AppDryRunInfo[LocalRequest]:
        chosen = make_unique(app.name) if app_id is None else app_id
        request = render(
            app,
            cfg,
            app_id=chosen,
            app_dir=self._app_dir(chosen),
            session=self.session_name,
            images=self._images,
            gpu_dir=os.path.join(self._root, "gpus"),
            gpu_ids=self._gpus,
        )
        return AppDryRunInfo(request, str)

    def schedule(self, dryrun_info: AppDryRunInfo[LocalRequest]) -> str:
        """Create the app, or attach to the one that an equal request created."""
        request = dryrun_info.request
        asked = asked_for(request.app, dict(request.cfg))
        existing = read_record(request.app_dir)
        if existing is None:
            self._check_host(request)
            record = encode_record(asked, request.plan, created_at=time.time())
            if launch.create(request.app_dir, record):
                return request.app_id
            existing = self._record(request.app_id)
        self._attach(request.app_id, existing, asked)
        return request.app_id

    def _attach(self, app_id: str, existing: AppRecord, asked: Json) -> None:
        difference = differences(existing.asked, asked)
        if difference:
            raise AppIdConflictError(app_id, difference)
        launch.start_again(existing)

    def _check_host(self, request: LocalRequest) -> None:
        """Find out before anything is created what would make every replica fail."""
        try:
            os.makedirs(self._session_dir, mode=0o700, exist_ok=True)
        except OSError as err:
            raise SubmitFailedError(
                f"cannot write to the state directory {self._session_dir}: {err.strerror}"
            ) from err
        check_file_system(self._session_dir)
        for replica in request.plan.replicas:
            if replica.replica_id:
                continue  # replicas of a role differ in their arguments only
            program = replica.argv[0]
            path = replica.env.get("PATH", os.environ.get("PATH", os.defpath))
            found = os.path.join(replica.cwd, program) if os.sep in program else program
            if shutil.which(found, path=path) is None:
                where = replica.cwd if os.sep in program else path
                raise InvalidAppError(
                    f"roles[{replica.role!r}].entrypoint",
                    f"no such program on this host: {program!r}; looked in {where}",
                )
        self._check_log_dir(request)

    def _check_log_dir(self, request: LocalRequest) -> None:
        if request.cfg.get("log_dir"):
            directory = os.path.dirname(os.path.dirname(request.plan.replicas[0].log_dir))
            try:
                os.makedirs(directory, exist_ok=True)
                writable = os.access(directory, os.W_OK | os.X_OK)
            except OSError:
                writable = False
            if not writable:
                raise InvalidInputError(f"log_dir is not writable: {directory}; choose another directory")

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of the app; ends it first if nobody serves it any more."""
        record = read_record(self._app_dir(app_id))
        return None if record is None else view.describe(record, settle(record), app_id)

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
            state = view.app_state(settle(record))
        except (CorruptRecordError, NewerRecordError):
            return ListAppResponse(app_id=app_id, state=AppState.UNKNOWN)
        return ListAppResponse(app_id=app_id, state=state, name=record.name, submitted_at=record.created_at)

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Write the wish, wake the supervisor, return."""
        record = read_record(self._app_dir(app_id))
        if record is None:
            return CancelOutcome.UNKNOWN_APP
        with owned_by(record, if_owner) as owned:
            if not owned:
                return CancelOutcome.NOT_OWNER
            if settle(record).phase == machine.ENDED:
                return CancelOutcome.ALREADY_TERMINAL
            wish = cast(
                "Json",
                {
                    "outcome": machine.CANCELLED,
                    "msg": reason or "cancelled",
                    "grace_s": grace_s,
                    "monotonic": time.monotonic(),
                },
            )
            write_once(record.directory, CANCEL, wish)
        knock(record, LOOK)
        return CancelOutcome.REQUESTED

    def delete(self, app_id: str) -> None:
        """Remove the record of a terminal app, and its logs, wherever they lie."""
        record = read_record(self._app_dir(app_id))
        if record is None:
            return
        state = settle(record)
        if state.phase != machine.ENDED:
            raise AppNotTerminalError(self._handle(app_id), str(view.app_state(state)), "delete")
        gone = os.path.join(self._session_dir, f".deleted-{os.urandom(6).hex()}")
        try:
            os.rename(record.directory, gone)
        except FileNotFoundError:
            return  # somebody else deleted it
        for log_dir in _log_dirs(record):
            shutil.rmtree(log_dir, ignore_errors=True)
        shutil.rmtree(gone, ignore_errors=True)

    def size_bytes(self, app_id: str) -> int:
        """Return the size of the app's record and logs."""
        record = read_record(self._app_dir(app_id))
        return 0 if record is None else sum(map(_tree_size, {record.directory, *_log_dirs(record)}))

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps as every scheduler does, and what killed submits and deletes left over."""
        launch.remove_debris(self._session_dir)
        return super().prune(max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> LocalFeed:
        """Open the app's event stream."""
        return LocalFeed(self._record(app_id), self._handle(app_id), cursor, options)

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return owner_of(self._record(app_id))

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set."""
        return set_owner(self._record(app_id), token, expected, force=force)

    def _record(self, app_id: str) -> AppRecord:
        record = read_record(self._app_dir(app_id))
        if record is None:
            raise UnknownAppException(self._handle(app_id))
        return record

    def _app_dir(self, app_id: str) -> str:
        return os.path.join(self._session_dir, file_name(app_id))

    def _handle(self, app_id: str) -> str:
        return f"{self.backend}://{self.session_name}/{app_id}"


def _log_dirs(record: AppRecord) -> set[str]:
    """Return the directory in which all of the app's logs lie; it may be outside of its record."""
    return {os.path.dirname(os.path.dirname(replica.log_dir)) for replica in record.plan.replicas}


def _tree_size(directory: str) -> int:
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size
