"""Options, and checks of their values, that several schedulers have alike."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import cast

from torchx_core.errors import InvalidInputError, InvalidRunConfigException
from torchx_core.specs import CfgVal, runopts

__all__ = ["add_ending_options", "check_grace", "count", "one_of", "seconds"]


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


def check_grace(grace_s: float | None) -> None:
    """Refuse a grace period that is no length of time.

    Raises:
        InvalidInputError: It is negative, infinite or no number.
    """
    if grace_s is not None and not (isfinite(grace_s) and grace_s >= 0):
        raise InvalidInputError(f"grace_s must be a number of seconds, 0 or more: {grace_s}")
