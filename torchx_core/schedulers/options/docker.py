"""The options of the Docker scheduler."""

from __future__ import annotations

from torchx_core.schedulers.option_values import add_ending_options, add_retention_option
from torchx_core.specs import runopts

__all__ = ["FORMER_MEANINGS", "LOG_DRIVERS", "NETWORKS", "PULLS", "SHIMS", "docker_run_opts"]

PULLS = ("missing", "always", "never")
SHIMS = ("sh", "none")
LOG_DRIVERS = ("local", "json-file", "k8s-file")
FORMER_MEANINGS = {"host_ip": "0.0.0.0"}  # noqa: S104  # nothing is bound to it here
"""What options meant before they were options, where that is not their default."""
NETWORKS = ("app", "bridge", "host", "none")


def docker_run_opts() -> runopts:
    """Return the schema; the first five are TorchX's."""
    opts = runopts()
    opts.add(
        "copy_env",
        type_=list[str],
        help="patterns of the submitter's environment variables to copy, for example FOO_*",
    )
    opts.add("env", type_=dict[str, str], help="environment variables, before those that the app sets itself")
    opts.add(
        "privileged", type_=bool, default=False, help="give the containers all rights on the engine's host"
    )
    opts.add("image_repo", type_=str, help="repository to push images with a workspace to")
    opts.add("quiet", type_=bool, default=False, help="do not log the output of building a workspace")
    opts.add("pull", type_=str, default="missing", help="when to pull images: missing (there), always, never")
    opts.add(
        "network",
        type_=str,
        default="app",
        help="app (its own, if it has several replicas), bridge, host, none, or a network's name",
    )
    opts.add(
        "host_ip",
        type_=str,
        default="127.0.0.1",
        help="address of the engine's host on which port_map is published; 0.0.0.0 for all",
    )
    opts.add(
        "shim",
        type_=str,
        default="sh",
        help="sh: a script in the container keeps deadline, lease and attempts; none: for images without sh",
    )
    opts.add(
        "init",
        type_=bool,
        default=True,
        help="the engine's init program is process 1; else the shim is, or with shim=none the program",
    )
    add_ending_options(opts, grace_note="; Docker counts whole ones")
    opts.add(
        "log_driver",
        type_=str,
        default="local",
        help="local keeps bytes as they are; json-file and k8s-file (Podman) replace what is not UTF-8",
    )
    opts.add(
        "log_max_mb",
        type_=int,
        help="keep only about so much of each replica's output on the engine; default: all",
    )
    opts.add("shm_mb", type_=int, help="size of /dev/shm in MB; default: the role's memMB, or 1024")
    opts.add(
        "gpu_ids",
        type_=list[str],
        help="GPUs of the engine to deal out to the replicas, in order; default: any",
    )
    add_retention_option(opts)
    return opts
