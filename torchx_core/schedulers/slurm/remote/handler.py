"""Answers one question on the login node: from plain JSON values to plain JSON values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from torchx_core.schedulers.paths import default_state_dir
from torchx_core.schedulers.scheduler import EventFeed, Scheduler
from torchx_core.schedulers.slurm.remote.answers import (
    dump_description,
    dump_findings,
    dump_rows,
    load_options,
)
from torchx_core.schedulers.slurm.remote.requests import load_request
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.scheduler import SlurmScheduler
from torchx_core.specs import AppDryRunInfo
from torchx_core.supervisor.records import Json

__all__ = ["Handler"]

_Scheduler: TypeAlias = Scheduler[SlurmRequest]
_Verb: TypeAlias = Callable[["Handler", _Scheduler, Json], object]


def _make_scheduler(session: str, state_dir: str) -> _Scheduler:
    return SlurmScheduler("slurm", session, state_dir=state_dir)


class Handler:
    """Has a scheduler for every session that it is asked about."""

    def __init__(self, make: Callable[[str, str], _Scheduler] = _make_scheduler) -> None:
        """Be asked nothing yet.

        Args:
            make: Makes the scheduler of a session whose records lie in a directory.
        """
        self._make = make
        self._schedulers: dict[tuple[str, str], _Scheduler] = {}

    def answer(self, question: Json) -> object:
        """Return the answer; may take as long as Slurm takes. Called from several threads.

        Raises:
            TorchXError: As the scheduler's method of that name does.
        """
        return _VERBS[str(question["verb"])](self, self._scheduler(question), question)

    def feed(self, question: Json) -> EventFeed:
        """Open the feed that the question is about, at its cursor.

        Raises:
            UnknownAppException: There is no such app.
            InvalidCursorError: The cursor is not one of this app's.
        """
        cursor = cast("str | None", question["cursor"])
        options = load_options(cast("Json", question["options"]))
        return self._scheduler(question).feed(_app_id(question), cursor, options)

    def _scheduler(self, question: Json) -> _Scheduler:
        session, root = str(question["session"]), _root(question)
        if (session, root) not in self._schedulers:
            self._schedulers[session, root] = self._make(session, root)
        return self._schedulers[session, root]


def _root(question: Json) -> str:
    chosen = cast("str | None", question["state_dir"])
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(chosen))) if chosen else default_state_dir()


def _app_id(question: Json) -> str:
    return str(question["app_id"])


def _schedule(_handler: Handler, scheduler: _Scheduler, question: Json) -> str:
    home, state = os.path.expanduser("~"), _root(question)
    request = load_request(cast("Json", question["request"]), home=home, state=state)
    return scheduler.schedule(AppDryRunInfo(request, str))


def _describe(_handler: Handler, scheduler: _Scheduler, question: Json) -> object:
    told = scheduler.describe(_app_id(question))
    return None if told is None else dump_description(told)


def _cancel(_handler: Handler, scheduler: _Scheduler, question: Json) -> str:
    return scheduler.cancel(
        _app_id(question),
        grace_s=cast("float | None", question["grace_s"]),
        reason=str(question["reason"]),
        if_owner=cast("str | None", question["if_owner"]),
    ).name


def _take_over(_handler: Handler, scheduler: _Scheduler, question: Json) -> bool:
    return scheduler.take_over(
        _app_id(question),
        str(question["token"]),
        expected=cast("str | None", question["expected"]),
        force=bool(question["force"]),
    )


def _prune(_handler: Handler, scheduler: _Scheduler, question: Json) -> list[str]:
    return scheduler.prune(
        max_age_s=cast("float | None", question["max_age_s"]),
        max_count=cast("int | None", question["max_count"]),
        max_bytes=cast("int | None", question["max_bytes"]),
    )


def _open(handler: Handler, _scheduler: _Scheduler, question: Json) -> Json:
    feed = handler.feed(question)
    try:
        return {"cursor": feed.cursor, "done": feed.done}
    finally:
        feed.close()


_VERBS: Final[Mapping[str, _Verb]] = {
    "cancel": _cancel,
    "delete": lambda _, scheduler, question: scheduler.delete(
        _app_id(question), force=bool(question.get("force"))
    ),
    "describe": _describe,
    "describe_native": lambda _, scheduler, question: scheduler.describe_native(_app_id(question)),
    "diagnose": lambda _, scheduler, __: dump_findings(scheduler.diagnose()),
    "list": lambda _, scheduler, __: dump_rows(scheduler.list()),
    "open": _open,
    "owner": lambda _, scheduler, question: scheduler.owner(_app_id(question)),
    "prune": _prune,
    "schedule": _schedule,
    "size_bytes": lambda _, scheduler, question: scheduler.size_bytes(_app_id(question)),
    "take_over": _take_over,
}
