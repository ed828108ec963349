"""All experiments, in the order in which they run and are shown."""

from __future__ import annotations

from benchmarks.experiment import Experiment
from benchmarks.workloads import (
    airflow_tasks,
    apps,
    containers,
    imports,
    latency,
    many_logs,
    prefect_runs,
    reading,
    replicas,
    slurm_jobs,
    waiting,
    writers,
)

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: tuple[Experiment, ...] = (
    imports.EXPERIMENT,
    *replicas.EXPERIMENTS,
    *waiting.EXPERIMENTS,
    *reading.EXPERIMENTS,
    latency.EXPERIMENT,
    *many_logs.EXPERIMENTS,
    *writers.EXPERIMENTS,
    *apps.EXPERIMENTS,
    *containers.EXPERIMENTS,
    *slurm_jobs.EXPERIMENTS,
    *airflow_tasks.EXPERIMENTS,
    *prefect_runs.EXPERIMENTS,
)
