"""``torchx-core describe``."""

from __future__ import annotations

import click

from torchx_core import AppDef, get_runner
from torchx_core.cli.json_output import plain
from torchx_core.cli.options import cli_command, handle_argument
from torchx_core.cli.output import Output
from torchx_core.display.text import begun
from torchx_core.errors import UnknownAppException
from torchx_core.schedulers.secrets import mask_env
from torchx_core.specs import snapshot_app

__all__ = ["command", "readable_app"]


@cli_command("describe")
@handle_argument()
@click.option("--native", is_flag=True, help="Show the backend's own description, or null where it has none.")
def command(output: Output, app_handle: str, *, native: bool) -> None:
    """Show an app as it was submitted.

    As text it is YAML in which variables that look secret are masked, and of an argument that is a whole
    program the first line is shown. With ``--json`` it is the exact app, which ``run --app`` takes.
    """
    with get_runner() as runner:
        app = runner.describe(app_handle)
        if app is None:
            raise UnknownAppException(app_handle)
        description = runner.describe_native(app_handle) if native else None
    if native:
        output.document(plain(description))
    elif output.json:
        output.document(app.to_dict())
    else:
        output.write(readable_app(app))


def readable_app(app: AppDef) -> str:
    """Return the app as YAML for people: no secrets, and of an argument that is a program its first line."""
    shown = snapshot_app(app)
    for role in shown.roles:
        role.env = mask_env(role.env)
        role.args = [begun(arg, "\n... ", "; --json shows all") for arg in role.args]
    return shown.to_yaml()
