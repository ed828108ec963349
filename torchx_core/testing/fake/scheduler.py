"""The fake scheduler: promises what the local one promises, within one process."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from torchx_core.errors import AppIdConflictError, AppNotTerminalError, InvalidAppError, UnknownAppException
from torchx_core.schedulers import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    FollowOptions,
    ListAppResponse,
    Scheduler,
    UsageSample,
)
from torchx_core.schedulers.difference import comparable_request, request_differences
from torchx_core.schedulers.local import CWDImageProvider, LocalRequest, LocalScheduler
from torchx_core.schedulers.local.record import AppRecord, encode_record
from torchx_core.schedulers.local.request import render
from torchx_core.schedulers.local.view import app_state, status
from torchx_core.schedulers.options.local import local_run_opts
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, runopts
from torchx_core.supervisor import machine
from torchx_core.testing.fake.app import FakeApp
from torchx_core.testing.fake.feed import FakeFeed

if TYPE_CHECKING:
    from torchx_core.testing.fake.host import FakeHost

__all__ = ["FakeScheduler"]


class FakeScheduler(Scheduler[LocalRequest]):
    """Stands in for ``local_cwd``: the same options and states, no processes; see `FakeHost`.

    Images and resources are accepted and mean nothing.
    """

    capabilities: ClassVar[Capabilities] = replace(
        LocalScheduler.capabilities, survives_submitter=False, resource_limits=False, exec=False
    )

    def __init__(self, host: FakeHost, session_name: str) -> None:
        """Look at the host's apps of one session."""
        super().__init__(host.backend, session_name)
        self._host = host

    def run_opts(self) -> runopts:
        """Return the options, which are those of ``local_cwd``."""
        return local_run_opts()

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[LocalRequest]:
        request = render(
            app,
            cfg,
            app_id=app_id,
            app_dir="",
            session=self.session_name,
            images=CWDImageProvider(),
            gpu_ids=None,
        )
        request.role_log_dirs = {role: [""] * len(dirs) for role, dirs in request.role_log_dirs.items()}
        request.terms = request.terms._replace(gpu_ids=())
        self._check_scripts(request)
        return AppDryRunInfo(request, str)

    def _check_scripts(self, request: LocalRequest) -> None:
        for replica in request.plan.replicas:
            try:
                self._host.script(replica)
            except ValueError as err:
                raise InvalidAppError(f"roles[{replica.role!r}].args", str(err)) from err

    def schedule(self, dryrun_info: AppDryRunInfo[LocalRequest]) -> str:
        """Create the app, or attach to the one that an equal request created."""
        request = dryrun_info.request
        asked = comparable_request(request.app, request.cfg)
        with self._host.lock:
            existing = self._find(request.app_id)
            if existing is None:
                content = encode_record(asked, request.plan, created_at=self._host.clock())
                record = AppRecord(self._handle(request.app_id), content)  # its place is in memory
                self._host.apps[self._key(request.app_id)] = self._host.create(record)
            elif difference := request_differences(existing.record.asked, asked, self.run_opts()):
                raise AppIdConflictError(request.app_id, difference)
        return request.app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of the app, and let it move on."""
        with self._host.lock:
            app = self._find(app_id)
            if app is None:
                return None
            known = DescribeAppResponse.of(app_id, app.record.app, status(app.record, app.state))
            app.turn()
            return known

    def usage(self, app_id: str) -> Sequence[UsageSample]:
        """Return what the replicas use that have a step `Use`; the app does not move on."""
        with self._host.lock:
            return self._known(app_id).samples()

    def list(self) -> list[ListAppResponse]:
        """Return the apps of the session, oldest first; none of them moves on."""
        with self._host.lock:
            return [
                ListAppResponse(
                    app_id=app_id,
                    state=app_state(app.state),
                    name=app.record.name,
                    submitted_at=app.record.created_at,
                )
                for (session, app_id), app in self._host.apps.items()
                if session == self.session_name
            ]

    def sessions(self) -> builtins.list[str]:
        """Return the sessions that have apps on the host."""
        with self._host.lock:
            return sorted({session for session, _ in self._host.apps})

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Stop the app; what ignores SIGTERM ends when the clock has passed the grace period."""
        with self._host.lock:
            app = self._find(app_id)
            if app is None:
                return CancelOutcome.UNKNOWN_APP
            if if_owner is not None and app.owner != if_owner:
                return CancelOutcome.NOT_OWNER
            if app.ended:
                return CancelOutcome.ALREADY_TERMINAL
            app.stop(machine.CANCELLED, reason or "cancelled", grace_s)
            self._host.ring()
            return CancelOutcome.REQUESTED

    def delete(self, app_id: str, *, force: bool = False) -> None:  # noqa: ARG002  # nothing is damaged here
        """Forget a terminal app."""
        with self._host.lock:
            app = self._find(app_id)
            if app is None:
                return
            if not app.ended:
                raise AppNotTerminalError(self._handle(app_id), str(app_state(app.state)), "delete")
            del self._host.apps[self._key(app_id)]
            self._host.ring()

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> FakeFeed:
        """Open the app's event stream."""
        with self._host.lock:
            return FakeFeed(self._host, self._known(app_id), cursor, options)

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return self._known(app_id).owner

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set."""
        with self._host.lock:
            app = self._known(app_id)
            if force or app.owner == expected:
                app.owner = token
            return app.owner == token

    def _known(self, app_id: str) -> FakeApp:
        app = self._find(app_id)
        if app is None:
            raise UnknownAppException(self._handle(app_id))
        return app

    def _find(self, app_id: str) -> FakeApp | None:
        return self._host.apps.get(self._key(app_id))

    def _key(self, app_id: str) -> tuple[str, str]:
        return self.session_name, app_id
