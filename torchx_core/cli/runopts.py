"""``torchx-core runopts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from torchx_core import get_runner
from torchx_core.cli.completion import complete_schedulers
from torchx_core.cli.options import cli_command
from torchx_core.cli.output import Output
from torchx_core.cli.styles import BOLD, DIM
from torchx_core.cli.tables import Cell, Column, lay_out
from torchx_core.errors import TorchXError

if TYPE_CHECKING:
    from torchx_core.specs import runopt, runopts

__all__ = ["command"]

_COLUMNS = (Column("OPTION"), Column("TYPE"), Column("DEFAULT"), Column("MEANING", shrinks=True))


@cli_command("runopts")
@click.argument("scheduler", required=False, shell_complete=complete_schedulers)
def command(output: Output, scheduler: str | None) -> None:
    """Show the options that a scheduler, or each of them, takes in ``run -cfg``."""
    with get_runner() as runner:
        options: dict[str, runopts] = {}
        for name in [scheduler] if scheduler else runner.scheduler_backends():
            try:
                options[name] = runner.scheduler_run_opts(name)
            except TorchXError as err:
                if scheduler:
                    raise
                output.remark(f"{name} is not available: {err}")
    if output.json:
        output.document({name: _document(opts) for name, opts in options.items()})
        return
    for i, (name, opts) in enumerate(options.items()):
        output.lines([*([""] if i else []), output.paint(name, BOLD), *_table(opts, output)])


def _table(opts: runopts, output: Output) -> list[str]:
    rows = [_row(key, option) for key, option in opts]
    return lay_out(_COLUMNS, rows, width=output.width, paint=output.paint) if rows else ["no options"]


def _row(key: str, option: runopt) -> list[Cell]:
    default = "(required)" if option.is_required else "" if option.default is None else str(option.default)
    return [Cell(key), Cell(str(option.kind), DIM), Cell(default), Cell(option.help)]


def _document(opts: runopts) -> list[dict[str, object]]:
    return [
        {
            "name": key,
            "type": str(option.kind),
            "required": option.is_required,
            "default": option.default,
            "help": option.help,
        }
        for key, option in opts
    ]
