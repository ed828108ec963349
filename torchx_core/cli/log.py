"""``torchx-core log``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, TypedDict, Unpack

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.completion import complete_handles
from torchx_core.cli.json_output import event_documents
from torchx_core.cli.lines import LinePrinter, Selection
from torchx_core.cli.options import MOMENT, cli_command
from torchx_core.cli.output import Output
from torchx_core.display.text import describe
from torchx_core.errors import (
    InvalidInputError,
    MalformedAppHandleException,
    UnknownAppException,
    UnknownReplicaError,
)
from torchx_core.runner.lines import check_window
from torchx_core.schedulers import Batch, LogLines, LogsLost, Stream
from torchx_core.specs import make_app_handle, parse_app_handle

__all__ = ["LogTarget", "command", "parse_target"]

_FORM = "SCHEDULER://SESSION/APP_ID[/ROLE[/REPLICA,…]]"


class LogTarget(NamedTuple):
    """Whose log to show."""

    app_handle: str
    role: str | None = None
    replicas: frozenset[int] | None = None


class _Options(TypedDict):
    regex: str | None
    tail: bool
    streams: str
    since: datetime | None
    until: datetime | None


@cli_command("log")
@click.argument("target", metavar=_FORM, shell_complete=complete_handles)
@click.option("-t", "--tail", is_flag=True, help="Go on until the app has ended.")
@click.option("--regex", metavar="REGEX", help="Only lines in which it is found.")
@click.option(
    "--streams",
    type=click.Choice([stream.value for stream in Stream]),
    default=Stream.COMBINED.value,
    show_default=True,
    help="Which output.",
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="MOMENT",
    help="Only lines written at or after: 10m (ago), or an ISO time.",
)
@click.option("--until", type=MOMENT, metavar="MOMENT", help="Only lines written before.")
def command(output: Output, target: str, **options: Unpack[_Options]) -> int:
    """Print what replicas have written, each line after the name of its replica.

    All roles, replicas and attempts, or those that the argument names, in the order in which they wrote.
    """
    wanted = parse_target(target)
    selection = Selection(
        replicas=wanted.replicas,
        regex=_compiled(options["regex"]),
        since=options["since"],
        until=options["until"],
    )
    with get_runner() as runner:
        scheduler = runner.scheduler(parse_app_handle(wanted.app_handle).scheduler_backend)
        check_window(scheduler, options["since"], options["until"])
        _check_replicas(runner, wanted)
        batches = runner.follow(
            wanted.app_handle,
            roles=None if wanted.role is None else [wanted.role],
            streams=Stream(options["streams"]),
            until_now=not options["tail"],
        )
        _print(output, batches, selection)
    return 0


def parse_target(text: str) -> LogTarget:
    """Read a handle that may go on with a role, and with numbers of replicas.

    Raises:
        MalformedAppHandleException: It is none.

    Example:
        >>> parse_target("local_cwd://s/app/trainer/0,2").replicas == {0, 2}
        True
    """
    scheduler, found, path = text.partition("://")
    parts = path.rstrip("/").split("/")
    if not found or not 2 <= len(parts) <= 4:  # noqa: PLR2004  # session, app, role, replicas
        raise MalformedAppHandleException(text, f"a log's form is {_FORM}")
    handle = make_app_handle(scheduler, parts[0], parts[1])
    role = parts[2] if len(parts) > 2 else None  # noqa: PLR2004  # the same
    return LogTarget(handle, role, _numbers(text, parts[3]) if len(parts) > 3 else None)  # noqa: PLR2004


def _numbers(target: str, text: str) -> frozenset[int]:
    words = [word for word in text.split(",") if word]
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise MalformedAppHandleException(target, f"replicas {text!r} are not numbers like 0,1")
    return frozenset(map(int, words))


def _compiled(regex: str | None) -> re.Pattern[str] | None:
    try:
        return None if regex is None else re.compile(regex)
    except re.error as err:
        raise InvalidInputError(f"not a regular expression: {regex!r}; {err}") from err


def _check_replicas(runner: Runner, target: LogTarget) -> None:
    app = runner.describe(target.app_handle)
    if app is None:
        raise UnknownAppException(target.app_handle)
    for role in app.roles:
        if role.name == target.role:
            for number in sorted(target.replicas or ()):
                if number >= role.num_replicas:
                    known = map(str, range(role.num_replicas))
                    raise UnknownReplicaError(target.app_handle, role.name, number, known)


def _print(output: Output, batches: Iterator[Batch], selection: Selection) -> None:
    printer = LinePrinter(output.paint, terminal=output.terminal)
    for batch in batches:
        runs: list[LogLines] = []
        for event in batch.events:
            if isinstance(event, LogLines) and (run := selection.of(event)):
                runs.append(run)
            elif isinstance(event, LogsLost):
                output.remark(f"{event.role}/{event.replica} {describe(event)}")
        if runs and output.json:
            output.documents(document for run in runs for document in event_documents(run))
        elif runs:
            output.write("".join(map(printer.text, runs)))
    if not output.json and (ending := printer.end()):
        output.write(ending)
