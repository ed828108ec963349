"""``torchx-core wait``."""

from __future__ import annotations

import time

import click

from torchx_core import get_runner
from torchx_core.cli.follow import ending_line, exit_code, follow_app, human_view, tell_failure
from torchx_core.cli.interrupt import Interrupts, Phase
from torchx_core.cli.json_output import status_document
from torchx_core.cli.options import DURATION, cli_command, handle_argument
from torchx_core.cli.output import Output
from torchx_core.cli.views import SilentView

__all__ = ["command"]


@cli_command("wait")
@handle_argument()
@click.option(
    "--timeout", "timeout_s", type=DURATION, metavar="DURATION", help="Stop waiting then; the app goes on."
)
def command(output: Output, app_handle: str, timeout_s: float | None) -> int:
    """Wait until an app has ended; the exit code is the app's.

    On a terminal a line per replica shows how it is doing. Ctrl-C asks whether to cancel the app; without a
    terminal it just stops waiting.
    """
    with get_runner() as runner, Interrupts(unasked=Phase.LEAVING) as interrupts:
        view = (
            SilentView(output)
            if output.json
            else human_view(output, runner, app_handle, logs=False, since=time.time())
        )
        status = follow_app(runner, app_handle, view, interrupts, output, timeout_s=timeout_s)
    if status is not None and output.json:
        output.document(status_document(app_handle, status, None))
    elif status is not None:
        output.lines([ending_line(output, app_handle, status, remark=False)])
        tell_failure(output, status)
    return exit_code(status, interrupts)
