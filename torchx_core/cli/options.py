"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

import click

from torchx_core.cli.completion import complete_handles, complete_schedulers
from torchx_core.cli.help import HelpedCommand
from torchx_core.cli.output import Output
from torchx_core.quantities import parse_duration, parse_moment, parse_size

__all__ = [
    "CONTEXT_SETTINGS",
    "DURATION",
    "MOMENT",
    "NAMES",
    "SIZE",
    "cli_command",
    "expand_names",
    "handle_argument",
    "handles_argument",
    "scheduler_option",
    "session_option",
]

_APP: Final = "APP is a handle, an app's id, the beginning of an id that no other app has, or @latest."
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


def cli_command(
    name: str, *, takes_rest: bool = False, kind: type[HelpedCommand] = HelpedCommand
) -> Callable[[Callable[..., object]], click.Command]:
    """Make a command of a function that takes the `Output` first and may return an exit code.

    Args:
        name: Of the command.
        takes_rest: The words after the first that is no option belong to somebody else.
        kind: Its class.
    """

    def decorate(function: Callable[..., object]) -> click.Command:
        settings = {**CONTEXT_SETTINGS, "allow_interspersed_args": not takes_rest}
        with_output = click.make_pass_decorator(Output)(function)
        made = click.command(name, kind, context_settings=settings)(with_output)
        if any(isinstance(each, click.Argument) and "APP" in (each.metavar or "") for each in made.params):
            made.epilog = _APP
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


def handle_argument(*, required: bool = True) -> Callable[[F], F]:
    """Take one app: the command gets its handle, or None."""
    metavar = "APP" if required else "[APP]"
    return click.argument(
        "app_handle",
        metavar=metavar,
        required=required,
        callback=_handle_of,
        shell_complete=complete_handles,
    )


def handles_argument(*, required: bool = True) -> Callable[[F], F]:
    """Take one or more apps: the command gets the handle of each, once."""
    metavar = "APP..." if required else "[APP]..."
    return click.argument(
        "app_handles",
        metavar=metavar,
        nargs=-1,
        required=required,
        callback=_handles_of,
        shell_complete=complete_handles,
    )


def _handle_of(ctx: click.Context, _param: click.Parameter, word: str | None) -> str | None:
    return word if word is None else expand_names(ctx, (word,))[0]


def _handles_of(ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expand_names(ctx, words)))


def expand_names(ctx: click.Context, words: Sequence[str]) -> Sequence[str]:
    """Return the handles of what may be handles, ids, beginnings of ids or ``@latest``.

    Says on a terminal what is meant by a word that does not say it all.
    """
    if ctx.resilient_parsing or all("://" in word for word in words):
        return words  # the former is a completion: it must look nothing up
    from torchx_core.cli.names import find_apps  # here: a handle needs no such thing

    handles = find_apps(words, ctx.params.get("session"))
    for word, handle in zip(words, handles, strict=True):
        if word != handle and not handle.endswith(f"/{word}"):
            ctx.ensure_object(Output).hint(f"{word} is {handle}")
    return handles


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
