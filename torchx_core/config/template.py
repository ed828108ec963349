"""A ``.torchxconfig`` to start from: every option of a scheduler, explained and commented out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TextIO

from torchx_core.config.values import NONE_TEXT, PLACEHOLDER
from torchx_core.errors import SchedulerError
from torchx_core.registry import make_scheduler, scheduler_factories
from torchx_core.specs import CfgVal, runopt, runopts
from torchx_core.specs.cfg_string import write_value

__all__ = ["dump", "run_opts_of", "section_lines"]


def dump(f: TextIO, schedulers: Sequence[str] | None = None, *, required_only: bool = False) -> None:
    """Write a template with a section for each scheduler.

    Every option is commented out: a default that is written down stays when the scheduler's changes. With
    its ``#`` removed an option has its default, and a required one a placeholder that counts as absent.

    Args:
        f: What to write to.
        schedulers: Their names; None for all known, of which one that cannot be loaded becomes a comment.
        required_only: Leave out the options that need not be set.

    Raises:
        UnknownSchedulerException: No such scheduler.
        SchedulerError: A scheduler that was asked for cannot be loaded.
    """
    f.write("# Remove the # before an option to set it.\n")
    for name in schedulers or scheduler_factories():
        try:
            opts = run_opts_of(name)
        except SchedulerError as err:
            if schedulers:
                raise
            f.write(f"\n# {err}\n")
        else:
            f.writelines(f"{line}\n" for line in section_lines(name, opts, required_only=required_only))


def run_opts_of(scheduler: str) -> runopts:
    """Return the options of the scheduler of that name.

    Raises:
        UnknownSchedulerException: No such scheduler.
        SchedulerError: It cannot be loaded.
    """
    with closing(make_scheduler(scheduler_factories(), scheduler, "torchx", {})) as made:
        return made.run_opts()


def section_lines(name: str, opts: runopts, *, required_only: bool) -> Iterator[str]:
    """Yield the lines of one scheduler's section, without line ends."""
    yield from ("", f"[{name}]")
    for key, option in opts:
        if option.is_required or not required_only:
            yield from ("", *_comment(_explanation(option)), _assignment(key, option))


def _comment(text: str) -> Iterable[str]:
    return (f"# {line}".rstrip() for line in text.splitlines())


def _explanation(option: runopt) -> str:
    return f"({option.kind}{', required' if option.is_required else ''}) {option.help}"


def _assignment(key: str, option: runopt) -> str:
    text = PLACEHOLDER if option.is_required else _text(option.default)
    if not text.isprintable():  # a line break, say, which no file can hold
        return f"# default of {key}: {option.default!r}"
    # no space after the #: with one left, the line would go on with the option above it
    return f"#{key} = {text.replace('%', '%%')}".rstrip()


def _text(value: CfgVal) -> str:
    """Return what a file must hold to be read as this value."""
    if value is None:
        return NONE_TEXT
    text = write_value(value)
    if text != NONE_TEXT and not text.startswith(PLACEHOLDER):
        return text
    return f'"{text}"' if isinstance(value, str) else f",{text}"
