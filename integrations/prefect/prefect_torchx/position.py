"""How far a run's log has got with an app's output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from torchx_core.runner.runner import DEFAULT_SESSION
from torchx_core.specs import AppHandle, AppState, AppStatus, parse_app_handle

__all__ = ["START", "End", "NotedApp", "Position", "Shown", "record_name", "source_in"]

_OF_THE_APP: Final = "torchx"
"""Stands for the source that has no name; those of replicas have a dot in them."""
RESULT_BYTES: Final = 2000
"""How long a result may be that is kept with a position: all positions of a process go in one request."""


class Shown(NamedTuple):
    """What the log has of one source's output."""

    time: float
    """Of the latest record, in seconds since the epoch."""
    lines: tuple[str, ...]


class End(NamedTuple):
    """How an app has ended, for a try that does not see the app itself."""

    state: AppState
    result: str | None
    """What it reported, as JSON text: any server keeps that as it is. None when it is not kept."""

    @staticmethod
    def of(status: AppStatus, mask: Callable[[str], str] = str) -> End:
        """Return what is kept of a terminal status.

        Args:
            status: Of the app.
            mask: Hides its secrets: a result that has one is not kept.
        """
        text = json.dumps(status.result)
        return End(status.state, text if len(text) <= RESULT_BYTES and mask(text) == text else None)

    @staticmethod
    def from_json(data: object) -> End | None:
        """Read what was made JSON; None when it is no such thing, as of an app that has not ended."""
        match data:
            case [str(name), None | str() as result] if name in AppState.__members__:
                return End(AppState[name], result)
            case _:
                return None

    def to_json(self) -> list[object]:
        """Return JSON values that `from_json` reads."""
        return [self.state.name, self.result]

    def success(self) -> AppStatus | None:
        """Return the status of an app that has succeeded, with its result; None without either."""
        if self.state is not AppState.SUCCEEDED or self.result is None:
            return None
        return AppStatus(state=self.state, result=json.loads(self.result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in an app's event stream before which everything has arrived at Prefect's API.

    Whoever follows on from it loses nothing. What arrived after it was saved, `after` has.
    """

    cursor: str
    shown_bytes: int
    """How much of the app's output the log has shown, for its limit."""
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    """When the latest record of each source before the place was written, in seconds since the epoch.

    A later record of that source is one that arrived after the position was saved.
    """
    end: End | None = None
    """How the app ended, when the log has all of it; else None."""
    after: Mapping[str, Shown] = field(default_factory=dict[str, Shown], compare=False)
    """By source, what the log has of what comes behind the place; found in the log, and never saved."""

    def to_json(self) -> dict[str, object]:
        """Return JSON values that `from_json` reads."""
        return {
            "cursor": self.cursor,
            "shown_bytes": self.shown_bytes,
            "times": dict(self.times),
            "end": self.end and self.end.to_json(),
        }

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Position | None:
        """Read what `to_json` gives; None when it is no such thing: the output is shown from the start."""
        cursor, shown = data.get("cursor"), data.get("shown_bytes")
        if not isinstance(cursor, str) or not isinstance(shown, int):
            return None
        end = End.from_json(data.get("end"))
        return Position(cursor=cursor, shown_bytes=shown, times=_times(data.get("times")), end=end)


class NotedApp(NamedTuple):
    """What a run has written down about an app that it has, or was about to have."""

    run: str
    """Whose log shows it: the flow run, or a part of it."""
    position: Position | None
    """How far that log has got with it."""
    changes: int
    """How often a process that follows it has said how far: it goes on growing as long as there is one."""
    has_hidden: bool
    """Whether there may be secrets in its output that only the run's process knew."""
    limit_bytes: int | None
    host: str
    """Where it was to be submitted; empty when an older release has written this down."""
    holder: str
    """The owner token of the call that was to submit it; empty likewise."""

    @property
    def end(self) -> End | None:
        """How it ended, as far as that was written down."""
        return self.position.end if self.position else None


def _times(data: object) -> dict[str, float]:
    """Read what an older release did not save."""
    if not isinstance(data, Mapping):
        return {}
    return {str(source): float(time) for source, time in data.items() if isinstance(time, float | int)}


START: Final = Position(cursor="", shown_bytes=0)
"""Where nothing has been shown."""


def record_name(source: str, handle: AppHandle) -> str:
    """Return what a record of the app is called on Prefect's server: the log of one run may have many apps.

    Prefect's page breaks a name into lines of 23 characters, so it is short: the usual session is left out.

    Args:
        source: What the record is of, such as ``trainer.0``; nothing for the app itself.
        handle: The app.

    Example:
        >>> record_name("trainer.0", "local_cwd://torchx/train-1")
        'trainer.0@local_cwd/train-1'
    """
    return f"{source or _OF_THE_APP}@{_short(handle)}"


def source_in(name: str, handle: AppHandle) -> str | None:
    """Return what a record of that name is of, None where it is of no app or of another one.

    Earlier releases have called it ``prefect.flow_runs.torchx.trainer.0@local_cwd://torchx/train-1``.

    Example:
        >>> source_in("trainer.0@local_cwd/train-1", "local_cwd://torchx/train-1")
        'trainer.0'
    """
    if (source := name.removesuffix(f"@{_short(handle)}")) != name:
        return "" if source == _OF_THE_APP else source
    if (source := name.removesuffix(f"@{handle}")) != name:
        return source.partition(".torchx")[2].removeprefix(".")
    return None


def _short(handle: AppHandle) -> str:
    app = parse_app_handle(handle)
    session = () if app.session_name == DEFAULT_SESSION else (app.session_name,)
    return "/".join((app.scheduler_backend, *session, app.app_id))
