"""The facade over all schedulers: run an app, follow it, cancel it."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

from torchx_core.errors import (
    MalformedAppHandleException,
    UnknownAppException,
    UnknownReplicaError,
    WaitTimeoutError,
)
from torchx_core.registry import SchedulerFactory, find_factory, scheduler_factories
from torchx_core.runner.components import RunsComponents
from torchx_core.runner.environment import inject_environment
from torchx_core.runner.follow import drive, drive_async
from torchx_core.runner.lines import check_window, select_lines
from torchx_core.runner.workspaces import BuildsWorkspaces, build_for, override_workspace
from torchx_core.schedulers import (
    Batch,
    CancelOutcome,
    DescribeAppResponse,
    EventFeed,
    FollowOptions,
    ListAppResponse,
    Scheduler,
    Stream,
)
from torchx_core.specs import (
    AppDef,
    AppDryRunInfo,
    AppHandle,
    AppState,
    AppStatus,
    CfgVal,
    Workspace,
    make_app_handle,
    parse_app_handle,
    runopts,
    snapshot_app,
    validate_app,
)

__all__ = ["Runner", "get_runner"]

DEFAULT_SESSION = "torchx"


def get_runner(
    name: str | None = None,
    component_defaults: Mapping[str, Mapping[str, str]] | None = None,
    **scheduler_params: object,
) -> Runner:
    """Return a runner for the session `name` (default ``torchx``) with every known scheduler.

    Args:
        name: Session; the middle part of every handle, so apps of one session can be listed together.
        component_defaults: Component name -> argument -> text, for `Runner.run_component`.
        scheduler_params: Passed to each scheduler's factory, for example ``state_dir=…``.

    Example:
        >>> with get_runner() as runner:
        ...     "local_cwd" in runner.scheduler_backends()
        True
    """
    return Runner(
        name or DEFAULT_SESSION, scheduler_factories(), component_defaults, scheduler_params=scheduler_params
    )


class Runner(RunsComponents, BuildsWorkspaces):
    """Submits and follows apps on any scheduler; holds no state about them.

    A handle made by one runner works in any other, in another process, on another day, as far as the
    scheduler allows. Methods may be called from several threads.
    """

    def __init__(
        self,
        name: str,
        scheduler_factories: Mapping[str, SchedulerFactory],
        component_defaults: Mapping[str, Mapping[str, str]] | None = None,
        *,
        scheduler_params: Mapping[str, object] | None = None,
    ) -> None:
        """Create no scheduler yet: each is made when it is first used."""
        self.name = name
        self.component_defaults: Mapping[str, Mapping[str, str]] = component_defaults or {}
        self._factories = scheduler_factories
        self._params = dict(scheduler_params or {})
        self._schedulers: dict[tuple[str, str], Scheduler[object]] = {}
        self._making = Lock()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; apps go on."""
        self.close()

    def close(self) -> None:
        """Release what the schedulers hold in this process; apps go on. May be called more than once."""
        while self._schedulers:
            self._schedulers.popitem()[1].close()

    def scheduler_backends(self) -> list[str]:
        """Return the names of all schedulers; the first is the default."""
        return list(self._factories)

    def scheduler_run_opts(self, scheduler: str) -> runopts:
        """Return the options of the scheduler.

        Raises:
            UnknownSchedulerException: No such scheduler.
        """
        return self.scheduler(scheduler).run_opts()

    def cfg_from_str(self, scheduler: str, *cfg_literal: str) -> dict[str, CfgVal]:
        """Return the options that the texts spell (`runopts.cfg_from_str`); a later one wins."""
        opts = self.scheduler_run_opts(scheduler)
        return {key: value for text in cfg_literal for key, value in opts.cfg_from_str(text).items()}

    def scheduler(self, backend: str, session: str | None = None) -> Scheduler[object]:
        """Return this runner's scheduler of that name, for its own or another session.

        Raises:
            UnknownSchedulerException: No such scheduler.
        """
        key = (backend, session or self.name)
        with self._making:
            if key not in self._schedulers:
                self._schedulers[key] = find_factory(self._factories, backend)(key[1], **self._params)
            return self._schedulers[key]

    def dryrun(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: Workspace | str | None = None,
        parent_run_id: str | None = None,
        *,
        app_id: str | None = None,
    ) -> AppDryRunInfo[object]:
        """Return the request that `run` would submit; submit nothing.

        The app is copied first: neither this call nor a later change by the caller touches the other.

        Args:
            app: What to run; an ``AppDef`` of ours or of TorchX.
            scheduler: Where, one of `scheduler_backends`.
            cfg: Options of the scheduler.
            workspace: Local files to lay over the image of the first role, in place of its own workspace: a
                path, a YAML map of path to sub-directory, or a `Workspace`. Named here, built by `schedule`.
            parent_run_id: Recorded in the app's environment as ``TORCHX_PARENT_RUN_ID``; None for the one in
                this process's environment, if any. It makes no other request of the same app.
            app_id: Idempotency key: the app's id within the scheduler and session; None for a fresh one.

        Raises:
            UnknownSchedulerException: No such scheduler.
            InvalidAppError: The app is wrong, or the scheduler cannot run it, or a role has a workspace
                and the scheduler cannot build any.
            InvalidRunConfigException: cfg does not fit the scheduler's options.
            MalformedAppHandleException: The app id, or this runner's session, cannot be part of a handle.
        """
        backend = self.scheduler(scheduler)
        # Refused here, because an app whose handle cannot be written could never be named again.
        make_app_handle(scheduler, self.name, "any" if app_id is None else app_id)
        private = snapshot_app(app)
        override_workspace(private, workspace)
        validate_app(private)
        inject_environment(private, scheduler=scheduler, session=self.name, parent_run_id=parent_run_id)
        return backend.submit_dryrun(private, cfg or {}, app_id=app_id)

    def schedule(self, dryrun_info: AppDryRunInfo[object]) -> AppHandle:
        """Build the workspaces that the request needs, submit exactly what it shows, return the handle.

        Raises:
            InvalidInputError: A workspace changed since the dry run.
            SchedulerError: A workspace could not be built; nothing was submitted.
            AppIdConflictError: The app id is taken by a different request.
            SubmitFailedError: Nothing was submitted, nothing is left behind.
            SubmitOutcomeUnknownError: Calling again with the same app id settles it.
        """
        if dryrun_info.scheduler is None:
            raise ValueError("this dry run names no scheduler; make it with Runner.dryrun")
        backend = self.scheduler(dryrun_info.scheduler)
        build_for(backend, dryrun_info)
        app_id = backend.schedule(dryrun_info)
        return make_app_handle(dryrun_info.scheduler, self.name, app_id)

    def run(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: Workspace | str | None = None,
        parent_run_id: str | None = None,
        *,
        app_id: str | None = None,
    ) -> AppHandle:
        """Submit the app and return its handle: `dryrun`, then `schedule`; see there for both.

        With an ``app_id`` the call may be repeated, also by another process after a crash: the app is
        submitted once and every caller gets the same handle.
        """
        return self.schedule(self.dryrun(app, scheduler, cfg, workspace, parent_run_id, app_id=app_id))

    def describe(self, app_handle: AppHandle) -> AppDef | None:
        """Return the app as it was submitted, or None when there is no such app."""
        description = self._description(app_handle)
        if description is None:
            return None
        return AppDef(name=description.name, roles=description.roles, metadata=description.metadata)

    def describe_native(self, app_handle: AppHandle) -> object | None:
        """Return the app as its backend describes it, as plain JSON values; None when it has nothing more."""
        backend, app_id = self._locate(app_handle)
        return backend.describe_native(app_id)

    def status(self, app_handle: AppHandle) -> AppStatus | None:
        """Return the app's present status, or None when there is no such app."""
        description = self._description(app_handle)
        return None if description is None else description.status

    def wait(
        self,
        app_handle: AppHandle,
        wait_interval: float | None = None,  # noqa: ARG002  # TorchX's; see below
        *,
        timeout_s: float | None = None,
    ) -> AppStatus | None:
        """Block until the app is terminal and return its status, or None when there is no such app.

        Args:
            app_handle: The app.
            wait_interval: Accepted for TorchX's sake and not needed: waiting is event-driven. Like any
                following it renews the app's lease.
            timeout_s: Give up after that many seconds; None to wait for ever.

        Raises:
            WaitTimeoutError: Not terminal in time; the app goes on.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        now = self.status(app_handle)
        if now is None or now.is_terminal():
            return now
        backend, app_id = self._locate(app_handle)
        try:
            feed = backend.feed(app_id, None, FollowOptions(logs=False))
            for batch in drive(feed, deadline=deadline):
                if batch.final_status is not None:
                    return batch.final_status
        except UnknownAppException:
            return None
        state = self.status(app_handle)
        raise WaitTimeoutError(app_handle, timeout_s or 0, str(state.state if state else AppState.UNKNOWN))

    def cancel(
        self,
        app_handle: AppHandle,
        *,
        grace_s: float | None = None,
        reason: str = "",
        if_owner: str | None = None,
    ) -> CancelOutcome:
        """Ask for the app's end and return at once; the scheduler serves the grace period.

        Args:
            app_handle: The app; cancelling a terminal or unknown one does nothing.
            grace_s: Seconds between SIGTERM and SIGKILL; None for the app's own ``grace_s`` option.
            reason: Recorded, and shown in the status.
            if_owner: Do nothing unless this token owns the app (see `take_over`).
        """
        backend, app_id = self._locate(app_handle)
        return backend.cancel(app_id, grace_s=grace_s, reason=reason, if_owner=if_owner)

    def delete(self, app_handle: AppHandle, *, force: bool = False) -> None:
        """Forget a terminal app, its record and its logs; an unknown one is no error.

        Args:
            app_handle: The app.
            force: If its record is damaged, so that nobody can tell whether it runs: end what may run of it.

        Raises:
            AppNotTerminalError: The app is not terminal.
            StoredStateError: Its record cannot be used, and it may still run.
        """
        backend, app_id = self._locate(app_handle)
        if force:
            backend.delete(app_id, force=True)
        else:
            backend.delete(app_id)

    def list(self, scheduler: str) -> list[ListAppResponse]:
        """Return the apps of this runner's session on the scheduler, oldest first."""
        apps: builtins.list[ListAppResponse] = []
        for app in self.scheduler(scheduler).list():
            # What bears a name that no submit takes was put there by somebody else, and hides no app of ours.
            with suppress(MalformedAppHandleException):
                app.app_handle = make_app_handle(scheduler, self.name, app.app_id)
                apps.append(app)
        return apps

    def prune(
        self,
        scheduler: str,
        *,
        max_age_s: float | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
    ) -> builtins.list[str]:
        """Delete terminal apps of this session, oldest first, until what is left is within every bound.

        Args:
            scheduler: Where.
            max_age_s: Delete what was submitted longer ago than that.
            max_count: Keep at most so many apps.
            max_bytes: Keep at most that much on disk.

        Returns:
            The ids of what was deleted; an app that still runs never is.
        """
        return self.scheduler(scheduler).prune(max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)

    def owner(self, app_handle: AppHandle) -> str | None:
        """Return the token of the app's owner, or None when nobody has taken it over."""
        backend, app_id = self._locate(app_handle)
        return backend.owner(app_id)

    def take_over(
        self, app_handle: AppHandle, token: str, *, expected: str | None = None, force: bool = False
    ) -> bool:
        """Make `token` the app's owner by compare-and-set.

        Args:
            app_handle: The app.
            token: Who takes over, for example a try's id.
            expected: The present owner; None for an app that nobody owns.
            force: Take over from whoever owns it.

        Returns:
            Whether the token owns the app now.

        Raises:
            UnknownAppException: There is no such app.
        """
        backend, app_id = self._locate(app_handle)
        return backend.take_over(app_id, token, expected=expected, force=force)

    def follow(
        self,
        app_handle: AppHandle,
        cursor: str | None = None,
        *,
        logs: bool = True,
        roles: Iterable[str] | None = None,
        streams: Stream = Stream.COMBINED,
        tick_s: float | None = None,
        batch_bytes: int | None = None,
        until_now: bool = False,
    ) -> Iterator[Batch]:
        """Yield the app's events in order until it is terminal and every line has been delivered.

        Following renews the app's lease. Leaving the loop early detaches: the app goes on.

        Args:
            app_handle: The app.
            cursor: Where to go on, from the last batch that was dealt with; None for the start.
            logs: Include log lines.
            roles: Only these roles; None for all.
            streams: Which output to include.
            tick_s: Yield an empty batch whenever that many seconds passed without events, so that the
                caller can look at other things; None to block until something happens.
            batch_bytes: About how much log text one batch may hold; None for a mebibyte.
            until_now: End when all that is there already has been yielded, though the app goes on.

        Raises:
            UnknownAppException: There is no such app.
            UnknownReplicaError: The app has no such role.
            InvalidCursorError: The cursor is not one of this app's.
        """
        options = _options(logs=logs, roles=roles, streams=streams, batch_bytes=batch_bytes)
        return drive(self._feed(app_handle, cursor, options), tick_s, until_now=until_now)

    def afollow(
        self,
        app_handle: AppHandle,
        cursor: str | None = None,
        *,
        logs: bool = True,
        roles: Iterable[str] | None = None,
        streams: Stream = Stream.COMBINED,
        tick_s: float | None = None,
        batch_bytes: int | None = None,
    ) -> AsyncIterator[Batch]:
        """Do what `follow` does on an event loop, without a thread per app."""
        options = _options(logs=logs, roles=roles, streams=streams, batch_bytes=batch_bytes)
        return drive_async(self._feed(app_handle, cursor, options), tick_s)

    def log_lines(
        self,
        app_handle: AppHandle,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterator[str]:
        r"""Yield the lines of one replica, each with its ``\n``, all attempts in order.

        Args:
            app_handle: The app.
            role_name: The role.
            k: The replica.
            regex: Only lines in which it is found.
            since: Only lines written at or after it.
            until: Only lines written before it.
            should_tail: Go on until the app is terminal; otherwise end at the last line written so far.
            streams: Which output; None for both.

        Raises:
            UnknownAppException: There is no such app.
            UnknownReplicaError: There is no such role or replica.
            InvalidInputError: A time is given, and the scheduler does not tell when a line was written.
        """
        self._check_replica(app_handle, role_name, k)
        check_window(self._locate(app_handle)[0], since, until)
        options = FollowOptions(roles=frozenset([role_name]), streams=streams or Stream.COMBINED)
        feed = self._feed(app_handle, None, options)
        batches = drive(feed, until_now=not should_tail)
        return select_lines(batches, k, regex, since, until)

    def _feed(self, app_handle: AppHandle, cursor: str | None, options: FollowOptions) -> EventFeed:
        for role in options.roles or ():
            self._check_replica(app_handle, role, 0)
        backend, app_id = self._locate(app_handle)
        return backend.feed(app_id, cursor, options)

    def _check_replica(self, app_handle: AppHandle, role_name: str, k: int) -> None:
        app = self.describe(app_handle)
        if app is None:
            raise UnknownAppException(app_handle)
        known = {role.name: role.num_replicas for role in app.roles}
        if role_name not in known:
            raise UnknownReplicaError(app_handle, role_name, None, known)
        if not 0 <= k < known[role_name]:
            raise UnknownReplicaError(app_handle, role_name, k, map(str, range(known[role_name])))

    def _description(self, app_handle: AppHandle) -> DescribeAppResponse | None:
        backend, app_id = self._locate(app_handle)
        return backend.describe(app_id)

    def _locate(self, app_handle: AppHandle) -> tuple[Scheduler[object], str]:
        parsed = parse_app_handle(app_handle)
        return self.scheduler(parsed.scheduler_backend, parsed.session_name), parsed.app_id


def _options(
    *, logs: bool, roles: Iterable[str] | None, streams: Stream, batch_bytes: int | None
) -> FollowOptions:
    chosen = None if roles is None else frozenset(roles)
    options = FollowOptions(logs=logs, roles=chosen, streams=streams)
    return options if batch_bytes is None else replace(options, batch_bytes=batch_bytes)
