"""Answers questions on the other host: what the scheduler's methods are told, and what feeds have to say."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from operator import methodcaller
from threading import Lock
from typing import Final, cast

from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.feed import EventFeed
from torchx_core.schedulers.paths import default_state_dir
from torchx_core.schedulers.remote.wire import load
from torchx_core.schedulers.responses import FollowOptions
from torchx_core.schedulers.scheduler import Scheduler
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, split_place
from torchx_core.supervisor.records import Json

__all__ = ["Handler"]

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
        "select",
        "sessions",
        "size_bytes",
        "status",
        "step_inside",
        "take_over",
        "usage",
    }
)
"""Methods of a scheduler that are called with the words of the question."""

_SCHEDULERS: Final = {
    "local_cwd": "torchx_core.schedulers.local:create_cwd_scheduler",
    "local_dir": "torchx_core.schedulers.local:create_dir_scheduler",
    "slurm": "torchx_core.schedulers.slurm.remote.there:create_scheduler",
}
"""Which schedulers there are here, and what makes each for a session and the directory of its records."""


def _make_scheduler(backend: str, session: str, state_dir: str) -> Scheduler[object]:
    module, _, name = _SCHEDULERS[backend].partition(":")
    make = cast("Callable[..., Scheduler[object]]", getattr(import_module(module), name))
    return make(session, state_dir=state_dir)


class Handler:
    """Has a scheduler for every session that it is asked about, and keeps followers' feeds open.

    A feed stays open between two questions; the cursor in the question decides all the same.
    """

    def __init__(self, make: Callable[[str, str, str], Scheduler[object]] = _make_scheduler) -> None:
        """Be asked nothing yet.

        Args:
            make: Makes a scheduler by its name, its session, and the directory of its records.
        """
        self._make = make
        self._schedulers: dict[tuple[str, str, str], Scheduler[object]] = {}
        self._feeds: dict[str, EventFeed] = {}
        self._lock = Lock()

    def answer(self, question: Json) -> object:
        """Return the answer; may take as long as the scheduler takes. Called from several threads.

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
        words = cast("Json", load(question["words"]))
        match verb:
            case "schedule":
                return scheduler.schedule(AppDryRunInfo(words["request"], str))
            case "dryrun":
                return str(_dryrun(scheduler, words).request)
            case "submit":
                return scheduler.schedule(_dryrun(scheduler, words))
            case _ if verb in _METHODS:
                return cast("object", methodcaller(verb, **words)(scheduler))
            case _:
                raise KeyError(verb)

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
        """Close all feeds, then the schedulers."""
        for name in list(self._feeds):
            self.leave(name)
        for scheduler in self._schedulers.values():
            scheduler.close()

    def _open_feed(self, question: Json) -> EventFeed:
        cursor = cast("str | None", question["cursor"])
        options = cast("FollowOptions", load(question["options"]))
        return self._scheduler(question).feed(str(question["app_id"]), cursor, options)

    def _scheduler(self, question: Json) -> Scheduler[object]:
        key = split_place(str(question["backend"]))[0], str(question["session"]), _root(question)
        with self._lock:
            if key not in self._schedulers:
                self._schedulers[key] = self._make(*key)
            return self._schedulers[key]


def _dryrun(scheduler: Scheduler[object], words: Json) -> AppDryRunInfo[object]:
    app, cfg = cast("AppDef", words["app"]), cast("dict[str, CfgVal]", words["cfg"])
    return scheduler.submit_dryrun(app, cfg, app_id=str(words["app_id"]))


def _root(question: Json) -> str:
    chosen = cast("str | None", question["state_dir"])
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(chosen))) if chosen else default_state_dir()
