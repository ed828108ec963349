"""Hides the secrets among a scheduler's options, such as Docker's ``env``."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_torchx import _engine
from torchx_core.errors import InvalidInputError, UnknownSchedulerException
from torchx_core.launch import Target, target_options
from torchx_core.schedulers.secrets import secret_parts

__all__ = ["hide_option_secrets"]


def hide_option_secrets(target: Target) -> bool:
    """Hide them in everything logged from now on, and return whether there are any.

    What is wrong with options is said when they are used.
    """
    try:
        options = target_options(target.scheduler)
        cfg = target.cfg(options) if options else {}
    except (InvalidInputError, UnknownSchedulerException):
        return False
    environments = [value for value in cfg.values() if isinstance(value, Mapping)]
    for env in environments:
        _engine.mask_secrets(env)
    return any(secret_parts(name, str(value)) for env in environments for name, value in env.items())
