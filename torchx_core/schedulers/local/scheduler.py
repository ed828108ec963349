"""The local scheduler: durable processes on this host."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from torchx_core.errors import (
    AppIdConflictError,
    CorruptRecordError,
    InvalidAppError,
    InvalidInputError,
    SubmitFailedError,
)
from torchx_core.schedulers import (
    CancelOutcome,
    Capabilities,
    EventFeed,
    Finding,
    FollowOptions,
    UsageSample,
)
from torchx_core.schedulers.difference import comparable_request, request_differences
from torchx_core.schedulers.last_lines import read_last_lines
from torchx_core.schedulers.local import launch, view
from torchx_core.schedulers.local.cancelling import ask_to_end
from torchx_core.schedulers.local.host_check import check_host
from torchx_core.schedulers.local.images import CWDImageProvider, ImageProvider
from torchx_core.schedulers.local.inotify import InotifyPool
from torchx_core.schedulers.local.liveness import (
    end_by_force,
    end_orphans,
    is_served,
    reconcile,
    reconcile_begun,
)
from torchx_core.schedulers.local.record import AppRecord, encode_record
from torchx_core.schedulers.local.request import LocalRequest, render, shown
from torchx_core.schedulers.option_values import check_grace
from torchx_core.schedulers.options.local import local_run_opts
from torchx_core.schedulers.ownership import owned_by
from torchx_core.schedulers.paths import check_owner
from torchx_core.schedulers.recorded import RecordedScheduler
from torchx_core.schedulers.stored import handle_of
from torchx_core.schedulers.unsupported import FORMER_MEANING
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
from torchx_core.supervisor import machine
from torchx_core.supervisor.closing import has_begun
from torchx_core.supervisor.records import Json
from torchx_core.supervisor.tree import marked, serving

__all__ = ["LocalScheduler"]


_PATIENCE_S = 30.0
"""How long a submit waits for an app of its id whose record somebody has deleted."""
_MOST_RETRIES = 65_535  # an attempt's number has 16 bits in the timeline


class LocalScheduler(RecordedScheduler[LocalRequest, AppRecord]):
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
        usage=True,
        exec=True,
    )

    def __init__(
        self,
        session_name: str,
        image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] = CWDImageProvider,
        cache_size: int = 100,
        extra_paths: Sequence[str] | None = None,
        *,
        backend: str = "local_cwd",
        state_dir: str | None = None,
        gpus: tuple[str, ...] | None = None,
    ) -> None:
        """Do no I/O.

        Args:
            session_name: Apps of one session are listed together.
            image_provider_class: What a role's image means: called with each dry run's options.
            cache_size: Of TorchX, which forgets the oldest apps; here all are kept, on disk.
            extra_paths: Directories that come before the ``PATH`` of a role.
            backend: The name under which it is registered.
            state_dir: Where records lie; None for ``$TORCHX_STATE_DIR`` or the XDG state directory.
            gpus: This host's GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None to ask the driver.

        Raises:
            InvalidInputError: The size is none.
        """
        super().__init__(backend, session_name, state_dir=state_dir)
        if cache_size < 1:
            raise InvalidInputError(f"cache_size must be at least 1: {cache_size}; leave it out")
        self._image_provider_class = image_provider_class
        self._extra_paths = tuple(extra_paths or ())
        self._inotifies = InotifyPool()
        self._gpus = gpus

    def close(self) -> None:
        """Release what following holds in this process."""
        self._inotifies.close()

    def run_opts(self) -> runopts:
        """Return the options."""
        return local_run_opts()

    def _validate(self, app: AppDef) -> None:
        for i, role in enumerate(app.roles):
            if role.max_retries > _MOST_RETRIES:
                raise InvalidAppError(
                    f"roles[{i}].max_retries", f"must be at most {_MOST_RETRIES}: {role.max_retries}"
                )

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[LocalRequest]:
        app_dir = self._app_dir(app_id)
        request = render(
            app,
            cfg,
            app_id=app_id,
            app_dir=app_dir,
            session=self.session_name,
            images=self._images_for(app_dir, cfg),
            extra_paths=self._extra_paths,
            gpu_ids=self._gpus,
        )
        request.terms = request.terms._replace(gpu_dir=os.path.join(self._root, "gpus"))
        return AppDryRunInfo(request, str)

    def _images_for(self, app_dir: str, cfg: Mapping[str, CfgVal]) -> ImageProvider:  # noqa: ARG002  # for copies
        return self._image_provider_class(cfg)

    def schedule(self, dryrun_info: AppDryRunInfo[LocalRequest]) -> str:
        """Create the app, or attach to the one that an equal request created."""
        request = dryrun_info.request
        asked = comparable_request(request.app, request.cfg)
        while True:
            existing = self._for_submit(request.app_dir, request.cfg)
            if existing is None:
                check_host(request, self._images_for(request.app_dir, request.cfg))
                record = encode_record(asked, request.plan, created_at=time.time())
                if launch.create(request.app_dir, record, lambda new: self._furnish(request, new)):
                    self._forget_old(request.cfg)
                    return request.app_id
            elif self._attach(request.app_id, existing, asked):
                return request.app_id

    def _furnish(self, request: LocalRequest, directory: str) -> None:
        """Put what the app needs, besides its record, into its directory before it becomes visible."""

    def _attach(self, app_id: str, existing: AppRecord, asked: Json) -> bool:
        """Return whether the app is there to stay; false when it was taken back while we looked."""
        difference = request_differences(existing.asked, asked, self.run_opts(), FORMER_MEANING)
        if difference:
            raise AppIdConflictError(app_id, difference)
        with existing.naming_damage():
            if not has_begun(existing.directory):
                check_owner(self._session_dir)  # what is there to run may be somebody else's
            return launch.start_again(existing)

    def usage(self, app_id: str) -> Sequence[UsageSample]:
        """Look at the processes of each replica, or at their control group where they have one."""
        record = self._record(app_id)
        if not is_served(record):
            return ()
        from torchx_core.schedulers.local.usage import usage_now  # here: nobody else needs it

        with record.naming_damage():
            return usage_now(record, record.replay.state(), time.time())

    def exec(self, app_id: str, role_name: str, k: int, argv: Sequence[str], *, terminal: bool) -> int:
        """Start the command as the supervisor starts a replica; it does not end with it."""
        from torchx_core.schedulers.attached import run_attached  # here: nobody else needs it

        return run_attached(self.step_inside(app_id, role_name, k, argv, terminal=terminal))

    def step_inside(
        self,
        app_id: str,
        role_name: str,
        k: int,
        argv: Sequence[str],
        *,
        terminal: bool,  # noqa: ARG002  # the command has that of whoever starts it
    ) -> builtins.list[str]:
        """Return the command line that does what `exec` does, on this host.

        Raises:
            ReplicaNotRunningError: The replica has ended, or has not begun.
            SchedulerError: Its processes are not to be seen from here, or are another user's.
        """
        record = self._record(app_id)
        from torchx_core.schedulers.local.inside import step_inside  # here: nobody else needs it

        names = [(replica.role, replica.replica_id) for replica in record.plan.replicas]
        state = reconcile(record)
        return step_inside(record, state, names.index((role_name, k)), argv, self._handle(app_id))

    def describe_native(self, app_id: str) -> dict[str, object] | None:
        """Return what the supervisor was told to run, with secrets masked."""
        record = self._find(app_id)
        return None if record is None else shown(app_id, record.plan)

    def last_lines(self, app_id: str, replica: ReplicaStatus) -> LastLines:
        """Read the ends of the attempt's log files."""
        for planned in self._record(app_id).plan.replicas:
            if (planned.role, planned.replica_id) == (replica.role, replica.id):
                return read_last_lines(os.path.join(planned.log_dir, str(replica.attempt)))
        return LastLines((), ())

    def _read(self, directory: str) -> AppRecord | None:
        return AppRecord.read_from(directory)

    def _status_of(self, record: AppRecord) -> AppStatus:
        """Look; an app that nobody serves any more is ended first."""
        return view.status(record, reconcile_begun(record))

    def _state_of(self, record: AppRecord) -> AppState:
        return view.app_state(reconcile(record))

    def _may_run(self, directory: str) -> bool:
        with suppress(CorruptRecordError):
            if is_served(AppRecord(directory, {})):
                return True
        return bool(serving(directory) or marked(directory))

    def _end_by_force(self, directory: str) -> None:
        end_by_force(directory)

    def _end_orphans(self, directory: str) -> None:
        if not end_orphans(directory, _PATIENCE_S):
            pids = ", ".join(map(str, sorted({*serving(directory), *marked(directory)})))
            raise SubmitFailedError(
                f"an app of this id was deleted by hand and still ends: processes {pids};"
                f" call again, or end them at once with: torchx-core delete --force {handle_of(directory)}",
                retryable=True,
            )

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Write the request, wake the supervisor, return.

        Raises:
            InvalidInputError: The grace period is no length of time.
            SchedulerError: The disk is full and the supervisor cannot be reached without it; retryable.
        """
        check_grace(grace_s)
        record = self._find(app_id)
        if record is None:
            return CancelOutcome.UNKNOWN_APP
        try:
            with owned_by(record, if_owner) as owned:
                if not owned:
                    return CancelOutcome.NOT_OWNER
                if reconcile(record).phase == machine.ENDED:
                    return CancelOutcome.ALREADY_TERMINAL
                ask_to_end(record, grace_s, reason)
        except FileNotFoundError:
            return CancelOutcome.UNKNOWN_APP  # deleted while we looked
        return CancelOutcome.REQUESTED

    def diagnose(self) -> builtins.list[Finding]:
        """Look at the state directory, and at what this host and this user's limits allow."""
        from torchx_core.schedulers.local.diagnosis import diagnose  # imported here: nobody else needs it

        return diagnose(self._root, self.backend, self._gpus)

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> EventFeed:
        """Open the app's event stream."""
        from torchx_core.schedulers.local.feed import LocalFeed  # here: a status does without it

        return LocalFeed(self._record(app_id), self._handle(app_id), cursor, options, self._inotifies)
