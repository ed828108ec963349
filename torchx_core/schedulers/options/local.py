"""The options of the local schedulers."""

from __future__ import annotations

from torchx_core.schedulers.option_values import (
    add_ending_options,
    add_log_limit_option,
    add_retention_option,
)
from torchx_core.schedulers.unsupported import add_unsupported_option
from torchx_core.specs import runopts

__all__ = ["local_run_opts"]


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
        help="put the working directory first in PATH of every replica, not last",
    )
    opts.add(
        "auto_set_cuda_visible_devices",
        type_=bool,
        default=False,
        help="reserve the GPUs that a role asks for and show each replica its own in CUDA_VISIBLE_DEVICES",
    )
    add_ending_options(opts)
    add_unsupported_option(opts)
    opts.add(
        "log_mode",
        type_=str,
        default="exact",
        help="exact: stdout and stderr keep their order; pipe: faster for programs that write unbuffered",
    )
    add_log_limit_option(opts)
    opts.add(
        "limits",
        type_=str,
        default="auto",
        help="hold replicas to resource.cpu and memMB: auto (where the host can), require (or fail), off",
    )
    add_retention_option(opts)
    return opts
