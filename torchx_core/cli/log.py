"""``torchx-core log``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypedDict, Unpack

import click

from torchx_core import AppDef, get_runner
from torchx_core.cli.completion import complete_handles
from torchx_core.cli.inside import parse_replica
from torchx_core.cli.json_output import event_documents
from torchx_core.cli.lines import LastLines, LinePrinter, Selection
from torchx_core.cli.options import MOMENT, cli_command, expand_names
from torchx_core.cli.output import Output
from torchx_core.display.text import describe
from torchx_core.errors import (
    InvalidInputError,
    MalformedAppHandleException,
    UnknownAppException,
    UnknownReplicaError,
)
from torchx_core.schedulers import Batch, LogLines, LogsLost, Stream
from torchx_core.schedulers.lines import check_window
from torchx_core.specs import AppHandle, make_app_handle, parse_app_handle

__all__ = ["LogTarget", "chosen_replicas", "command", "parse_target"]

_FORM = "SCHEDULER://SESSION/APP_ID[/ROLE[/REPLICA,…]]"
_SHORT_FORM = "APP[/ROLE[/REPLICA,…]]"


class LogTarget(NamedTuple):
    """Whose log to show."""

    app_handle: str
    role: str | None = None
    replicas: frozenset[int] | None = None


class _Options(TypedDict):
    regex: str | None
    replicas: tuple[str, ...]
    most: int | None
    tail: bool
    streams: str
    since: datetime | None
    until: datetime | None


def _expanded(ctx: click.Context, _param: click.Parameter, word: str) -> str:
    """Return the target with the app's handle in place of a shorter name."""
    if "://" in word:
        return word
    name, slash, rest = word.partition("/")
    return expand_names(ctx, (name,))[0] + slash + rest


@cli_command("log")
@click.argument("target", metavar=_SHORT_FORM, callback=_expanded, shell_complete=complete_handles)
@click.option("-t", "--tail", "-f", "--follow", "tail", is_flag=True, help="Go on until the app has ended.")
@click.option(
    "-n",
    "--lines",
    "most",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of what is there already, only the last N lines.",
)
@click.option("--regex", "--grep", "regex", metavar="REGEX", help="Only lines in which it is found.")
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    metavar="[ROLE/]K",
    help="Only this replica, of every role unless one is named; may be given several times.",
)
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

    All roles, replicas and attempts, or those that are named, in the order in which they wrote.
    """
    wanted = parse_target(target)
    if wanted.replicas is not None and options["replicas"]:
        raise click.UsageError("the app's name goes on with replicas already; leave out --replica")
    regex = _compiled(options["regex"])
    with get_runner() as runner:
        scheduler = runner.scheduler(parse_app_handle(wanted.app_handle).scheduler_backend)
        check_window(scheduler.backend, scheduler.capabilities, options["since"], options["until"])
        app = runner.describe(wanted.app_handle)
        if app is None:
            raise UnknownAppException(wanted.app_handle)
        replicas = chosen_replicas(app, wanted, options["replicas"])
        selection = Selection(replicas=replicas, regex=regex, since=options["since"], until=options["until"])
        roles = None if wanted.role is None else [wanted.role]
        if replicas is not None:
            roles = sorted({role for role, _ in replicas})
        follow = partial(runner.follow, wanted.app_handle, roles=roles, streams=Stream(options["streams"]))
        _print(_Printing(output, selection), follow, most=options["most"], tail=options["tail"])
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


def chosen_replicas(
    app: AppDef, target: LogTarget, words: Iterable[str]
) -> frozenset[tuple[str, int]] | None:
    """Return the roles and numbers of the replicas that are named, or None where none is.

    Raises:
        InvalidInputError: A word names no replica.
        UnknownReplicaError: The app has no such replica.
    """
    named = [(target.role, number) for number in sorted(target.replicas or ())]
    named += [_replica(word, target.role) for word in words]
    sizes = {role.name: role.num_replicas for role in app.roles}
    return frozenset(pair for each in named for pair in _having(target.app_handle, sizes, *each)) or None


def _replica(word: str, role: str | None) -> tuple[str | None, int]:
    if word.isascii() and word.isdigit():
        return role, int(word)
    if "/" not in word:
        raise InvalidInputError(f"not a replica: {word!r}; expected K or ROLE/K, for example 0 or trainer/0")
    return parse_replica(word)


def _having(
    app_handle: AppHandle, sizes: Mapping[str, int], role: str | None, number: int
) -> list[tuple[str, int]]:
    """Return the replicas of that number in a role, or in all of them."""
    if role is not None and role not in sizes:
        raise UnknownReplicaError(app_handle, role, None, sizes)
    among = list(sizes) if role is None else [role]
    having = [(name, number) for name in among if number < sizes[name]]
    if not having:
        largest = max(among, key=sizes.__getitem__)
        raise UnknownReplicaError(app_handle, largest, number, map(str, range(sizes[largest])))
    return having


class _Printing:
    """Prints what is selected of a log."""

    def __init__(self, output: Output, selection: Selection) -> None:
        self._output = output
        self._selection = selection
        self._printer = LinePrinter(output.paint, terminal=output.terminal)

    def chosen(self, batch: Batch) -> list[LogLines]:
        """Return what is selected of a batch; say what of it was lost."""
        runs: list[LogLines] = []
        for event in batch.events:
            if isinstance(event, LogLines) and (run := self._selection.of(event)):
                runs.append(run)
            elif isinstance(event, LogsLost):
                self._output.remark(f"{event.role}/{event.replica} {describe(event)}")
        return runs

    def show(self, runs: Sequence[LogLines]) -> None:
        """Print the lines."""
        if runs and self._output.json:
            self._output.documents(document for run in runs for document in event_documents(run))
        elif runs:
            self._output.write("".join(map(self._printer.text, runs)))

    def close(self) -> None:
        """Complete the last line."""
        if not self._output.json and (ending := self._printer.end()):
            self._output.write(ending)


def _print(
    printing: _Printing, follow: Callable[..., Iterator[Batch]], *, most: int | None, tail: bool
) -> None:
    """Print what is there, or the last `most` lines of it, then what comes until the app has ended."""
    cursor, ended = None, False
    if most is not None:
        last = LastLines(most)
        for batch in follow(until_now=True):
            last.add(printing.chosen(batch))
            cursor, ended = batch.cursor, batch.final_status is not None
        printing.show(last.runs())
    if most is None or (tail and not ended):
        for batch in follow(cursor, until_now=not tail):
            printing.show(printing.chosen(batch))
    printing.close()
