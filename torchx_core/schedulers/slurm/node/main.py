"""What the command line says."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Do what the command line says; each process loads its own part, as nothing is compiled beforehand."""
    if argv[0] == "lead":
        from torchx_core.schedulers.slurm.node.lead import lead

        return lead(argv[1])
    from torchx_core.schedulers.slurm.node.task import run_task

    return run_task(argv[1])
