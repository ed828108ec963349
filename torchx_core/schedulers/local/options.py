"""The options of the local schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import cast

from torchx_core.errors import InvalidInputError, InvalidRunConfigException
from torchx_core.specs import CfgVal, runopts

__all__ = ["check_grace", "local_run_opts", "number", "one_of"]


def local_run_opts() -> runopts:
    """Return the schema; the first three are TorchX's."""
    opts = runopts()
    opts.add(
        "log_dir", type_=str, help="directory for the replicas' log files; default: beside the app's record"
    )
    opts.add(
        "prepend_cwd",
        type_=bool,
        default=False,
        help="put the working directory first in PATH of every replica",
    )
    opts.add(
        "auto_set_cuda_visible_devices",
        type_=bool,
        default=False,
        help="reserve the GPUs that a role asks for and show each replica its own in CUDA_VISIBLE_DEVICES",
    )
    opts.add(
        "grace_s",
        type_=float,
        default=10.0,
        help="seconds between SIGTERM and SIGKILL when the app is stopped",
    )
    opts.add("timeout_s", type_=float, help="cancel the app when it has run for that many seconds")
    opts.add("deadline", type_=float, help="cancel the app at that time, in seconds since the epoch")
    opts.add("lease_s", type_=float, help="cancel the app when nobody followed it for that many seconds")
    opts.add(
        "log_mode",
        type_=str,
        default="exact",
        help="exact: stdout and stderr keep their order; pipe: faster for programs that write unbuffered",
    )
    opts.add(
        "limits",
        type_=str,
        default="auto",
        help="hold replicas to resource.cpu and memMB: auto (where the host can), require (or fail), off",
    )
    return opts


def number(cfg: Mapping[str, CfgVal], key: str) -> float | None:
    """Return the option as a positive number, or None when it is unset.

    Raises:
        InvalidRunConfigException: It is negative, or zero where that means nothing.
    """
    value = cast("float | None", cfg.get(key))
    if value is not None and not (isfinite(value) and (value > 0 or (value == 0 and key == "grace_s"))):
        raise InvalidRunConfigException(f"{key} must be a positive number of seconds: {value}", key, cfg)
    return value


def check_grace(grace_s: float | None) -> None:
    """Refuse a grace period that is no length of time.

    Raises:
        InvalidInputError: It is negative, infinite or no number.
    """
    if grace_s is not None and not (isfinite(grace_s) and grace_s >= 0):
        raise InvalidInputError(f"grace_s must be a number of seconds, 0 or more: {grace_s}")


def one_of(cfg: Mapping[str, CfgVal], key: str, allowed: tuple[str, ...]) -> str:
    """Return the option, which must be one of these.

    Raises:
        InvalidRunConfigException: It is another.
    """
    value = str(cfg.get(key))
    if value not in allowed:
        raise InvalidRunConfigException(f"{key} must be one of {', '.join(allowed)}: {value!r}", key, cfg)
    return value
