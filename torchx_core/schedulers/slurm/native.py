"""What Slurm itself says of an app's job, for people."""

from __future__ import annotations

from torchx_core.schedulers.slurm.commands import CommandFailed, ask
from torchx_core.schedulers.slurm.job import Row, number, rows
from torchx_core.schedulers.slurm.queue import QUESTION
from torchx_core.schedulers.slurm.record import JOB, AppRecord, JobFile

__all__ = ["native"]


def native(record: AppRecord) -> dict[str, object]:
    """Return the submitted command, and each component of the job as Slurm has it.

    ``squeue`` is its rows there; ``sacct`` is what accounting says once no row is left. Neither has an
    environment in it.

    Raises:
        SchedulerError: Slurm does not answer.
    """
    found: dict[str, object] = {"sbatch": record.sbatch}
    job = record.read(JOB, JobFile)
    if job is None:
        return found
    job_id = job.job_id
    listed = [row for row in ask(QUESTION, rows) if job_id in _ids(row)]
    if listed:
        return {**found, "job_id": job_id, "squeue": listed}
    return {**found, "job_id": job_id, "sacct": _accounted(job_id)}


def _accounted(job_id: str) -> list[Row]:
    try:
        return ask(["sacct", "--json", f"--jobs={job_id}"], rows)
    except CommandFailed:
        return []  # there is no accounting


def _ids(row: Row) -> set[str]:
    return {str(number(row.get(name))) for name in ("job_id", "het_job_id")}
