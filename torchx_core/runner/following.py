"""The part of the runner that follows apps: their events, their lines, what they use."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from torchx_core.errors import InvalidInputError
from torchx_core.schedulers import Batch, EventFeed, FollowOptions, Scheduler, Stream, UsageSample
from torchx_core.schedulers.feed import drive, drive_async
from torchx_core.specs import AppHandle, AppStatus

if TYPE_CHECKING:
    from torchx_core.schedulers.sampling import Sampler

__all__ = ["FollowsApps"]


class FollowsApps(ABC):
    """Yields what happens to an app."""

    @abstractmethod
    def _locate(self, app_handle: AppHandle) -> tuple[Scheduler[object], str]:
        """Return the app's scheduler, and its id there."""

    @abstractmethod
    def _explain(self, app_handle: AppHandle) -> Callable[[AppStatus], AppStatus]:
        """Return what lets a status tell why the app failed, by last lines that are read when it is asked."""

    def follow(  # noqa: PLR0913  # each says what to leave out, or to add
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
        usage: bool = False,
        renew: bool = True,
    ) -> Iterator[Batch]:
        """Yield the app's events in order until it is terminal and every line has been delivered.

        Following renews the app's lease (see ``renew``). Leaving the loop early detaches: the app goes on.

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
            usage: Look what the replicas use, at once, a second later and then every five seconds, and yield
                what is known (`UsageSample`). A scheduler that is slow to say is asked less often.
            renew: False for who only looks, and is no reason for the app to go on.

        Raises:
            UnknownAppException: There is no such app.
            UnknownReplicaError: The app has no such role.
            InvalidCursorError: The cursor is not one of this app's.
        """
        options = _options(logs=logs, roles=roles, streams=streams, batch_bytes=batch_bytes, renew=renew)
        sampler = self._sampler(app_handle, options) if usage else None
        feed = self._feed(app_handle, cursor, options)
        ended = self._explain(app_handle)
        return drive(feed, tick_s, until_now=until_now, sampler=sampler, ended=ended)

    def afollow(  # noqa: PLR0913  # likewise
        self,
        app_handle: AppHandle,
        cursor: str | None = None,
        *,
        logs: bool = True,
        roles: Iterable[str] | None = None,
        streams: Stream = Stream.COMBINED,
        tick_s: float | None = None,
        batch_bytes: int | None = None,
        usage: bool = False,
        renew: bool = True,
    ) -> AsyncIterator[Batch]:
        """Do what `follow` does on an event loop, without a thread per app."""
        options = _options(logs=logs, roles=roles, streams=streams, batch_bytes=batch_bytes, renew=renew)
        sampler = self._sampler(app_handle, options) if usage else None
        feed = self._feed(app_handle, cursor, options)
        return drive_async(feed, tick_s, sampler=sampler, ended=self._explain(app_handle))

    def usage(self, app_handle: AppHandle) -> Sequence[UsageSample]:
        """Return what each replica that runs uses just now, as far as its scheduler knows.

        How busy the CPU was (`Usage.cpu_percent`) takes two looks: `follow` with ``usage=True`` tells it.

        Raises:
            UnknownAppException: There is no such app.
            SchedulerError: The scheduler cannot say just now.
        """
        backend, app_id = self._locate(app_handle)
        return backend.usage(app_id)

    def log_lines(
        self,
        app_handle: AppHandle,
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
        backend, app_id = self._locate(app_handle)
        return backend.log_iter(app_id, role_name, k, regex, since, until, should_tail, streams=streams)

    def exec(
        self,
        app_handle: AppHandle,
        role_name: str,
        k: int,
        argv: Sequence[str],
        *,
        terminal: bool | None = None,
    ) -> int:
        """Run a command inside a replica, on this process's standard streams, and return its exit code.

        It has the replica's environment, working directory and limits. Its exit code is as a shell has it:
        128 and more for a signal.

        Args:
            app_handle: The app.
            role_name: The role.
            k: The replica.
            argv: The command.
            terminal: Give it a terminal; None to do so where stdin and stdout are one.

        Raises:
            UnknownAppException: There is no such app.
            UnknownReplicaError: There is no such role or replica.
            ReplicaNotRunningError: The replica does not run.
            InvalidInputError: Its scheduler cannot do that, or there is no command.
            SchedulerError: The command cannot be started there.
        """
        backend, app_id = self._locate(app_handle)
        if not argv:
            raise InvalidInputError("no command to run inside the replica")
        backend.check_running(app_id, role_name, k)
        if terminal is None:
            terminal = os.isatty(0) and os.isatty(1)
        return backend.exec(app_id, role_name, k, argv, terminal=terminal)

    def _feed(self, app_handle: AppHandle, cursor: str | None, options: FollowOptions) -> EventFeed:
        from torchx_core.runner.telemetry import observed  # here: a DAG file follows nothing

        backend, app_id = self._locate(app_handle)
        for role in options.roles or ():
            backend.check_replica(app_id, role)
        feed = backend.feed(app_id, cursor, options)
        return observed(feed, app_handle) if options.renew else feed

    def _sampler(self, app_handle: AppHandle, options: FollowOptions) -> Sampler:
        from torchx_core.schedulers.sampling import Sampler  # here: most of what follows looks at no usage

        backend, app_id = self._locate(app_handle)
        return Sampler(lambda: [s for s in backend.usage(app_id) if options.wants_role(s.role)])


def _options(
    *, logs: bool, roles: Iterable[str] | None, streams: Stream, batch_bytes: int | None, renew: bool
) -> FollowOptions:
    chosen = None if roles is None else frozenset(roles)
    options = FollowOptions(logs=logs, roles=chosen, streams=streams, renew=renew)
    return options if batch_bytes is None else replace(options, batch_bytes=batch_bytes)
