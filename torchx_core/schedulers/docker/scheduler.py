"""The Docker scheduler: replicas as containers of one engine, all state in the engine."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Lock
from typing import ClassVar

from torchx_core.errors import (
    AppNotTerminalError,
    ReplicaNotRunningError,
    StoredStateError,
    TorchXError,
    UnknownAppException,
)
from torchx_core.schedulers import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Scheduler,
    UsageSample,
)
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import Container, Volume
from torchx_core.schedulers.docker.client import Engine, each_at_once
from torchx_core.schedulers.docker.diagnosis import diagnose
from torchx_core.schedulers.docker.endpoint import find_endpoint
from torchx_core.schedulers.docker.feed import DockerFeed
from torchx_core.schedulers.docker.hardware import check_hardware
from torchx_core.schedulers.docker.labels import APP, SESSION, app_key, of_session, record_name
from torchx_core.schedulers.docker.last_lines import read_last_lines
from torchx_core.schedulers.docker.notifier import Notifier
from torchx_core.schedulers.docker.polling import look, statistics
from torchx_core.schedulers.docker.reconcile import containers_of, end, reconcile
from torchx_core.schedulers.docker.records import Records, Stop
from torchx_core.schedulers.docker.removing import debris, remove_everything, remove_unlabelled
from torchx_core.schedulers.docker.request import DockerRequest, masked, render
from torchx_core.schedulers.docker.retention import check_retention, forget_old, marks
from torchx_core.schedulers.docker.sdk import sdk_client
from torchx_core.schedulers.docker.submit import submit
from torchx_core.schedulers.docker.view import Phase, replica_state, samples, status, view_of
from torchx_core.schedulers.docker.volume_state import VolumeState
from torchx_core.schedulers.docker.workspace import build_workspace, prune_workspaces, workspace_image
from torchx_core.schedulers.option_values import check_grace, retention
from torchx_core.schedulers.options.docker import docker_run_opts
from torchx_core.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    CfgVal,
    LastLines,
    ReplicaStatus,
    Role,
    is_terminal,
    runopts,
)

__all__ = ["DockerScheduler"]


class DockerScheduler(Scheduler[DockerRequest]):
    """Runs each replica as a container of one Docker Engine.

    All state lies in the engine (labels and names), so a handle works from any host that reaches it, and the
    app survives its submitter. See ``submit`` for what a crash leaves at each point, ``shim`` for what holds
    inside a container when nobody looks, ``reconcile`` for what whoever looks sees to.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        tail=True,
        survives_submitter=True,
        submit_once=True,
        retries=True,
        gang=True,
        deadline=True,
        lease=True,
        mounts=True,
        resource_limits=True,
        reports=True,
        workspaces=True,
        cancelled_state=True,
        usage=True,
        exec=True,
    )

    def __init__(self, session_name: str, *, docker_host: str | None = None) -> None:
        """Do no I/O.

        Args:
            session_name: Apps of one session are listed together.
            docker_host: The engine; None for ``DOCKER_HOST`` or the Docker context.
        """
        super().__init__("local_docker", session_name)
        self._docker_host = docker_host
        self._lock = Lock()
        self._engine: Engine | None = None
        self._notifier: Notifier | None = None

    def close(self) -> None:
        """Close the connections to the engine."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def run_opts(self) -> runopts:
        """Return the options."""
        return docker_run_opts()

    def _validate(self, app: AppDef) -> None:
        check_hardware(app)

    def workspace_image(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:
        """Return the name of the image that `build_workspace` makes."""
        return workspace_image(role, cfg)

    def build_workspace(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:
        """Build the image on the engine, and push it where ``image_repo`` says."""
        return build_workspace(self._connected(), role, cfg)

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[DockerRequest]:
        check_retention(cfg)
        return AppDryRunInfo(render(app, cfg, app_id=app_id, session=self.session_name), str)

    def schedule(self, dryrun_info: AppDryRunInfo[DockerRequest]) -> str:
        """Create the app, or attach to the one that an equal request created."""
        request = dryrun_info.request
        keep = retention(request.cfg)  # what is wrong with it is told before anything is submitted
        submit(self._connected(), request)
        if keep is not None and keep.max_age_s < inf:
            with suppress(TorchXError):  # no submit fails for that
                forget_old(self._connected(), self.session_name, keep.max_age_s, spared=request.app_id)
        return request.app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of the app, after doing what is due (a gang to stop, an end to write down)."""
        view = reconcile(self._connected(), self.session_name, app_id)
        return None if view is None else DescribeAppResponse.of(app_id, view.app.app, status(view))

    def usage(self, app_id: str) -> Sequence[UsageSample]:
        """Ask the engine for the statistics of all containers at once."""
        engine = self._connected()
        view = engine.ask(lambda: look(app_key(self.session_name, app_id)))
        if view is None:
            raise UnknownAppException(self._handle(app_id))
        if view.over or not view.in_phase(Phase.UP):
            return ()
        return samples(view, engine.ask(lambda: statistics(view)), time.time())

    def exec(self, app_id: str, role_name: str, k: int, argv: Sequence[str], *, terminal: bool) -> int:
        """Have the engine run the command in the replica's container."""
        engine = self._connected()
        view = engine.ask(lambda: look(app_key(self.session_name, app_id)))
        if view is None:
            raise UnknownAppException(self._handle(app_id))
        replica = next(r for r in view.replicas if (r.planned.role, r.planned.replica) == (role_name, k))
        if replica.phase is not Phase.UP:
            state = replica_state(view, replica, ended=view.over).name
            raise ReplicaNotRunningError(self._handle(app_id), role_name, k, state)
        from torchx_core.schedulers.docker.inside import run_inside  # here: nobody else needs it

        return run_inside(engine, view, replica, argv, terminal=terminal)

    def describe_native(self, app_id: str) -> dict[str, object] | None:
        """Return what ``docker inspect`` says of each container, by name, with secrets masked."""
        engine = self._connected()
        found = containers_of(engine, app_key(self.session_name, app_id))
        return {c.name: masked(engine.inspect_fully(c.id)) for c in found} or None

    def diagnose(self) -> builtins.list[Finding]:
        """Look at the engine: whether it answers, and what it can do."""
        return diagnose(self._connected)

    def list(self) -> list[ListAppResponse]:
        """Return the apps of the session, oldest first; a record that cannot be read is UNKNOWN.

        Takes two requests, and some more for each app that has ended and that nobody has looked at since.
        """
        engine = self._connected()
        apps = store.by_app(engine.volumes(of_session(self.session_name)))
        containers = engine.containers(of_session(self.session_name))
        rows = [self._row(app_id, volumes, containers) for app_id, volumes in apps.items()]
        return sorted((row for row in rows if row), key=lambda row: (row.submitted_at or 0.0, row.app_id))

    def sessions(self) -> builtins.list[str]:
        """Return the sessions of all records on the engine, in one request."""
        records = self._connected().volumes({"label": [SESSION]})
        return sorted({volume.labels[SESSION] for volume in records if SESSION in volume.labels})

    def _row(
        self, app_id: str, volumes: builtins.list[Volume], containers: builtins.list[Container]
    ) -> ListAppResponse | None:
        try:
            records = store.decode(volumes)
            if records is None:
                return None  # deleted while somebody wrote a record of it
            state = self._state(records, [c for c in containers if c.labels.get(APP) == app_id])
            name = records.app.app.name
        except StoredStateError as err:
            return ListAppResponse(app_id=app_id, state=AppState.UNKNOWN, error=str(err))
        return ListAppResponse(app_id=app_id, state=state, name=name, submitted_at=records.app.submitted_at)

    def _state(self, records: Records, containers: builtins.list[Container]) -> AppState:
        view = view_of(records, containers, VolumeState(), {})
        if not view.over and not view.in_phase(Phase.UP, Phase.AGAIN, Phase.CREATED):
            view = reconcile(self._connected(), self.session_name, records.app.app_id) or view
        return status(view).state

    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Write the request, have the engine stop every container, return.

        Raises:
            InvalidInputError: The grace period is no length of time.
        """
        check_grace(grace_s)
        return ask_to_end(
            self._connected(), self.session_name, app_id, grace_s=grace_s, reason=reason, if_owner=if_owner
        )

    def delete(self, app_id: str, *, force: bool = False) -> None:
        """Remove what there is of an app that is terminal, or by force of one whose record is damaged."""
        engine = self._connected()
        try:
            view = reconcile(engine, self.session_name, app_id)
        except StoredStateError:
            if not force:
                raise
            remove_everything(engine, self.session_name, app_id)
            return
        if view is None:
            remove_unlabelled(engine, self.session_name, app_id, force=force)
            return
        state = status(view).state
        if not is_terminal(state):
            raise AppNotTerminalError(self._handle(app_id), str(state), "delete")
        remove_everything(engine, self.session_name, app_id, view.app.nonce)

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps as every scheduler does, and what nobody uses: workspaces, stray records."""
        engine = self._connected()
        doomed = super().prune(max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)
        each_at_once(
            engine.remove_volume, [*debris(engine, self.session_name), *marks(engine, self.session_name)]
        )
        prune_workspaces(engine)
        return doomed

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> DockerFeed:
        """Open the app's event stream."""
        app = self._records(app_id).app
        engine = self._connected()
        with self._lock:
            if self._notifier is None:
                self._notifier = Notifier(engine.endpoint, engine.api.api_version, self.session_name)
        return DockerFeed(engine, app, self._handle(app_id), cursor, options, self._notifier)

    def last_lines(self, app_id: str, replica: ReplicaStatus) -> LastLines:
        """Ask the engine for the end of the container's log."""
        app = self._records(app_id).app
        for planned in app.replicas:
            if (planned.role, planned.replica) == (replica.role, replica.id):
                return read_last_lines(self._connected(), planned.container, app.key, replica.attempt)
        return LastLines((), ())

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return self._records(app_id).owner

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set."""
        return set_owner(self._connected(), self._records(app_id), token, expected, force=force)

    def _records(self, app_id: str) -> Records:
        records = store.read(self._connected(), self.session_name, app_id)
        if records is None:
            raise UnknownAppException(self._handle(app_id))
        return records

    def _connected(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _connect(self._docker_host)
            return self._engine


def _connect(docker_host: str | None) -> Engine:
    endpoint = find_endpoint(docker_host, os.environ)
    return Engine(sdk_client(endpoint), endpoint)


def ask_to_end(
    engine: Engine, session: str, app_id: str, *, grace_s: float | None, reason: str, if_owner: str | None
) -> CancelOutcome:
    """Write the request, so that it outlives everybody, and stop what runs; the first request counts.

    The owner is looked at before: whoever takes the app over within that moment finds it cancelled.
    """
    view = reconcile(engine, session, app_id)
    if view is None:
        return CancelOutcome.UNKNOWN_APP
    if if_owner is not None and view.records.owner != if_owner:
        return CancelOutcome.NOT_OWNER
    if view.over:
        return CancelOutcome.ALREADY_TERMINAL
    first = view.records.stop
    default_s = view.app.grace_s if first is None else first.grace_s
    stop = Stop(
        outcome=AppState.CANCELLED.name,
        msg=reason or "cancelled",
        grace_s=default_s if grace_s is None else grace_s,
        time=time.time(),
    )
    end(engine, view, stop)
    if not view.in_phase(Phase.UP, Phase.AGAIN):
        reconcile(engine, session, app_id)  # nothing runs: it has ended
    return CancelOutcome.REQUESTED


def set_owner(engine: Engine, records: Records, token: str, expected: str | None, *, force: bool) -> bool:
    """Change the owner if it is the expected one; return whether the token owns the app now."""
    while records.owner != token:
        if records.owner != expected and not force:
            return False
        kind = f"{store.OWNER}.{records.owner_number + 1}"
        store.write(engine, records.app, kind, {"token": token})
        # A number that was freed below may be written again by somebody slow, so only a second look tells.
        seen = store.read(engine, records.app.session, records.app.app_id)
        if seen is None or seen.app.nonce != records.app.nonce:
            return False
        _remove_older(engine, records)
        records = seen
    return True


def _remove_older(engine: Engine, records: Records) -> None:
    if records.owner_number:
        kind = f"{store.OWNER}.{records.owner_number}"
        engine.remove_volume(record_name(records.app.name, records.app.nonce, kind))
