"""An Airflow that runs single tasks for the benchmarks, without a scheduler or a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.clock import monotonic

SETTINGS = {
    "CORE__LOAD_EXAMPLES": "False",
    "LOGGING__COLORED_CONSOLE_LOG": "False",
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",  # or a supervisor takes 5 s to see its child's end
}


class Engine:
    """Runs tasks; knows the insides of the Airflow that `constraints/dev.txt` pins."""

    def __init__(self, folder: Path) -> None:
        """Make an empty database in the folder."""
        os.environ.update({f"AIRFLOW__{name}": value for name, value in SETTINGS.items()})
        os.environ |= {"AIRFLOW_HOME": str(folder), "TORCHX_STATE_DIR": str(folder / "state")}
        self._folder = folder
        self._printed = folder / "printed"
        self.log = self._printed
        """What the last task logged."""
        (folder / "dags").mkdir()
        with self._printing_to_file():
            import_module("airflow.utils.db").initdb()
            bundles = import_module("airflow.dag_processing.bundles.manager")
            bundles.DagBundlesManager().sync_bundles_to_db()

    def run_as_a_worker_does(self, dag_id: str, source: str) -> float:
        """Run the DAG's task ``t`` in a process of its own, under a supervisor that writes its log.

        Only the server is in this process. Return the seconds between start and end in Airflow's database:
        the supervisor is later to notice that its child has ended.
        """
        supervisor = import_module("airflow.sdk.execution_time.supervisor")
        workloads = import_module("airflow.executors.workloads")
        with self._printing_to_file():
            bag = self._bag(dag_id, source)
            import_module("airflow.dag_processing.dagbag").sync_bag_to_db(bag, "dags-folder", None)
            bundle = workloads.BundleInfo(name="dags-folder")
            task = workloads.ExecuteTask.make(
                _queued(dag_id), dag_rel_path=f"{dag_id}.py", generator=None, bundle_info=bundle
            ).ti
            supervisor.supervise_task(
                ti=task,
                bundle_info=bundle,
                dag_rel_path=f"{dag_id}.py",
                token="",
                client=supervisor.InProcessTestSupervisor._api_client(bag.dags[dag_id]),  # noqa: SLF001
                log_path=f"{dag_id}.log",
            )
        self.log = self._folder / "logs" / f"{dag_id}.log"
        ended = _task_instance(dag_id)
        self._check(ended.state)
        return float((ended.end_date - ended.start_date).total_seconds())

    def run_in_process(self, dag_id: str, source: str) -> float:
        """Run the DAG with ``dag.test()``, which runs triggers too."""
        self.log = self._printed
        with self._printing_to_file():
            dag = self._bag(dag_id, source).dags[dag_id]
            start = monotonic()
            run = dag.test()
            took_s = monotonic() - start
        self._check(run.state)
        return took_s

    def _bag(self, dag_id: str, source: str) -> Any:  # noqa: ANN401  (Airflow's own, as below)
        file = self._folder / "dags" / f"{dag_id}.py"
        file.write_text(source)
        return import_module("airflow.dag_processing.dagbag").DagBag(str(file))

    def _check(self, state: object) -> None:
        if state != "success":
            raise RuntimeError(f"the task is {state}: {self.log.read_text()[-2000:]}")

    @contextmanager
    def _printing_to_file(self) -> Iterator[None]:
        """Send what this process prints to a file."""
        sys.stdout.flush()
        kept = os.dup(1)
        file = os.open(self._printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.close(file)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


def _queued(dag_id: str) -> Any:  # noqa: ANN401
    """Make a run of the stored DAG, and return its task instance, ready to start."""
    types = import_module("airflow.utils.types")
    dag = import_module("airflow.models.serialized_dag").SerializedDagModel.get_dag(dag_id)
    with import_module("airflow.utils.session").create_session() as session:
        run = dag.create_dagrun(
            run_id="bench",
            run_type=types.DagRunType.MANUAL,
            run_after=datetime.now(UTC),
            triggered_by=types.DagRunTriggeredByType.TEST,
            state="running",
            session=session,
        )
        [task] = run.get_task_instances(session=session)
        task.state = "queued"
        task.try_number = 1
        session.flush()
        session.expunge(task)
    return task


def _task_instance(dag_id: str) -> Any:  # noqa: ANN401
    model = import_module("airflow.models.taskinstance").TaskInstance
    with import_module("airflow.utils.session").create_session() as session:
        [task] = session.query(model).filter(model.dag_id == dag_id).all()
        session.expunge(task)
    return task
