"""What `_engine` is for the rest, for the states that Airflow's server has for task instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_torchx._record import AirflowUnavailableError

__all__ = ["Instance", "instance_of", "states_of"]


class Instance(NamedTuple):
    """The name of a task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    """-1 for a task that is not mapped."""

    @property
    def name_in_run(self) -> str:
        """What the server calls it: a mapped one is "task_0"."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}_{self.map_index}"


def instance_of(ti: Any) -> Instance:  # noqa: ANN401  (its type differs between a task and a trigger)
    """Return the name of this one."""
    return Instance(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index)


def states_of(instances: Collection[Instance]) -> dict[Instance, str | None]:
    """Return the states that Airflow's server has for task instances now; None when it does not know one.

    A task instance that was cleared or reset, and is not scheduled yet, has none: that is ``no_status``.
    Costs one API call for all instances of a task.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    of_tasks: defaultdict[tuple[str, str], list[Instance]] = defaultdict(list)
    for instance in instances:
        of_tasks[instance.dag_id, instance.task_id].append(instance)
    return {instance: state for each in of_tasks.values() for instance, state in _states_of_task(each)}


def _states_of_task(instances: list[Instance]) -> Iterable[tuple[Instance, str | None]]:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # a second of imports

    dag_id, _, task_id, map_index = instances[0]
    try:
        runs = RuntimeTaskInstance.get_task_states(
            dag_id=dag_id,
            task_ids=[task_id],
            run_ids=sorted({instance.run_id for instance in instances}),
            map_index=map_index if len(instances) == 1 and map_index >= 0 else None,
        )
    except AirflowRuntimeError as err:
        raise AirflowUnavailableError(str(err)) from err
    for instance in instances:
        yield instance, _state_in(runs.get(instance.run_id) or {}, instance.name_in_run)


def _state_in(run: Mapping[str, Any], name: str) -> str | None:
    if name not in run:
        return None
    state = run[name]
    return "no_status" if state is None else str(getattr(state, "value", state))
