"""A TorchX scheduler behind this package's interface."""

from __future__ import annotations

import builtins
import time
from collections.abc import Mapping
from contextlib import nullcontext

from torchx_core.compat import _torchx
from torchx_core.compat.backend import Backend
from torchx_core.compat.cursor import Place, decode
from torchx_core.compat.feed import BridgeFeed
from torchx_core.compat.polling import Poller
from torchx_core.compat.records import Record, Store, number, text
from torchx_core.compat.request import BridgeRequest, masked, with_app_id
from torchx_core.compat.submit import is_lost, submit_once
from torchx_core.compat.view import app_of, look, native_id_of
from torchx_core.errors import (
    AppNotTerminalError,
    InvalidInputError,
    RecordUnavailableError,
    SchedulerError,
    StoredStateError,
    TorchXError,
    UnknownAppException,
)
from torchx_core.schedulers import (
    CancelOutcome,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Scheduler,
    Stream,
    Verdict,
)
from torchx_core.schedulers.option_values import check_grace
from torchx_core.specs import AppDef, AppDryRunInfo, AppState, CfgVal, is_terminal, runopts

__all__ = ["BridgeScheduler"]


class BridgeScheduler(Scheduler[BridgeRequest]):
    """Runs apps on a scheduler of TorchX.

    TorchX renders, submits, cancels and reads logs. Beside it a record is kept of each app: what was asked
    for, TorchX's own id of it, its owner, the request to cancel, its end. The record lies in the state
    directory where the backend's apps outlive this process, and in memory where they do not.
    """

    def __init__(self, backend: str, session_name: str, torchx: Backend, store: Store) -> None:
        """Do no I/O."""
        super().__init__(backend, session_name)
        self._backend = torchx
        self._store = store

    def close(self) -> None:
        """Release what TorchX holds for this runner; apps go on."""
        self._backend.close()

    def run_opts(self) -> runopts:
        """Return TorchX's options."""
        return _torchx.run_opts(self._backend.upstream)

    def _validate(self, app: AppDef) -> None:
        self._backend.check(app)

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[BridgeRequest]:
        native = self._backend.render(with_app_id(app, app_id), cfg)
        return AppDryRunInfo(BridgeRequest(app_id, app, cfg, native), str)

    def schedule(self, dryrun_info: AppDryRunInfo[BridgeRequest]) -> str:
        """Submit, or attach to the app that an equal request created."""
        submit_once(self._store, self._backend, dryrun_info.request)
        return dryrun_info.request.app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return the app as it was submitted, and its status as TorchX and the record have it.

        Raises:
            SchedulerError: The backend cannot be asked; retryable.
        """
        record = self._store.find(app_id)
        known = None if record is None else look(record, self._backend)
        return None if known is None else DescribeAppResponse.of(app_id, known.app, known.status)

    def describe_native(self, app_id: str) -> object | None:
        """Return TorchX's own id of the app, and its request, where TorchX can read that back."""
        record = self._store.find(app_id)
        native_id = "" if record is None else native_id_of(record)
        if record is None or not native_id:
            return None
        request = self._backend.describe_native(native_id)
        return {"app_id": native_id, "request": None if request is None else masked(request, app_of(record))}

    def exists(self, app_id: str) -> bool:
        """Return whether the app was submitted here and not deleted; asks nobody."""
        return self._store.find(app_id) is not None

    def list(self) -> builtins.list[ListAppResponse]:
        """Return the apps of the session, oldest first; UNKNOWN is one that its backend cannot tell of."""
        return [self._row(record) for record in self._store.all()]

    def sessions(self) -> builtins.list[str]:
        """Return the sessions that have records; asks nobody."""
        return self._store.sessions() or [self.session_name]

    def diagnose(self) -> builtins.list[Finding]:
        """Return how many apps were submitted; TorchX has no way to ask whether a backend works."""
        try:
            records = f"{len(self._store.all())} apps in session {self.session_name}"
        except TorchXError as err:
            return [Finding(subject="records", verdict=Verdict.WARNING, text=f"cannot be read: {err}")]
        found = f"{records}; whether the backend works shows when an app is submitted"
        return [Finding(subject="records", verdict=Verdict.OK, text=found)]

    def _row(self, record: Record) -> ListAppResponse:
        try:
            known = look(record, self._backend)
        except (StoredStateError, RecordUnavailableError) as err:
            return ListAppResponse(app_id=record.app_id, state=AppState.UNKNOWN, error=str(err))
        except SchedulerError:
            known = None
        return ListAppResponse(
            app_id=record.app_id,
            state=AppState.UNKNOWN if known is None else known.status.state,
            name=text(record.asked, "name"),
            submitted_at=number(record.asked, "created_at"),
        )

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Write the request, then have it carried out.

        Raises:
            InvalidInputError: The grace period is no length of time.
            SchedulerError: The backend cannot be asked; call again.
        """
        check_grace(grace_s)
        record = self._store.find(app_id)
        if record is None:
            return CancelOutcome.UNKNOWN_APP
        with nullcontext() if if_owner is None else record.locked("owner"):
            if if_owner is not None and record.owner != if_owner:
                return CancelOutcome.NOT_OWNER
            return self._cancel(record, grace_s, reason)

    def _cancel(self, record: Record, grace_s: float | None, reason: str) -> CancelOutcome:
        known = look(record, self._backend)
        if known is None:
            return CancelOutcome.UNKNOWN_APP
        if is_terminal(known.status.state):
            return CancelOutcome.ALREADY_TERMINAL
        if not known.native_id:
            raise SchedulerError(f"{record.app_id} is {known.status.msg}; cancel it later", retryable=True)
        record.put("cancel", {"reason": reason, "at": time.time()})
        self._backend.cancel(known.native_id, grace_s)
        return CancelOutcome.REQUESTED

    def delete(self, app_id: str, *, force: bool = False) -> None:
        """Forget a terminal app, or one whose submitter died or whose backend has no trace of it.

        Of an app whose record is damaged nobody knows TorchX's own id: by force, only the record goes.
        """
        record = self._store.find(app_id)
        if record is None:
            return
        try:
            known = look(record, self._backend)
            ended = known is None or is_terminal(known.status.state) or is_lost(record)
        except StoredStateError:
            if not force:
                raise
            self._store.remove(record)
            return
        if known is not None and not ended:
            raise AppNotTerminalError(self._handle(app_id), str(known.status.state), "delete")
        if known is not None and known.native_id:
            self._backend.forget(known.native_id)
        self._store.remove(record)

    def size_bytes(self, app_id: str) -> int:
        """Return the size of the app's logs, where they are on this host; its record is small."""
        record = self._store.find(app_id)
        submitted = None if record is None else record.get("submitted")
        return self._backend.size_bytes(text(submitted, "native_id"))

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> BridgeFeed:
        """Open the app's event stream.

        Raises:
            InvalidInputError: One stream is wanted of a backend that does not keep them apart.
        """
        record = self._known(app_id)
        if options.streams is not Stream.COMBINED and len(self._backend.streams) == 1:
            raise InvalidInputError(
                f"{self.backend} does not keep stdout and stderr apart: {options.streams.value};"
                " follow both (streams=Stream.COMBINED)"
            )
        incarnation = text(record.asked, "incarnation")
        place = Place() if cursor is None else decode(cursor, incarnation)
        return BridgeFeed(Poller(self._handle(app_id), record, self._backend, options), place, incarnation)

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return self._known(app_id).owner

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set."""
        record = self._known(app_id)
        with record.locked("owner") as is_there:
            if not is_there:
                raise UnknownAppException(self._handle(app_id))
            if force or record.owner == expected:
                record.replace("owner", {"token": token})
            return record.owner == token

    def _known(self, app_id: str) -> Record:
        record = self._store.find(app_id)
        if record is None:
            raise UnknownAppException(self._handle(app_id))
        return record
