"""The interface that a scheduler implements."""

from __future__ import annotations

import builtins
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.pruning import surplus
from torchx_core.schedulers.responses import (
    CancelOutcome,
    Capabilities,
    DescribeAppResponse,
    FollowOptions,
    ListAppResponse,
)
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, runopts

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

    @abstractmethod
    def poll(self) -> Batch | None:
        """Return the next events at once, or None when there is nothing new right now.

        Does bounded work and never waits. Renews the app's lease where it has one.

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
        """
        resolved = self.run_opts().resolve(cfg)
        self._validate(app)
        info = self._submit_dryrun(app, resolved, app_id)
        for role in app.roles:
            info = role.pre_proc(self.backend, info)
        info.app = app
        info.cfg = resolved
        info.scheduler = self.backend
        return info

    @abstractmethod
    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str | None) -> AppDryRunInfo[T]:
        """Render the request; a pure function of its arguments and of this host."""

    def _validate(self, app: AppDef) -> None:
        """Raise InvalidAppError when this backend cannot run the app."""

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
        """Record the wish that the app ends, wake whoever serves it, and return at once.

        Args:
            app_id: The app.
            grace_s: Seconds between SIGTERM and SIGKILL; None for the app's own ``grace_s`` option.
            reason: Recorded and shown in the status, for example ``cancelled by user action in Airflow``.
            if_owner: Do nothing unless this token owns the app.
        """

    @abstractmethod
    def delete(self, app_id: str) -> None:
        """Forget a terminal app, its record and its logs; no such app is no error.

        Raises:
            AppNotTerminalError: The app is not terminal.
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
        for app_id in doomed:
            self.delete(app_id)
        return doomed

    def size_bytes(self, app_id: str) -> int:  # noqa: ARG002  # a backend without files on disk
        """Return how much disk space the app's record and logs take."""
        return 0

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
