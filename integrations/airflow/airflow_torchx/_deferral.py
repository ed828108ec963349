"""What crosses between a deferred task and its trigger: plain JSON values, and nothing secret."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, cast

from airflow_torchx._sight import kept_end
from torchx_core.errors import InvalidInputError
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppStatus

__all__ = [
    "CURSOR_KEY",
    "DEFERRED_AT_LEAST_S",
    "NOTHING_FIRED",
    "Deferral",
    "Fired",
    "cursor_noted",
    "make_note",
]

logger = logging.getLogger(__name__)

CURSOR_KEY: Final = "torchx_cursor"
"""The XCom by which a trigger leaves to the next one how far it showed the log; see `make_note`."""
DEFERRED_AT_LEAST_S: Final = 8.0
"""See `Deferral.not_before`; Airflow was seen to need up to 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """What a trigger is told: everything that it knows after a restart."""

    handle: AppHandle
    token: str
    """The deferring try's. Only while it owns the app its trigger may cancel it; when empty, never."""
    cursor: str | None
    """How far the task's log got before."""
    not_before: float
    """Fire no earlier, in seconds since the epoch.

    Airflow takes up to 5 s to notice that the task's process has ended after a deferral. A trigger that fires
    meanwhile makes its scheduler take the old process's success for the new one's, and fail the task.
    """
    deadline: float | None = None
    """When ``execution_timeout`` is over, in seconds since the epoch: Airflow ignores it while deferred.

    Without a token the trigger fires then; otherwise it cancels the app, and fires when that has ended.
    """
    timeout_reason: str = ""
    conn_id: str | None = None
    """The connection that says how to reach the scheduler."""
    logs: bool = True
    """Whether to show the app's output."""
    quiet: bool = False
    """Whether to leave what is to be shown to the worker: the triggerer cannot know the secrets."""
    limit_bytes: int | None = None
    """How much of the app's output the task's log may show."""
    shown_bytes: int = 0
    """How much of it was shown before."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many lines were left out before; see `AppLog.left_out`."""
    end_task: bool = False
    """Whether a success may end the task from here, without a worker."""
    links_awaited: bool = False
    """Whether a link of the task's page is missing, as its replica has no host yet."""

    def to_json(self) -> dict[str, object]:
        """Return the trigger's arguments."""
        return asdict(self)

    async def cancel(self, runner: Runner, reason: str) -> None:
        """Ask for the app's end, unless somebody else owns it by now."""
        outcome = await asyncio.to_thread(runner.cancel, self.handle, reason=reason, if_owner=self.token)
        logger.info("cancel %s: %s", self.handle, outcome.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What a trigger hands back."""

    cursor: str | None = None
    """How far it showed the app's log; None where it cannot say."""
    shown_bytes: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    timed_out: bool = False
    error: str | None = None
    """Why it stopped watching an app that may go on."""
    unseen: bool = False
    """Whether it never could: it does not know the app, or could not begin."""
    ended: AppStatus | None = None
    """How the app has succeeded, if all of its log was shown: a worker may not see it any more."""

    def to_json(self) -> dict[str, object]:
        """Return the event's payload."""
        return {**asdict(replace(self, ended=None)), "ended": kept_end(self.ended)}

    @staticmethod
    def from_json(payload: object) -> Fired:
        """Read a payload; what is none says nothing."""
        if not isinstance(payload, Mapping):
            return Fired()
        fields = cast("Mapping[str, object]", payload)
        cursor, error, shown = fields.get("cursor"), fields.get("error"), fields.get("shown_bytes")
        left_out = fields.get("left_out")
        return Fired(
            cursor=cursor if isinstance(cursor, str) else None,
            shown_bytes=shown if isinstance(shown, int) else 0,
            left_out=cast("Mapping[str, int]", left_out) if isinstance(left_out, Mapping) else {},
            timed_out=bool(fields.get("timed_out")),
            error=error if isinstance(error, str) else None,
            unseen=bool(fields.get("unseen")),
            ended=_status(fields.get("ended")),
        )


def _status(payload: object) -> AppStatus | None:
    try:
        return (
            AppStatus.from_json(cast("Mapping[str, object]", payload))
            if isinstance(payload, Mapping)
            else None
        )
    except InvalidInputError:
        return None


NOTHING_FIRED: Final = Fired()
"""What a try starts with that no trigger came before."""


def make_note(token: str, cursor: str | None) -> str:
    """Return what a trigger leaves to the next one: the cursor, and which try it is of.

    None is what a worker leaves to the first one: Airflow reports an error where there is no note at all.
    """
    return json.dumps({"token": token, "cursor": cursor})


def cursor_noted(note: str | None, token: str) -> str | None:
    """Return the cursor of a note; None when there is none, or it is of another try.

    A trigger that a clear has ended may leave its last note when the next try has begun.
    """
    match json.loads(note or "null"):
        case {"token": noted, "cursor": str(cursor)} if noted == token:
            return cursor
        case _:
            return None
