"""The interface that a scheduler implements."""

from __future__ import annotations

import builtins
import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import ClassVar, Generic, TypeAlias, TypeVar, cast

from torchx_core.errors import (
    AppNotTerminalError,
    InvalidAppError,
    InvalidInputError,
    ReplicaNotRunningError,
    TorchXError,
    UnknownAppException,
    UnknownReplicaError,
)
from torchx_core.schedulers.events import UsageSample
from torchx_core.schedulers.feed import EventFeed, drive
from torchx_core.schedulers.ids import make_unique
from torchx_core.schedulers.lines import check_window, select_lines
from torchx_core.schedulers.option_values import check_values
from torchx_core.schedulers.pruning import surplus
from torchx_core.schedulers.responses import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Stream,
    Verdict,
)
from torchx_core.schedulers.unsupported import UNSUPPORTED, leave_out_of_app
from torchx_core.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    AppStatus,
    CfgVal,
    LastLines,
    ReplicaStatus,
    Role,
    Workspace,
    is_terminal,
    runopts,
    snapshot_app,
    validate_app,
)

__all__ = ["Scheduler", "SchedulerFactory"]

T = TypeVar("T")

SchedulerFactory: TypeAlias = Callable[..., object]
"""Called as ``factory(session_name, **scheduler_params)``; must be cheap and do no I/O.

It returns a scheduler of ours, or one that was written for TorchX, which gets a bridge.
"""


class Scheduler(ABC, Generic[T]):
    """Runs apps on one backend.

    Implementors: every method may be called from any thread and from several processes at once; all state
    lives in the backend. A scheduler never touches signal handlers and never does work in a finaliser.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()

    def __init__(self, backend: str, session_name: str) -> None:
        """Do no I/O: the scheduler's factory calls this, and it must be cheap."""
        self.backend = backend
        self.session_name = session_name

    def close(self) -> None:
        """Release local resources; apps go on. May be called more than once."""

    def run_opts(self) -> runopts:
        """Return the options that `cfg` may hold."""
        return runopts()

    def submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], *, app_id: str | None = None
    ) -> AppDryRunInfo[T]:
        """Return what `schedule` would submit, without submitting it.

        Args:
            app: The app; already validated and private to this call.
            cfg: Run options, not yet resolved.
            app_id: Idempotency key; None for a fresh unique id.

        Raises:
            InvalidRunConfigException: cfg does not fit `run_opts`.
            InvalidAppError: This backend cannot run the app, or cannot build a role's workspace. Where it has
                the option ``unsupported``, what its capabilities lack may be a warning in the log instead.
        """
        resolved = self.run_opts().resolve(cfg)
        check_values(resolved)
        self._validate(app)
        if UNSUPPORTED in resolved:
            leave_out_of_app(app, resolved, self.capabilities, self.backend)
        builds = self._pin_workspaces(app, resolved)
        info = self._submit_dryrun(app, resolved, make_unique(app.name) if app_id is None else app_id)
        for role in app.roles:
            info = self._preprocessed(role, info)
        info.app = app
        info.cfg = resolved
        info.scheduler = self.backend
        info.builds = builds
        return info

    def _preprocessed(self, role: Role, info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        changed = cast("AppDryRunInfo[T] | None", role.pre_proc(self.backend, info))  # a hook of the user's
        if changed is None:
            raise InvalidAppError(f"roles[{role.name!r}].pre_proc", "must return the dry run, not None")
        return changed

    def _pin_workspaces(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> builtins.list[Role]:
        """Give each role that has a workspace the image that will come of it; return those as authored.

        From here on the request, and what makes two requests equal, speak of images alone.
        """
        builds: list[Role] = []
        ignored = UNSUPPORTED in cfg and not self.capabilities.workspaces  # said already, or refused
        for role in app.roles:
            if role.workspace and not ignored:
                builds.append(copy.deepcopy(role))
                role.image, role.workspace = self._name_image(role, cfg), None
        return builds

    def _name_image(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:
        try:
            return self.workspace_image(role, cfg)
        except InvalidAppError as err:
            raise InvalidAppError(f"roles[{role.name!r}].{err.path}", err.problem) from err

    @abstractmethod
    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str) -> AppDryRunInfo[T]:
        """Render the request; a pure function of its arguments and of this host."""

    def _validate(self, app: AppDef) -> None:
        """Raise InvalidAppError when this backend cannot run the app."""

    def workspace_image(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:  # noqa: ARG002  # see below
        """Return the name of the image that `build_workspace` makes; build nothing.

        Called by every dry run for each role that has a workspace, in the submitting process. The name
        follows from the content: of ``role.image``, of the files of ``role.workspace`` as they are now, and
        of the options that change the build; never from anything else of the role, the host or the time.
        Implemented where ``capabilities.workspaces`` is true.

        Raises:
            InvalidAppError: This backend cannot build workspaces, or the workspace or the image is wrong;
                its ``path`` is relative to the role.
        """
        raise InvalidAppError(
            "workspace",
            f"{self.backend} cannot lay files over an image; leave it out, or choose a scheduler that can",
        )

    def build_workspace(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:
        """Make the image of `workspace_image` unless it is there, and return its name.

        Called before `schedule`; may take long. Idempotent, and safe when several processes build at once.

        Args:
            role: As authored; not changed.
            cfg: Resolved options.

        Raises:
            InvalidAppError: As for `workspace_image`.
            SchedulerError: It could not be built; what was begun is taken back.
        """
        return self.workspace_image(role, cfg)

    def build_workspaces(
        self, roles: Iterable[Role], cfg: Mapping[str, CfgVal]
    ) -> dict[tuple[str, Workspace], str]:
        """Build each different pair of image and workspace once; return the built images by that pair.

        Raises:
            InvalidAppError: As for `workspace_image`.
            SchedulerError: One could not be built.
        """
        images: dict[tuple[str, Workspace], str] = {}
        for role in roles:
            if role.workspace and (role.image, role.workspace) not in images:
                images[role.image, role.workspace] = self.build_workspace(role, cfg)
        return images

    def build_for(self, dryrun_info: AppDryRunInfo[T]) -> None:
        """Build the workspaces that the request needs.

        Raises:
            InvalidInputError: A workspace is not what it was in the dry run.
            SchedulerError: One could not be built.
        """
        images = self.build_workspaces(dryrun_info.builds, dryrun_info.cfg)
        for role in dryrun_info.builds:
            if role.workspace and dryrun_info.app and role.name in dryrun_info.app:
                shown, built = dryrun_info.app[role.name].image, images[role.image, role.workspace]
                if built != shown:
                    raise InvalidInputError(
                        f"the workspace of role {role.name!r} changed since the dry run: it makes {built},"
                        f" not {shown}; make a new dry run"
                    )

    def submit(
        self, app: AppDef, cfg: Mapping[str, CfgVal] | None = None, workspace: Workspace | str | None = None
    ) -> str:
        """Submit the app and return its id: dry run, workspaces, `schedule`.

        For tests, and for programs that have a scheduler but no runner. The app is copied first. Unlike
        `Runner.run` it takes no app id, and gives the app no variables such as ``TORCHX_JOB_ID``.

        Args:
            app: What to run.
            cfg: Run options.
            workspace: Local files to lay over the image of the first role; see `Runner.dryrun`.

        Raises:
            InvalidAppError: The app is wrong, or this scheduler cannot run it.
            InvalidRunConfigException: cfg does not fit `run_opts`.
            SubmitFailedError: Nothing was submitted, nothing is left behind.
        """
        private = snapshot_app(app, workspace)
        validate_app(private)
        info = self.submit_dryrun(private, cfg or {})
        self.build_for(info)
        return self.schedule(info)

    @abstractmethod
    def schedule(self, dryrun_info: AppDryRunInfo[T]) -> str:
        """Submit the request and return its app id; atomic, and idempotent on the app id.

        Raises:
            AppIdConflictError: The id is taken by a different request.
            SubmitFailedError: Nothing was submitted and nothing is left behind.
            SubmitOutcomeUnknownError: Calling again with the same id settles it.
        """

    @abstractmethod
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return the app's status and description, or None when there is no such app."""

    def describe_native(self, app_id: str) -> object | None:  # noqa: ARG002  # a backend with more to say
        """Return the app as the backend itself describes it, as plain JSON values with secrets masked.

        For people and for debugging: what is in it is the backend's business and may change. None when there
        is no such app, or nothing to add to `describe`.
        """
        return None

    def usage(self, app_id: str) -> Sequence[UsageSample]:  # noqa: ARG002  # a backend that knows nothing
        """Return what each replica that runs uses just now, of those of which anything is known.

        Called every few seconds by whoever follows the app and wants to know, from any thread; may take a
        while. What two looks tell together (`Usage.cpu_percent`) is for the caller to work out. Implemented
        where ``capabilities.usage`` is true.

        Raises:
            UnknownAppException: There is no such app.
            SchedulerError: The backend cannot say just now.
        """
        return ()

    def exec(
        self, app_id: str, role_name: str, k: int, argv: Sequence[str], *, terminal: bool
    ) -> int:  # few can
        """Run a command where a replica runs, on this process's standard streams, and return its exit code.

        It has the replica's environment, working directory and limits; a signal that ends it is told as a
        shell does, by 128 and its number. Called in the caller's main thread, which waits. Implemented where
        ``capabilities.exec`` is true.

        Args:
            app_id: The app.
            role_name: The role.
            k: The replica, which ran a moment ago.
            argv: The command.
            terminal: Our streams are a terminal, and the command is to have one: its keys, its size.

        Raises:
            UnknownAppException: There is no such app.
            ReplicaNotRunningError: The replica has ended meanwhile.
            SchedulerError: The command cannot be started there.
        """
        raise NotImplementedError(f"{type(self).__qualname__} claims 'exec' and does not implement it")

    def status(self, app_id: str) -> AppStatus | None:
        """Return how the app stands, or None when there is no such app."""
        described = self.describe(app_id)
        return None if described is None else described.status

    def exists(self, app_id: str) -> bool:
        """Return whether the app was submitted and not deleted."""
        return self.status(app_id) is not None

    @abstractmethod
    def list(self) -> list[ListAppResponse]:
        """Return the apps of this session, oldest first."""

    def select(
        self, *, newest: int | None = None, begins: str = "", live: bool = False
    ) -> builtins.list[ListAppResponse]:
        """Return the apps of this session that meet every condition, oldest first; see `Runner.list`.

        Overridden where not all apps have to be looked at: there may be a hundred thousand.
        """
        apps = [a for a in self.list() if a.app_id.startswith(begins) and not (live and is_terminal(a.state))]
        return apps[-newest:] if newest else apps

    def sessions(self) -> builtins.list[str]:
        """Return the sessions that have apps here; this one alone, where the backend cannot tell."""
        return [self.session_name]

    @abstractmethod
    def cancel(
        self, app_id: str, *, grace_s: float | None = None, reason: str = "", if_owner: str | None = None
    ) -> CancelOutcome:
        """Record the request that the app ends, wake whoever serves it, and return at once.

        Args:
            app_id: The app.
            grace_s: Seconds between SIGTERM and SIGKILL; None for the app's own ``grace_s`` option.
            reason: Recorded and shown in the status, for example ``cancelled by user action in Airflow``.
            if_owner: Do nothing unless this token owns the app.
        """

    @abstractmethod
    def delete(self, app_id: str, *, force: bool = False) -> None:
        """Forget a terminal app, its record and its logs; no such app is no error.

        Args:
            app_id: The app.
            force: If its record is damaged, so that nobody can tell whether it runs: end what may run of it.

        Raises:
            AppNotTerminalError: The app is not terminal.
            StoredStateError: Its record cannot be used, and it may still run.
        """

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps, oldest first, until what is left is within every bound; return their ids.

        An app that still runs is never touched, and counts.

        Args:
            max_age_s: Delete what was submitted longer ago than that.
            max_count: Keep at most so many apps.
            max_bytes: Keep at most that much on disk.
        """
        apps = self.list()
        doomed = surplus(
            [(app, self.size_bytes(app.app_id) if max_bytes is not None else 0) for app in apps],
            max_age_s=max_age_s,
            max_count=max_count,
            max_bytes=max_bytes,
            now=time.time(),
        )
        deleted: builtins.list[str] = []
        for app_id in doomed:
            with suppress(AppNotTerminalError):  # somebody has deleted it since, and submitted it again
                self.delete(app_id)
                deleted.append(app_id)
        return deleted

    def size_bytes(self, app_id: str) -> int:  # noqa: ARG002  # a backend without files on disk
        """Return how much disk space the app's record and logs take."""
        return 0

    def diagnose(self) -> builtins.list[Finding]:
        """Return what works on this host and what does not; ``torchx-core doctor`` shows it.

        Called rarely, and may take seconds. Leaves nothing behind, and raises nothing: what goes wrong is a
        finding. By default it asks the backend for its apps; a scheduler that can say more overrides it.
        """
        try:
            text = f"answers; {len(self.list())} apps in session {self.session_name}"
        except TorchXError as err:
            return [Finding(subject="backend", verdict=Verdict.WARNING, text=f"cannot be used: {err}")]
        return [Finding(subject="backend", verdict=Verdict.OK, text=text)]

    @abstractmethod
    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> EventFeed:
        """Open the app's event stream at the cursor, or at its start.

        Raises:
            UnknownAppException: There is no such app.
            InvalidCursorError: The cursor is not one of this app's.
        """

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,  # noqa: FBT001, FBT002  # TorchX's signature
        streams: Stream | None = None,
    ) -> Iterator[str]:
        r"""Yield the lines of one replica, each with its ``\n``, all attempts in order.

        Args:
            app_id: The app.
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
        self.check_replica(app_id, role_name, k)
        check_window(self.backend, self.capabilities, since, until)
        options = FollowOptions(roles=frozenset([role_name]), streams=streams or Stream.COMBINED)
        batches = drive(self.feed(app_id, None, options), until_now=not should_tail)
        return select_lines(batches, k, regex, since, until)

    def check_running(self, app_id: str, role_name: str, k: int) -> None:
        """Make sure that the replica runs, and that a command can be run inside it.

        Raises:
            InvalidInputError: This backend cannot do that.
            UnknownAppException: There is no such app.
            UnknownReplicaError: It has no such role, or not so many replicas of it.
            ReplicaNotRunningError: It has ended, or has not started.
        """
        if not self.capabilities.exec:
            raise InvalidInputError(f"{self.backend} cannot run a command inside a replica")
        app = self.check_replica(app_id, role_name, k)
        replicas = [r for role in app.roles_statuses if role.role == role_name for r in role.replicas]
        state = next((r.state for r in replicas if r.id == k), AppState.PENDING)
        if state is not AppState.RUNNING:
            raise ReplicaNotRunningError(self._handle(app_id), role_name, k, state.name)

    def last_lines(self, app_id: str, replica: ReplicaStatus) -> LastLines:
        """Return what an attempt has printed last: some tens of kilobytes of whole lines, oldest first.

        Called when somebody wants to know why an app failed. By default it reads the log through, unless that
        is very long; a backend that can read the end alone overrides this.

        Args:
            app_id: The app.
            replica: Which replica, and which attempt of it.

        Raises:
            UnknownAppException: There is no such app.
        """
        from torchx_core.schedulers.last_lines import collect_last_lines  # here: only a failure needs it

        options = FollowOptions(roles=frozenset([replica.role]))
        return collect_last_lines(drive(self.feed(app_id, None, options), until_now=True), replica)

    def check_replica(self, app_id: str, role_name: str, k: int = 0) -> DescribeAppResponse:
        """Make sure that the app has the replica; return what is known of the app.

        Raises:
            UnknownAppException: There is no such app.
            UnknownReplicaError: It has no such role, or not so many replicas of it.
        """
        if (app := self.describe(app_id)) is None:
            raise UnknownAppException(self._handle(app_id))
        known = {role.name: role.num_replicas for role in app.roles}
        if role_name not in known:
            raise UnknownReplicaError(self._handle(app_id), role_name, None, known)
        if not 0 <= k < known[role_name]:
            raise UnknownReplicaError(self._handle(app_id), role_name, k, map(str, range(known[role_name])))
        return app

    @abstractmethod
    def owner(self, app_id: str) -> str | None:
        """Return the token of the app's owner, or None when nobody has taken it over."""

    @abstractmethod
    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Make `token` the owner if the present owner is `expected` (or anybody, with `force`).

        Returns:
            Whether the token owns the app now; true as well when it did before.
        """

    def _handle(self, app_id: str) -> str:
        return f"{self.backend}://{self.session_name}/{app_id}"
