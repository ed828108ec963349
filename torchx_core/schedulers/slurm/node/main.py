"""What the command line says."""

from __future__ import annotations

from torchx_core.schedulers.slurm.node.lead import lead
from torchx_core.schedulers.slurm.node.play import play


def main(argv: list[str]) -> int:
    """Do what the command line says."""
    if argv[0] == "lead":
        return lead(argv[1])
    return play(argv[1])
