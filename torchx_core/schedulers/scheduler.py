"""The interface that a scheduler implements."""

from __future__ import annotations

import builtins
import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, Generic, TypeVar, cast

from torchx_core.errors import AppNotTerminalError, InvalidAppError, InvalidRunConfigException, TorchXError
from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.ids import make_unique
from torchx_core.schedulers.pruning import surplus
from torchx_core.schedulers.responses import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Verdict,
)
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, Role, runopts

__all__ = ["EventFeed", "Scheduler"]

T = TypeVar("T")


class EventFeed(ABC):
    """One reader's place in one app's event stream.

    The runner drives it from one thread or one event loop: `poll` until it returns None, then wait,
    then `poll` again. Only waiting differs between threads and asyncio, so everything else is written once.
    """

    @property
    @abstractmethod
    def cursor(self) -> str:
        """The place right after the last batch returned."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the terminal event has been returned."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there when this reader came has been returned, once `poll` gave None.

        A feed that asks a server says False until it has the answers, and while it asks in vain.
        """
        return True

    @abstractmethod
    def poll(self) -> Batch | None:
        """Return the next events at once, or None when there is nothing new right now.

        Does bounded work and never waits. Renews the app's lease where it has one. A batch without events
        says that the place has moved: what was there is of the stream that this reader does not want.

        Raises:
            UnknownAppException: The app was deleted meanwhile.
        """

    @abstractmethod
    def wait(self, timeout_s: float | None) -> None:
        """Block until `poll` may have something, or the time is over; early returns are allowed."""

    @abstractmethod
    async def wait_async(self, timeout_s: float | None) -> None:
        """Do what `wait` does, without blocking the event loop and without a thread."""

    @abstractmethod
    def close(self) -> None:
        """Release what waiting needs; may be called more than once."""


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
            InvalidAppError: This backend cannot run the app, or cannot build a role's workspace.
        """
        resolved = self.run_opts().resolve(cfg)
        for key, value in resolved.items():
            if isinstance(value, str) and not _can_be_passed(value):
                raise InvalidRunConfigException(
                    f"{key} must not have a NUL byte or half a character: {value!r}", key, cfg
                )
        self._validate(app)
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
        for role in app.roles:
            if role.workspace:
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

    def exists(self, app_id: str) -> bool:
        """Return whether the app was submitted and not deleted."""
        return self.describe(app_id) is not None

    @abstractmethod
    def list(self) -> list[ListAppResponse]:
        """Return the apps of this session, oldest first."""

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
            count = len(self.list())
        except TorchXError as err:
            return [Finding(subject="backend", verdict=Verdict.WARNING, text=f"cannot be used: {err}")]
        text = f"answers; {count} apps in session {self.session_name}"
        return [Finding(subject="backend", verdict=Verdict.OK, text=text)]

    @abstractmethod
    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> EventFeed:
        """Open the app's event stream at the cursor, or at its start.

        Raises:
            UnknownAppException: There is no such app.
            InvalidCursorError: The cursor is not one of this app's.
        """

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


def _can_be_passed(text: str) -> bool:
    """Return whether the system takes the text as a path or a word; undecodable bytes are kept (PEP 383)."""
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
