"""``torchx-core top``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.board import Board
from torchx_core.cli.json_output import handle_fields, plain
from torchx_core.cli.listing import Listing, ask_all
from torchx_core.cli.live_view import QUIT, live_area
from torchx_core.cli.options import DURATION, cli_command, handle_argument, scheduler_option, session_option
from torchx_core.cli.output import Output
from torchx_core.cli.top_view import HINT, KEYS, SORTS, TopRow, added_up, sorted_rows, top_lines
from torchx_core.errors import SchedulerError, UnknownAppException
from torchx_core.schedulers import UsageSample
from torchx_core.schedulers.sampling import Sampler
from torchx_core.specs import AppHandle, AppState, parse_app_handle

__all__ = ["command"]

_SOON_S: Final = 1.0
"""How long after the first look comes the second: only two of them tell how busy the CPU is."""
_MORE_LOOKS: Final = 2
"""On Slurm the first look is a question, and only the second has an answer."""


class Look(NamedTuple):
    """What was seen."""

    title: str
    rows: Sequence[TopRow]
    document: Mapping[str, object]
    over: bool = False
    """Nothing will change any more."""


class Watch(Protocol):
    """Looks, again and again."""

    def look(self) -> Look:
        """Return what is seen now."""
        ...


@cli_command("top")
@handle_argument(required=False)
@scheduler_option("Without a handle: only the apps of this scheduler.")
@session_option
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="cpu", show_default=True, help="What comes first."
)
@click.option(
    "--interval",
    type=DURATION,
    metavar="DURATION",
    default="2s",
    show_default=True,
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Look once and end, as where stdout is no terminal.")
def command(  # each is an option
    output: Output,
    app_handle: str | None,
    scheduler: str | None,
    session: str | None,
    sort: str,
    interval: float,
    once: bool,  # noqa: FBT001  # click's way
) -> None:
    """Show what running apps use of their hosts, or the replicas of one app; live on a terminal.

    CPU is in percent of one core. What a scheduler does not know is not shown. Looking renews no lease.
    """
    with get_runner(session) as runner:
        watch: Watch = AppWatch(runner, app_handle) if app_handle else SessionWatch(runner, scheduler)
        if once or output.json or not output.both_terminals:
            _show_once(output, watch, sort)
        else:
            _show_live(output, watch, sort, max(interval, 0.1))


class AppWatch:
    """The replicas of an app."""

    def __init__(self, runner: Runner, app_handle: AppHandle) -> None:
        """Look at nothing yet."""
        self._runner = runner
        self._handle = app_handle
        self._sampler = Sampler(lambda: runner.usage(app_handle))

    def look(self) -> Look:
        """Return what is seen now.

        Raises:
            UnknownAppException: There is no such app.
        """
        samples = self._sampler.take()
        status = self._runner.status(self._handle)
        if status is None:
            raise UnknownAppException(self._handle)
        board = Board.of(status, time.time())
        for sample in samples:
            row = board.rows.get((sample.role, sample.replica))
            if row is None or row.ended_at is None:  # else it has ended since
                board.apply(sample)
        rows = [TopRow(f"{r.role}/{r.replica}", r.state, r.usage) for r in board.rows.values()]
        document = _document(self._handle, status.state, samples)
        title = f"{parse_app_handle(self._handle).app_id}  {status.state}"
        return Look(title, rows, {"apps": [document], "unreachable": {}}, over=status.is_terminal())


class SessionWatch:
    """The running apps of a session."""

    def __init__(self, runner: Runner, scheduler: str | None) -> None:
        """Look at nothing yet; ``scheduler``: the only one to ask, or None for all."""
        self._runner = runner
        self._scheduler = scheduler
        self._samplers: dict[AppHandle, Sampler] = {}

    def look(self) -> Look:
        """Return what is seen now."""
        runner, only = self._runner, self._scheduler
        listing = Listing(runner.list(only, live=True), {}) if only else ask_all(runner, live=True)
        apps = {app.app_handle: app.state for app in listing.apps}
        apps = {handle: state for handle, state in apps.items() if state is not AppState.UNKNOWN}
        self._samplers = {handle: self._samplers.get(handle) or self._sampler(handle) for handle in apps}
        samples = {handle: sampler.take() for handle, sampler in self._samplers.items()}
        rows = [_row(handle, state, samples[handle]) for handle, state in apps.items()]
        documents = [_document(handle, state, samples[handle]) for handle, state in apps.items()]
        title = f"{len(rows)} running app{'s' * (len(rows) != 1)} of session {runner.name}"
        return Look(title, rows, {"apps": documents, "unreachable": listing.unreachable})

    def _sampler(self, app_handle: AppHandle) -> Sampler:
        return Sampler(lambda: self._runner.usage(app_handle))


def _row(app_handle: AppHandle, state: AppState, samples: Sequence[UsageSample]) -> TopRow:
    parsed = parse_app_handle(app_handle)
    return TopRow(parsed.app_id, state, added_up([s.usage for s in samples]), parsed.scheduler_backend)


def _document(app_handle: AppHandle, state: AppState, samples: Sequence[UsageSample]) -> object:
    replicas = [
        {
            "role": s.role,
            "replica": s.replica,
            "attempt": s.attempt,
            "time": s.time,
            "usage": s.usage.to_json(),
        }
        for s in samples
    ]
    return plain({**handle_fields(app_handle), "state": state, "replicas": replicas})


def _show_once(output: Output, watch: Watch, sort: str) -> None:
    seen = watch.look()
    for _ in range(_MORE_LOOKS):
        if seen.over or not seen.rows or any(row.usage.cpu_percent is not None for row in seen.rows):
            break
        time.sleep(_SOON_S)  # noqa: TID251  # how busy the CPU is takes two looks
        seen = watch.look()
    if output.json:
        output.document(seen.document)
        return
    size = output.size if output.terminal else None
    output.lines(top_lines(seen.title, sorted_rows(seen.rows, sort), size=size, paint=output.paint))


def _show_live(output: Output, watch: Watch, sort: str, interval_s: float) -> None:
    """Look and draw, until the app has ended or somebody presses ``q``."""
    seen, pause_s = watch.look(), min(_SOON_S, interval_s)
    with live_area(output) as (area, keys):
        while not seen.over:
            lines = top_lines(
                seen.title, sorted_rows(seen.rows, sort), size=output.size, paint=output.paint, hint=HINT
            )
            area.draw([output.shown(line) for line in lines])
            key = keys.read(pause_s)
            if key in QUIT:
                return
            if key is not None:
                sort = KEYS.get(key.lower(), sort)
                continue
            seen, pause_s = _look_again(watch, seen), interval_s
    output.lines(top_lines(seen.title, sorted_rows(seen.rows, sort), size=output.size, paint=output.paint))


def _look_again(watch: Watch, before: Look) -> Look:
    """Look; while a scheduler cannot be asked, what was seen last stays, with the reason."""
    try:
        return watch.look()
    except SchedulerError as err:
        return before._replace(title=f"cannot look just now: {err}")
