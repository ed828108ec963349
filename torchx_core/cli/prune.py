"""``torchx-core prune``."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TypedDict, Unpack

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.delete import may_ask
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.options import DURATION, SIZE, cli_command, scheduler_option, session_option
from torchx_core.cli.output import Output
from torchx_core.errors import TorchXError
from torchx_core.schedulers.pruning import surplus
from torchx_core.specs import make_app_handle

__all__ = ["command"]


class Bounds(TypedDict):
    """What is left must be within these; None for no bound."""

    max_age_s: float | None
    max_count: int | None
    max_bytes: int | None


@cli_command("prune")
@scheduler_option("Only the apps of this scheduler; default: each of them, on its own.")
@session_option
@click.option("--all-sessions", is_flag=True, help="The apps of every session, each on its own.")
@click.option("--max-age", "max_age_s", type=DURATION, metavar="DURATION", help="Delete older ones: 7d.")
@click.option("--max-count", type=click.IntRange(min=0), metavar="N", help="Keep at most so many apps.")
@click.option("--max-bytes", type=SIZE, metavar="SIZE", help="Keep at most that much on disk: 2GB.")
@click.option("--dryrun", "--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(
    output: Output,
    scheduler: str | None,
    session: str | None,
    *,
    all_sessions: bool,
    dryrun: bool,
    yes: bool,
    **bounds: Unpack[Bounds],
) -> None:
    """Forget apps that have ended, oldest first, until what is left is within every bound given.

    An app that still runs is never touched. On a terminal there is a question first.
    """
    if all(bound is None for bound in bounds.values()):
        raise click.UsageError("no bound: give --max-age, --max-count or --max-bytes")
    if session and all_sessions:
        raise click.UsageError("--session excludes --all-sessions")
    with ExitStack() as runners:
        runner = runners.enter_context(get_runner(session))
        places = [
            (runners.enter_context(get_runner(each)), name)
            for name in ([scheduler] if scheduler else _reachable(output, runner))
            for each in (runner.scheduler(name).sessions() if all_sessions else [runner.name])
        ]
        doomed = [h for each, name in places for h in _doomed(each, name, bounds)]
        if doomed and not dryrun and not yes and may_ask(output):
            click.confirm(f"delete {len(doomed)} apps and their logs?", abort=True, err=True)
        if not dryrun:  # also without such an app: a scheduler forgets more, such as images that nobody uses
            doomed = [h for each, name in places for h in _pruned(each, name, bounds)]
    if output.json:
        output.document({"dryrun": dryrun, "apps": [handle_fields(handle) for handle in doomed]})
    elif doomed:
        verb = "would be deleted" if dryrun else "deleted"
        output.lines(f"{handle} {verb}" for handle in doomed)
    else:
        output.remark("nothing to delete")


def _reachable(output: Output, runner: Runner) -> list[str]:
    names: list[str] = []
    for name in runner.scheduler_backends():
        try:
            runner.list(name, newest=1)
        except TorchXError as err:
            output.remark(f"{name} was not pruned: {err}")
        else:
            names.append(name)
    return names


def _doomed(runner: Runner, name: str, bounds: Bounds) -> list[str]:
    scheduler = runner.scheduler(name)
    with_sizes = bounds["max_bytes"] is not None
    apps = [(app, scheduler.size_bytes(app.app_id) if with_sizes else 0) for app in scheduler.list()]
    doomed = surplus(apps, **bounds, now=time.time())
    return [make_app_handle(name, runner.name, app_id) for app_id in doomed]


def _pruned(runner: Runner, name: str, bounds: Bounds) -> list[str]:
    return [make_app_handle(name, runner.name, app_id) for app_id in runner.prune(name, **bounds)]
