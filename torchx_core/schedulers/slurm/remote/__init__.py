"""The Slurm scheduler for hosts outside the cluster: `torchx_core.schedulers.remote`, by a login node."""

__all__: list[str] = []
