"""Checks the types of an operator's arguments, as soon as it is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Literal, TypeAlias, get_args

from airflow_torchx._engine import XComArg
from airflow_torchx._parse_checks import has_template
from torchx_core.errors import InvalidInputError

__all__ = [
    "OnWorkerShutdown",
    "check_cfg",
    "check_component_args",
    "check_count",
    "check_env",
    "check_exit_codes",
    "check_flag",
    "check_limit",
    "check_on_worker_shutdown",
    "check_texts",
]

OnWorkerShutdown: TypeAlias = Literal["detach", "cancel"]

_ARGUMENTS = (Mapping, Sequence, XComArg, type(None))


def check_texts(**values: object) -> None:
    """Refuse what is no text, nothing, or a text that another task returns.

    Raises:
        InvalidInputError: One is something else; as all functions here do.
    """
    for name, value in values.items():
        _require(isinstance(value, str | XComArg | None), name, value, "a text")


def check_cfg(value: object) -> None:
    """Refuse what cannot be options of a scheduler."""
    wanted = "options by name, or as a text like 'grace_s=5,log_dir=/logs'"
    _require(isinstance(value, Mapping | str | XComArg | None), "cfg", value, wanted)


def check_component_args(value: object) -> None:
    """Refuse what cannot be arguments of a component; a template may be rendered as some, so it may pass."""
    wanted = "values by name, or a list of words like ['--msg', 'hello']"
    fits = has_template(value) if isinstance(value, str) else isinstance(value, _ARGUMENTS)
    _require(fits, "component_args", value, wanted)


def check_env(value: object) -> None:
    """Refuse what cannot be environment variables; a template may pass."""
    fits = has_template(value) if isinstance(value, str) else isinstance(value, Mapping | XComArg | None)
    _require(fits, "env", value, "values by name")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither true nor false."""
    _require(isinstance(value, bool), name, value, "True or False")


def check_count(name: str, value: object) -> None:
    """Refuse what is no number of things of which there must be one."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
    _require(fits, name, value, "an integer of at least 1")


def check_limit(name: str, value: object) -> None:
    """Refuse what is no limit; None stands for none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
    _require(value is None or fits, name, value, "a number of at least 0, or None")


def check_exit_codes(name: str, value: object) -> None:
    """Refuse what is no collection of exit codes."""
    fits = isinstance(value, Collection) and not isinstance(value, str) and all(map(_is_integer, value))
    _require(fits, name, value, "integers, such as (2, 126)")


def check_on_worker_shutdown(value: object) -> None:
    """Refuse what is no reaction to a worker that shuts down."""
    known = get_args(OnWorkerShutdown)
    _require(value in known, "on_worker_shutdown", value, " or ".join(map(repr, known)))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(fits: bool, name: str, value: object, wanted: str) -> None:  # noqa: FBT001  (what is required)
    if not fits:
        raise InvalidInputError(f"{name} must be {wanted}: {value!r}")
