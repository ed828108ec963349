"""``torchx-core configure``."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import click

from torchx_core.cli.completion import complete_schedulers
from torchx_core.cli.options import NAMES, cli_command
from torchx_core.cli.output import Output
from torchx_core.errors import InvalidInputError

__all__ = ["command"]

_FILE = ".torchxconfig"


@cli_command("configure")
@click.option(
    "-s",
    "--schedulers",
    type=NAMES,
    metavar="SCHEDULER,…",
    shell_complete=complete_schedulers,
    help="Only sections for these.",
)
@click.option("--required", is_flag=True, help="Only the options that must be set.")
@click.option("-a", "--all", "everything", is_flag=True, help="Accepted for TorchX's sake: the default.")
@click.option("--print", "printed", is_flag=True, help="Print the file instead of writing it.")
def command(
    output: Output, schedulers: list[str] | None, *, required: bool, everything: bool, printed: bool
) -> None:
    """Write a .torchxconfig into the working directory, with every option explained and commented out."""
    from torchx_core.config import dump

    if required and everything:
        raise click.UsageError("--required excludes --all")
    text = StringIO()
    dump(text, schedulers, required_only=required)
    path = Path(_FILE).absolute()
    if not printed:
        _create(path, text.getvalue())
    if output.json:
        output.document({"path": None if printed else str(path), "text": text.getvalue()})
    elif printed:
        output.write(text.getvalue())
    else:
        output.lines([f"{path} written"])


def _create(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInputError(f"{path} is there already; --print shows what would be written") from None
    except OSError as err:
        raise InvalidInputError(f"cannot write {path}: {err.strerror}") from err
