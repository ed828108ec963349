"""Answers questions on the login node: what the scheduler's methods are told, and what feeds have to say."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from operator import methodcaller
from typing import Final, TypeAlias, cast

from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.feed import EventFeed
from torchx_core.schedulers.paths import default_state_dir
from torchx_core.schedulers.responses import FollowOptions
from torchx_core.schedulers.scheduler import Scheduler
from torchx_core.schedulers.slurm.remote.requests import name_directories
from torchx_core.schedulers.slurm.remote.wire import load
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.scheduler import SlurmScheduler
from torchx_core.specs import AppDryRunInfo
from torchx_core.supervisor.records import Json

__all__ = ["Handler"]

_Scheduler: TypeAlias = Scheduler[SlurmRequest]

_METHODS: Final = frozenset(
    {
        "cancel",
        "delete",
        "describe",
        "describe_native",
        "diagnose",
        "last_lines",
        "list",
        "owner",
        "prune",
        "schedule",
        "sessions",
        "size_bytes",
        "status",
        "step_inside",
        "take_over",
        "usage",
    }
)
"""What of a scheduler's may be asked for by its name."""


def _make_scheduler(session: str, state_dir: str) -> _Scheduler:
    return SlurmScheduler("slurm", session, state_dir=state_dir)


class Handler:
    """Has a scheduler for every session that it is asked about, and keeps followers' feeds open.

    A feed stays open between two questions; the cursor in the question decides all the same.
    """

    def __init__(self, make: Callable[[str, str], _Scheduler] = _make_scheduler) -> None:
        """Be asked nothing yet.

        Args:
            make: Makes the scheduler of a session whose records lie in a directory.
        """
        self._make = make
        self._schedulers: dict[tuple[str, str], _Scheduler] = {}
        self._feeds: dict[str, EventFeed] = {}

    def answer(self, question: Json) -> object:
        """Return the answer; may take as long as Slurm takes. Called from several threads.

        Raises:
            TorchXError: As the scheduler's method of that name does.
        """
        verb, scheduler = str(question["verb"]), self._scheduler(question)
        if verb == "open":
            feed = self._open_feed(question)
            try:
                return feed.cursor, feed.done
            finally:
                feed.close()
        if verb not in _METHODS:
            raise KeyError(verb)
        words = cast("Json", load(question["words"]))
        if verb == "schedule":
            request = cast("SlurmRequest", words["request"])
            request = name_directories(request, home=os.path.expanduser("~"), state=_root(question))
            return scheduler.schedule(AppDryRunInfo(request, str))
        return cast("object", methodcaller(verb, **words)(scheduler))

    async def pull(self, question: Json) -> tuple[Batch, bool]:
        """Return the batch behind the cursor, or after a while a tick; and whether it is the last one.

        Raises:
            UnknownAppException: The app was deleted.
            InvalidCursorError: The cursor is not one of this app's.
        """
        name = str(question["feed"])
        feed = self._feeds.get(name)
        if feed is None or feed.cursor != question["cursor"]:
            self.leave(name)
            feed = self._feeds[name] = self._open_feed(question)
        try:
            batch, done = await self._next(name, feed, cast("float", question["patience_s"]))
        except BaseException:
            self.leave(name)
            raise
        if done:
            self.leave(name)
        return batch, done

    async def _next(self, name: str, feed: EventFeed, patience_s: float) -> tuple[Batch, bool]:
        until = time.monotonic() + patience_s
        while self._feeds.get(name) is feed:  # else its follower has left meanwhile
            batch = feed.poll()
            if batch is not None or feed.done or time.monotonic() >= until:
                return batch or Batch(events=(), cursor=feed.cursor, answered=feed.caught_up), feed.done
            await feed.wait_async(until - time.monotonic())
        return Batch(events=(), cursor=feed.cursor, answered=False), False

    def leave(self, name: str) -> None:
        """Close a follower's feed, if it is open."""
        if name in self._feeds:
            self._feeds.pop(name).close()

    def close(self) -> None:
        """Close all feeds."""
        for name in list(self._feeds):
            self.leave(name)

    def _open_feed(self, question: Json) -> EventFeed:
        cursor = cast("str | None", question["cursor"])
        options = cast("FollowOptions", load(question["options"]))
        return self._scheduler(question).feed(str(question["app_id"]), cursor, options)

    def _scheduler(self, question: Json) -> _Scheduler:
        session, root = str(question["session"]), _root(question)
        if (session, root) not in self._schedulers:
            self._schedulers[session, root] = self._make(session, root)
        return self._schedulers[session, root]


def _root(question: Json) -> str:
    chosen = cast("str | None", question["state_dir"])
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(chosen))) if chosen else default_state_dir()
