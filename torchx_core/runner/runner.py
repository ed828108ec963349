"""The facade over all schedulers: run an app, follow it, cancel it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

from torchx_core.errors import (
    InvalidInputError,
    MalformedAppHandleException,
    UnknownAppException,
    WaitTimeoutError,
)
from torchx_core.registry import SchedulerFactory, make_scheduler, scheduler_factories
from torchx_core.runner.components import RunsComponents
from torchx_core.runner.environment import inject_environment
from torchx_core.runner.following import FollowsApps
from torchx_core.runner.workspaces import BuildsWorkspaces
from torchx_core.schedulers import (
    CancelOutcome,
    FollowOptions,
    ListAppResponse,
    Scheduler,
)
from torchx_core.schedulers.feed import drive
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


class Runner(RunsComponents, BuildsWorkspaces, FollowsApps):
    """Submits and follows apps on any scheduler; holds no state about them.

    A handle made by one runner works in any other, in another process, on another day, as far as the
    scheduler allows. Methods may be called from several threads.
    """

    def __init__(
        self,
        name: str,
        scheduler_factories: Mapping[str, SchedulerFactory],
        component_defaults: Mapping[str, Mapping[str, str]] | None = None,
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

    def default_scheduler(self) -> str:
        """Return the name of the scheduler that is meant where none is named.

        Raises:
            InvalidInputError: This runner was given no schedulers.
        """
        for name in self._factories:
            return name
        raise InvalidInputError("no scheduler is named, and this runner was given none")

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
        key = (backend, self.name if session is None else session)
        with self._making:
            if key not in self._schedulers:
                self._schedulers[key] = make_scheduler(self._factories, *key, self._params)
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
        private = snapshot_app(app, workspace)
        validate_app(private)
        inject_environment(private, scheduler=scheduler, session=self.name, parent_run_id=parent_run_id)
        info = backend.submit_dryrun(private, cfg or {}, app_id=app_id)
        info.scheduler = scheduler  # the name that this runner knows it by
        return info

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
        from torchx_core.runner.telemetry import submit_span  # here: a DAG file submits nothing

        backend = self.scheduler(dryrun_info.scheduler)
        with submit_span(dryrun_info.scheduler, self.name) as tell:
            backend.build_for(dryrun_info)
            app_id = backend.schedule(dryrun_info)
            handle = make_app_handle(dryrun_info.scheduler, self.name, app_id)
            tell(handle)
        return handle

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
        backend, app_id = self._locate(app_handle)
        description = backend.describe(app_id)
        if description is None:
            return None
        return AppDef(name=description.name, roles=description.roles, metadata=description.metadata)

    def describe_native(self, app_handle: AppHandle) -> object | None:
        """Return the app as its backend describes it, as plain JSON values; None when it has nothing more."""
        backend, app_id = self._locate(app_handle)
        return backend.describe_native(app_id)

    def status(self, app_handle: AppHandle) -> AppStatus | None:
        """Return the app's present status, or None when there is no such app."""
        backend, app_id = self._locate(app_handle)
        status = backend.status(app_id)
        return None if status is None else self._explain(app_handle)(status)

    def wait(
        self,
        app_handle: AppHandle,
        wait_interval: float = 10,  # noqa: ARG002  # TorchX's; see below
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
        try:
            feed = self._feed(app_handle, None, FollowOptions(logs=False))
            for batch in drive(feed, deadline=deadline, ended=self._explain(app_handle)):
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
        from torchx_core.runner.telemetry import record_cancel  # likewise

        backend, app_id = self._locate(app_handle)
        outcome = backend.cancel(app_id, grace_s=grace_s, reason=reason, if_owner=if_owner)
        record_cancel(app_handle, reason, outcome)
        return outcome

    def stop(self, app_handle: AppHandle) -> None:
        """Do what `cancel` does, under TorchX's old name of it."""
        self.cancel(app_handle)

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

    def list(
        self,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,  # noqa: ARG002  # TorchX's; see below
        *,
        newest: int | None = None,
        begins: str = "",
        live: bool = False,
    ) -> list[ListAppResponse]:
        """Return the apps of this runner's session on the scheduler, oldest first.

        Args:
            scheduler: Where.
            cfg: Accepted for TorchX's sake and not needed: the session says which apps.
            newest: So many at most, those that were submitted last; None for all.
            begins: What the app's id begins with.
            live: Whether to leave out those that have ended.

        Raises:
            InvalidInputError: ``newest`` is less than 1.
        """
        if newest is not None and newest < 1:
            raise InvalidInputError(f"newest must be at least 1: {newest}; None is for all")
        backend = self.scheduler(scheduler)
        some = newest is not None or begins or live
        apps: builtins.list[ListAppResponse] = []
        for app in backend.select(newest=newest, begins=begins, live=live) if some else backend.list():
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

    def _explain(self, app_handle: AppHandle) -> Callable[[AppStatus], AppStatus]:
        """Return what lets a status tell why the app failed, by last lines that are read when it is asked."""
        from torchx_core.runner.last_lines import attach_last_lines  # here: a DAG file asks nothing

        def again() -> Runner:  # a status is often asked when the runner that it is of has been closed
            return Runner(self.name, self._factories, scheduler_params=self._params)

        return partial(attach_last_lines, again, app_handle)

    def _locate(self, app_handle: AppHandle) -> tuple[Scheduler[object], str]:
        parsed = parse_app_handle(app_handle)
        return self.scheduler(parsed.scheduler_backend, parsed.session_name), parsed.app_id
