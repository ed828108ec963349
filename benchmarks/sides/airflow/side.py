"""What a workload may ask of each operator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from benchmarks.sides.airflow.engine import Engine


class AirflowSide:
    """One operator; a job is how long its task ran, in seconds."""

    importing: str
    """A Python statement: what a DAG file has besides ``from airflow.sdk import DAG``."""
    can_defer = False

    def __init__(self, folder: Path) -> None:
        """Make an Airflow in the folder."""
        self._engine = Engine(folder)
        self._names = (f"d{number}" for number in count())

    @property
    def log(self) -> Path:
        """What the last task logged."""
        return self._engine.log

    def task(self, command: Sequence[str], *, deferrable: bool = False) -> str:
        """Return the Python source of a task ``t`` that runs the command."""
        raise NotImplementedError

    def submit(self, command: Sequence[str], *, deferrable: bool = False) -> float:
        """Run a task to its end; one that defers runs in this process, and so does its trigger."""
        dag_id = next(self._names)
        source = (
            f'from airflow.sdk import DAG\n{self.importing}\nwith DAG("{dag_id}", schedule=None):\n'
            f"    {self.task(command, deferrable=deferrable)}\n"
        )
        run = self._engine.run_in_process if deferrable else self._engine.run_as_a_worker_does
        return run(dag_id, source)

    def wait(self, job: float) -> None:
        """Do nothing: it has ended."""

    def close(self) -> None:
        """Do nothing: nothing runs any more."""
