"""``torchx-core run``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.completion import complete_cfg, complete_components, complete_flags
from torchx_core.cli.describe import readable_app
from torchx_core.cli.follow import (
    ending_line,
    exit_code,
    follow_app,
    human_view,
    outlives_us,
    tell_failure,
    tell_left,
)
from torchx_core.cli.help import HelpedCommand
from torchx_core.cli.interrupt import Interrupts, Phase
from torchx_core.cli.json_output import handle_fields, plain
from torchx_core.cli.options import DURATION, cli_command, scheduler_option, session_option
from torchx_core.cli.output import Output
from torchx_core.cli.run_app import LOCAL, on_several_processes, render
from torchx_core.cli.run_request import RunOptions, RunRequest, request_of, request_of_json
from torchx_core.cli.views import JsonView
from torchx_core.specs import AppDryRunInfo, AppHandle

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["command"]

_MOST_CHARS, _SHOWN_CHARS = 1000, 150
"""How much of a program that is an argument a dry run shows."""
_OWN_OPTIONS = "options of a component come after its name, those of the default component after --"


class _Run(HelpedCommand):
    """Words after the component are the component's own: an option there is none of `run`'s."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say where a component's options belong, to whom gives an option that is none of `run`'s."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as err:
            told = f"{err.message.rstrip('.')}; {_OWN_OPTIONS}"
            raise click.NoSuchOption(err.option_name, told, err.possibilities, err.ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the flags of the component, once there is one."""
        words: tuple[str, ...] = ctx.params.get("component_and_args") or ()
        return complete_flags(words[0], incomplete) if words else super().shell_complete(ctx, incomplete)


@cli_command("run", takes_rest=True, kind=_Run)
@click.argument(
    "component_and_args",
    metavar="[COMPONENT [ARGS]...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_components,
)
@scheduler_option("Where to run; default: [cli:run] of .torchxconfig, else the first of the schedulers.")
@click.option(
    "-cfg",
    "--scheduler_args",
    "cfg",
    metavar="KEY=VALUE,…",
    default="",
    shell_complete=complete_cfg,
    help="Options of the scheduler; torchx-core runopts lists them.",
)
@click.option("--app", "app_file", metavar="FILE", help="Run the AppDef in a YAML or JSON file; - for stdin.")
@click.option("--app-id", metavar="ID", help="Id of the app: repeating the run attaches to the same app.")
@session_option
@click.option("--dryrun", "--dry-run", is_flag=True, help="Show what would be submitted; submit nothing.")
@click.option("--wait", is_flag=True, help="Stay until the app has ended. Default on local schedulers.")
@click.option("--log/--no-log", default=None, help="Stay, and show the log. Default on local schedulers.")
@click.option("-d", "--detach", is_flag=True, help="Do not stay, whatever the scheduler.")
@click.option(
    "--timeout",
    "timeout_s",
    type=DURATION,
    metavar="DURATION",
    help="Stay no longer than that; the app goes on.",
)
@click.option(
    "--workspace",
    metavar="DIR",
    help="Files to lay over the image; a component's default: the working directory, where that is possible.",
)
@click.option("--parent_run_id", metavar="ID", help="The run that this one belongs to.")
@click.option("--tee_logs", is_flag=True, help="Accepted for TorchX's sake: lines always name their replica.")
@click.option("--stdin", is_flag=True, help="Read component, scheduler and arguments as JSON from stdin.")
def command(output: Output, **options: Unpack[RunOptions]) -> int:
    """Run a component, a script, or the app in a file; the exit code is the app's if it was waited for.

    COMPONENT is the name of a component (utils.echo), FILE.py:FUNCTION or PACKAGE.MODULE.FUNCTION, or a
    Python script, FILE.py, that runs in one process; what follows are its arguments. The first line of the
    output is the app's handle.
    """
    request = request_of_json(_stdin(options)) if options["stdin"] else request_of(options)
    if options["detach"] and (request.wait or request.log):
        raise click.UsageError("--detach excludes --wait and --log")
    with get_runner(options["session"]) as runner:
        info = render(runner, request, options["app_id"])
        if request.dryrun or options["dryrun"]:
            _show(output, info)
            return 0
        several = on_several_processes(request)
        if several:
            output.hint(f"on several processes: {several}")
        return _submit(output, runner, info, request, options)


def _stdin(options: RunOptions) -> str:
    if options["component_and_args"] or options["app_file"]:
        raise click.UsageError("--stdin excludes a component and --app")
    return sys.stdin.read()


def _submit(
    output: Output, runner: Runner, info: AppDryRunInfo[object], request: RunRequest, options: RunOptions
) -> int:
    scheduler = str(info.scheduler)
    lasting = outlives_us(runner, scheduler)
    staying = scheduler.startswith(LOCAL) or not lasting  # as TorchX's `run` does without being told
    logs = staying if request.log is None else request.log
    stay = (request.wait or bool(request.log) or staying) and not options["detach"]
    with Interrupts(unasked=Phase.CANCELLING) as interrupts:  # from here on Ctrl-C is about the app
        app_handle = runner.schedule(info)
        _announce(output, runner, app_handle)
        if not stay and interrupts.look() is Phase.FOLLOWING:  # else somebody wants the app's end already
            if lasting:
                output.hint(f"follow it: torchx-core log -t {app_handle}")
            else:
                tell_left(output, runner, app_handle)
            return 0
        view = (
            JsonView(output, logs=logs) if output.json else human_view(output, runner, app_handle, logs=logs)
        )
        status = follow_app(runner, app_handle, view, interrupts, output, timeout_s=options["timeout_s"])
    if status is not None and not output.json:
        tell_failure(output, status)
        output.remark(ending_line(output, app_handle, status, remark=True))
    return exit_code(status, interrupts)


def _announce(output: Output, runner: Runner, app_handle: AppHandle) -> None:
    if not output.json:
        output.lines([app_handle])
        return
    status = runner.status(app_handle)
    state = None if status is None else status.state.name
    ui_url = None if status is None else status.ui_url
    output.documents([{"type": "submitted", **handle_fields(app_handle), "state": state, "ui_url": ui_url}])


def _show(output: Output, info: AppDryRunInfo[object]) -> None:
    if output.json:
        output.document(_dryrun_document(info))
        return
    app = "" if info.app is None else readable_app(info.app)
    request = "\n".join(map(_begun, str(info).split("\n")))
    output.write(f"=== APPLICATION ===\n{app}\n=== SCHEDULER REQUEST ===\n{request}\n")


def _begun(line: str) -> str:
    """Return the line, or the beginning of one that holds a whole program."""
    if len(line) <= _MOST_CHARS:
        return line
    return f"{line[:_SHOWN_CHARS]}… ({len(line) - _SHOWN_CHARS} characters more; --json shows all)"


def _dryrun_document(info: AppDryRunInfo[object]) -> Mapping[str, object]:
    return {
        "scheduler": info.scheduler,
        "cfg": plain(info.cfg),
        "app": None if info.app is None else info.app.to_dict(),
        "request": plain(info.request),
    }
