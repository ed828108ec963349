"""Reads the words of a command line; what they mean is not judged here.

::

    words  = option* [["--"] vararg+]
    option = flag value | flag=value | -xvalue        the flag --name may be shortened while it stays unique

The first word that is no option ends the options: it and all that follow are varargs, whatever they look
like. A value that looks like a flag is written with ``=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torchx_core.errors import ComponentArgumentError, did_you_mean

__all__ = ["HELP", "Words", "read_words"]

HELP = "--help"
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class Words(NamedTuple):
    """What a command line gives."""

    options: dict[str, str]
    """Argument -> text; the last one counts."""
    varargs: list[str] | None
    """None when the line has none, not even a ``--``."""
    help: bool = False
    """Whether it asks for help."""


def read_words(component: str, words: Sequence[str], flags: Mapping[str, str]) -> Words:
    """Split the words into options and varargs.

    Args:
        component: For messages.
        words: The words after the component's name.
        flags: Flag -> the argument that it names.

    Raises:
        ComponentArgumentError: A flag is unknown or ambiguous, or its value is missing.
    """
    options: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--" or not _is_flag(word, flags):
            return Words(options, list(words[at + (word == "--") :]))
        if word in (HELP, "-h") and word not in flags:
            return Words(options, None, help=True)
        flag, value = _split(component, word, flags)
        at += 1
        if value is None:
            value = _value(component, flag, words[at : at + 1])
            at += 1
        options[flags[flag]] = value
    return Words(options, None)


def _is_flag(word: str, flags: Mapping[str, str]) -> bool:
    head = word.partition("=")[0]
    if word in flags or head in flags or _shortened(head, flags):
        return True
    return word.startswith("-") and word != "-" and " " not in word and not _NUMBER.fullmatch(word)


def _split(component: str, word: str, flags: Mapping[str, str]) -> tuple[str, str | None]:
    head, equals, tail = word.partition("=")
    value = tail if equals else None
    if head in flags:
        return head, value
    if not head.startswith("--") and head[:2] in flags:
        return head[:2], word[2:]
    meant = _shortened(head, flags)
    if len(meant) > 1:
        raise ComponentArgumentError(component, head, f"is ambiguous; it may be {', '.join(meant)}")
    if not meant:
        known = f"known: {', '.join([*flags, HELP])}{did_you_mean(head, flags)}"
        raise ComponentArgumentError(component, head, f"is unknown; {known}")
    return meant[0], value


def _shortened(head: str, flags: Iterable[str]) -> list[str]:
    return [flag for flag in flags if flag.startswith(head)] if head.startswith("--") else []


def _value(component: str, flag: str, following: Sequence[str]) -> str:
    if not following or following[0] == "--" or _is_flag(following[0], {}):
        raise ComponentArgumentError(
            component, flag, f"needs a value; write {flag}=VALUE if it begins with a dash"
        )
    return following[0]
