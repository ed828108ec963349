"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

import click

from torchx_core.cli.completion import complete_handles, complete_schedulers
from torchx_core.cli.output import Output
from torchx_core.cli.quantities import parse_duration, parse_moment, parse_size

__all__ = [
    "CONTEXT_SETTINGS",
    "DURATION",
    "MOMENT",
    "NAMES",
    "SIZE",
    "cli_command",
    "handle_argument",
    "handles_argument",
    "scheduler_option",
    "session_option",
]

F = TypeVar("F", bound=Callable[..., object])

CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


def _reading(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return what click reads a value with; a ValueError of `parse` is the message."""

    def read(text: str) -> object:
        try:
            return parse(text)
        except ValueError as err:
            raise click.BadParameter(str(err)) from err

    return read


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _moment(text: str) -> datetime:
    return parse_moment(text, datetime.now().astimezone())


DURATION: Final = _reading(parse_duration)
SIZE: Final = _reading(parse_size)
MOMENT: Final = _reading(_moment)
NAMES: Final = _reading(_names)


def cli_command(name: str, *, takes_rest: bool = False) -> Callable[[Callable[..., object]], click.Command]:
    """Make a command of a function that takes the `Output` first and may return an exit code.

    Args:
        name: Of the command.
        takes_rest: The words after the first that is no option belong to somebody else.
    """

    def decorate(function: Callable[..., object]) -> click.Command:
        settings = {**CONTEXT_SETTINGS, "allow_interspersed_args": not takes_rest}
        made = click.command(name, context_settings=settings)(click.make_pass_decorator(Output)(function))
        made.params += [
            _remembered("json", "Print JSON instead of text."),
            _remembered("debug", "Show tracebacks."),
        ]
        return made

    return decorate


def _remembered(name: str, explanation: str) -> click.Option:
    """Return a flag that the `Output` remembers; read first, so that it counts for every error."""

    def remember(ctx: click.Context, _param: click.Parameter, value: object) -> None:
        setattr(ctx.ensure_object(Output), name, bool(value))

    return click.Option(
        [f"--{name}"], is_flag=True, is_eager=True, expose_value=False, callback=remember, help=explanation
    )


def handle_argument(function: F) -> F:
    """Take one app handle."""
    return click.argument("app_handle", shell_complete=complete_handles)(function)


def handles_argument(function: F) -> F:
    """Take one or more app handles."""
    name, shown = "app_handles", "APP_HANDLE..."
    return click.argument(name, metavar=shown, nargs=-1, required=True, shell_complete=complete_handles)(
        function
    )


def scheduler_option(explanation: str) -> Callable[[F], F]:
    """Take ``-s``; None when it is not given."""
    return click.option(
        "-s", "--scheduler", metavar="SCHEDULER", shell_complete=complete_schedulers, help=explanation
    )


def session_option(function: F) -> F:
    """Take ``--session``; None for the runner's own default."""
    return click.option(
        "--session", metavar="NAME", help="Session, the middle part of a handle; default: torchx."
    )(function)
