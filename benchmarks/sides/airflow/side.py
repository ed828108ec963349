"""What a workload may ask of each operator, and an Airflow in this process to run it in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.clock import monotonic


class AirflowSide:
    """One operator; a job is how long its task took, in seconds."""

    importing: str
    """A Python statement: what a DAG file has besides ``from airflow.sdk import DAG``."""
    can_defer = False

    def __init__(self, folder: Path) -> None:
        """Make an Airflow with an empty database in the folder."""
        settings = {"CORE__LOAD_EXAMPLES": "False", "LOGGING__COLORED_CONSOLE_LOG": "False"}
        os.environ.update({f"AIRFLOW__{name}": value for name, value in settings.items()})
        os.environ |= {"AIRFLOW_HOME": str(folder), "TORCHX_STATE_DIR": str(folder / "state")}
        self._dags = folder / "dags"
        self._dags.mkdir()
        self.log = folder / "log"
        """What the last run logged."""
        with self._logging():
            from airflow.utils.db import initdb

            initdb()

    def task(self, command: Sequence[str], *, deferrable: bool = False) -> str:
        """Return the Python source of a task ``t`` that runs the command."""
        raise NotImplementedError

    def submit(self, command: Sequence[str], *, deferrable: bool = False) -> float:
        """Run a DAG that has the task alone with ``dag.test()``, to its end."""
        from airflow.dag_processing.dagbag import DagBag

        file = self._dags / "d.py"
        file.write_text(
            f'from airflow.sdk import DAG\n{self.importing}\nwith DAG("d", schedule=None):\n'
            f"    {self.task(command, deferrable=deferrable)}\n"
        )
        with self._logging():
            dag = DagBag(str(file)).dags["d"]
            start = monotonic()
            run = dag.test()
            took_s = monotonic() - start
        if run.state != "success":
            raise RuntimeError(f"the run is {run.state}: {self.log.read_text()[-2000:]}")
        return took_s

    def wait(self, job: float) -> None:
        """Do nothing: it has ended."""

    def close(self) -> None:
        """Do nothing: nothing runs any more."""

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Send what this process prints, and with it the task's log, to a file."""
        sys.stdout.flush()
        kept = os.dup(1)
        file = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.close(file)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
