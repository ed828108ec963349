"""The options of the built-in schedulers, apart from them: to check some, no scheduler is loaded."""

from __future__ import annotations

from torchx_core.schedulers.options.docker import docker_run_opts
from torchx_core.schedulers.options.local import local_run_opts
from torchx_core.schedulers.options.slurm import slurm_run_opts
from torchx_core.specs import runopts

__all__ = ["built_in_run_opts"]

_BUILT_IN = {
    "local_cwd": local_run_opts,
    "local_dir": local_run_opts,
    "local_docker": docker_run_opts,
    "slurm": slurm_run_opts,
}


def built_in_run_opts(scheduler: str) -> runopts | None:
    """Return the options of the built-in scheduler of this name; None if there is no such one.

    Example:
        >>> opts = built_in_run_opts("slurm")
        >>> opts is not None and opts.get("partition") is not None, built_in_run_opts("local_cwd@gpu-box")
        (True, None)
    """
    make = _BUILT_IN.get(scheduler)
    return make() if make else None
