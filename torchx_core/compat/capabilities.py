"""What each TorchX scheduler can do once it is behind the bridge, as far as that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torchx_core.compat.processes import LOCAL_CLASS
from torchx_core.schedulers import Capabilities

__all__ = ["KNOWN", "UNKNOWN", "capabilities_of"]

# All of them: a request to cancel is written down, so a cancelled app is CANCELLED whatever TorchX calls it.
# None of them: reports, gang, deadline and lease need something of ours beside the app. Attempts are not
# told, so retries are not claimed, which Docker, Slurm and Kubernetes do make. TorchX builds workspaces while
# it renders a request, and a dry run here builds nothing. No scheduler there tells when a line was written.

KNOWN: Final = {
    LOCAL_CLASS: Capabilities(tail=True, cancelled_state=True, log_times=False),
    "torchx.schedulers.docker_scheduler.DockerScheduler": Capabilities(
        tail=True,
        survives_submitter=True,
        submit_once=True,
        mounts=True,
        resource_limits=True,
        cancelled_state=True,
        exit_codes=False,
        log_times=False,
        grace_period=False,
    ),
    "torchx.schedulers.slurm_scheduler.SlurmScheduler": Capabilities(
        tail=True,
        survives_submitter=True,
        resource_limits=True,
        cancelled_state=True,
        exit_codes=False,
        log_times=False,
        grace_period=False,
    ),  # not submit_once: a job's number is unknown until sbatch has answered
    "torchx.schedulers.kubernetes_scheduler.KubernetesScheduler": Capabilities(
        tail=True,
        survives_submitter=True,
        submit_once=True,
        mounts=True,
        resource_limits=True,
        cancelled_state=True,
        exit_codes=False,
        log_times=False,
        grace_period=False,
        separate_streams=False,
    ),
}
"""Class of the TorchX scheduler -> its capabilities; subclasses have their base's."""

UNKNOWN: Final = Capabilities(
    cancelled_state=True, exit_codes=False, separate_streams=False, log_times=False, grace_period=False
)
"""Of a scheduler that only its plugin knows: what the bridge does by itself."""


def capabilities_of(classes: Sequence[str]) -> Capabilities:
    """Return the capabilities of a scheduler with these classes, its own first."""
    return next((KNOWN[name] for name in classes if name in KNOWN), UNKNOWN)
