"""The options of the Slurm scheduler."""

from __future__ import annotations

from typing import Final

from torchx_core.schedulers.option_values import (
    add_ending_options,
    add_log_limit_option,
    add_retention_option,
)
from torchx_core.schedulers.unsupported import add_unsupported_option
from torchx_core.specs import runopts

__all__ = ["SBATCH_TEXTS", "slurm_run_opts"]

SBATCH_TEXTS: Final = {
    "partition": "partition to run in",
    "account": "account to charge",
    "qos": "quality of service",
    "time": "longest run time, as sbatch takes it: minutes, or days-hours:minutes:seconds",
    "constraint": "features that the nodes must have",
    "nodelist": "nodes to use",
    "exclude": "nodes not to use",
    "reservation": "reservation to run in",
    "mail-user": "whom Slurm mails",
    "mail-type": "about what: BEGIN, END, FAIL, REQUEUE, ALL",
}
"""Options that sbatch has by the same name, each with a text as its value."""


def slurm_run_opts() -> runopts:
    """Return the schema; partition, account, time, comment, constraint, mail and job_dir are TorchX's."""
    opts = runopts()
    for name, text in SBATCH_TEXTS.items():
        opts.add(name, type_=str, help=text)
    opts.add("comment", type_=str, help="comment on the job, behind the app's own")
    opts.add("job_dir", type_=str, help="working directory of the replicas; default: that of the submitter")
    opts.add(
        "nomem", type_=bool, default=False, help="do not ask for memory: for clusters that do not track it"
    )
    opts.add(
        "export",
        type_=str,
        default="ALL",
        help="which of the submitter's variables the job gets, as sbatch takes it: ALL, NONE, or names",
    )
    opts.add(
        "replicas_per_node",
        type_=int,
        default=1,
        help="how many replicas of a role may share a node (at most)",
    )
    opts.add("requeue", type_=bool, default=True, help="let Slurm start the job again when a node is lost")
    opts.add(
        "python", type_=str, default="python3", help="Python 3.7 or newer on the nodes, for our own script"
    )
    opts.add(
        "log_dir", type_=str, help="directory for the replicas' log files; default: beside the app's record"
    )
    add_log_limit_option(opts)
    add_ending_options(opts)
    add_unsupported_option(opts)
    add_retention_option(opts)
    return opts
