"""Options, and checks of their values, that several schedulers have alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from math import inf, isfinite
from typing import Final, NamedTuple, cast

from torchx_core.errors import InvalidConfigError, InvalidInputError, InvalidRunConfigException
from torchx_core.specs import CfgVal, runopts

__all__ = [
    "RETENTION",
    "RETENTION_VARIABLE",
    "Retention",
    "add_ending_options",
    "add_log_limit_option",
    "add_retention_option",
    "check_grace",
    "check_values",
    "count",
    "of_the_app",
    "one_of",
    "retention",
    "seconds",
]

RETENTION: Final = "retention"
"""The option that says what a submit forgets: about other apps than the one that is submitted."""
RETENTION_VARIABLE: Final = "TORCHX_RETENTION"
_DEFAULT: Final = "30d,10GB"
_OFF: Final = "off"


class Retention(NamedTuple):
    """What the ended apps of a session are held to."""

    max_age_s: float
    max_bytes: float


def add_ending_options(opts: runopts, *, grace_note: str = "") -> None:
    """Add the options that say when an app ends, and how.

    Args:
        opts: To add them to.
        grace_note: What else there is to say about the grace period.
    """
    opts.add(
        "grace_s",
        type_=float,
        default=10.0,
        help=f"seconds between SIGTERM and SIGKILL when the app is stopped{grace_note}",
    )
    opts.add("timeout_s", type_=float, help="cancel the app when it has run for that many seconds")
    opts.add("deadline", type_=float, help="cancel the app at that time, in seconds since the epoch")
    opts.add("lease_s", type_=float, help="cancel the app when nobody followed it for that many seconds")


def add_log_limit_option(opts: runopts) -> None:
    """Add the option that keeps a chatty replica from filling the disk."""
    opts.add(
        "log_max_mb",
        type_=int,
        help="keep only about so much of each replica's output, beginning and latest part; default: all",
    )


def add_retention_option(opts: runopts) -> None:
    """Add the option that says which ended apps of the session a submit forgets."""
    opts.add(
        RETENTION,
        type_=str,
        help="submits forget ended apps of the session after an age or beyond a size, as 30d,10GB, or off; "
        "default: $TORCHX_RETENTION, or 30d,10GB",
    )


def of_the_app(cfg: Mapping[str, CfgVal]) -> dict[str, CfgVal]:
    """Return the options that say something about the app itself: another value is another request."""
    return {name: value for name, value in cfg.items() if name != RETENTION}


def retention(cfg: Mapping[str, CfgVal]) -> Retention | None:
    """Return what the option, or else ``TORCHX_RETENTION``, says: None for ``off``.

    Either is ``AGE``, ``SIZE``, both with a comma, or ``off``.

    Raises:
        InvalidRunConfigException: The option is anything else.
        InvalidConfigError: The variable is.
    """
    option = cast("str | None", cfg.get(RETENTION))
    try:
        return _parse(
            (os.environ.get(RETENTION_VARIABLE, "") if option is None else option).strip() or _DEFAULT
        )
    except ValueError as err:
        if option is None:
            raise InvalidConfigError(f"${RETENTION_VARIABLE}", None, f"it {err}") from None
        raise InvalidRunConfigException(f"{RETENTION} {err}", RETENTION, cfg) from None


@cache
def _parse(text: str) -> Retention | None:
    from torchx_core.quantities import parse_duration, parse_size  # here: a DAG file needs neither

    if text == _OFF:
        return None
    keep = Retention(inf, inf)
    for part in map(str.strip, text.split(",")):
        if (age_s := _or_none(parse_duration, part)) is not None:
            keep = keep._replace(max_age_s=age_s)
        elif (size := _or_none(parse_size, part)) is not None:
            keep = keep._replace(max_bytes=size)
        else:
            raise ValueError(f"must be an age, a size or both, as {_DEFAULT}, or {_OFF}: {text!r}")
    return keep


def _or_none(parse: Callable[[str], float], part: str) -> float | None:
    """Return the quantity; None for another one, and for a number without a unit, which may mean either."""
    try:
        return None if part.isdigit() else parse(part)
    except ValueError:
        return None


def seconds(cfg: Mapping[str, CfgVal], key: str) -> float | None:
    """Return the option as a positive number, or None when it is unset.

    Raises:
        InvalidRunConfigException: It is negative, or zero where that means nothing.
    """
    value = cast("float | None", cfg.get(key))
    if value is not None and not (isfinite(value) and (value > 0 or (value == 0 and key == "grace_s"))):
        raise InvalidRunConfigException(f"{key} must be a positive number of seconds: {value}", key, cfg)
    return value


def count(cfg: Mapping[str, CfgVal], key: str) -> int | None:
    """Return the option as a positive number, or None when it is unset.

    Raises:
        InvalidRunConfigException: It is not positive.
    """
    value = cast("int | None", cfg.get(key))
    if value is not None and value <= 0:
        raise InvalidRunConfigException(f"{key} must be a positive number: {value}", key, cfg)
    return value


def one_of(cfg: Mapping[str, CfgVal], key: str, allowed: tuple[str, ...]) -> str:
    """Return the option, which must be one of these.

    Raises:
        InvalidRunConfigException: It is another.
    """
    value = str(cfg.get(key))
    if value not in allowed:
        raise InvalidRunConfigException(f"{key} must be one of {', '.join(allowed)}: {value!r}", key, cfg)
    return value


def check_values(cfg: Mapping[str, CfgVal]) -> None:
    """Refuse what no backend could be given, and a retention that says nothing.

    Raises:
        InvalidRunConfigException: A text cannot be passed on, or ``retention`` is wrong.
    """
    for key, value in cfg.items():
        if isinstance(value, str) and not _can_be_passed(value):
            raise InvalidRunConfigException(
                f"{key} must not have a NUL byte or half a character: {value!r}", key, cfg
            )
    if cfg.get(RETENTION) is not None:
        retention(cfg)


def check_grace(grace_s: float | None) -> None:
    """Refuse a grace period that is no length of time.

    Raises:
        InvalidInputError: It is negative, infinite or no number.
    """
    if grace_s is not None and not (isfinite(grace_s) and grace_s >= 0):
        raise InvalidInputError(f"grace_s must be a number of seconds, 0 or more: {grace_s}")


def _can_be_passed(text: str) -> bool:
    """Return whether the system takes the text as a path or a word; undecodable bytes are kept (PEP 383)."""
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
