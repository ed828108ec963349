from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from prefect import flow, task
from prefect.context import FlowRunContext, TaskRunContext
from prefect.task_runners import ThreadPoolTaskRunner

# Each of these is guarded where it is used: without it less is known, or later. A version of Prefect in which
# one has gone, moved or changed fails here, before a user notices how late a cancel has become.


def test_the_runners_intent_is_where_it_was() -> None:
    """Tells a cancelled flow run's SIGTERM from every other one."""
    from prefect._internal.control_listener import get_intent

    assert get_intent() is None


def test_a_timeout_is_still_an_exception_of_prefects_own() -> None:
    """It arrives in what runs too long; `except Exception` does not catch it."""
    from prefect._internal.concurrency.cancellation import CancelledError

    assert not issubclass(CancelledError, Exception)


@pytest.mark.engine
@pytest.mark.usefixtures("prefect_api")
def test_a_task_runner_has_an_event_for_every_submitted_task() -> None:
    """A submitted task learns from it that its flow is ending."""
    is_set: dict[uuid.UUID, bool] = {}

    @task
    def job() -> uuid.UUID:
        context = FlowRunContext.get()
        assert context is not None
        found = context.task_runner._cancel_events  # type: ignore[attr-defined]  # noqa: SLF001
        is_set.update({task_run_id: event.is_set() for task_run_id, event in found.items()})
        running = TaskRunContext.get()
        assert running is not None
        return running.task_run.id

    @flow(task_runner=ThreadPoolTaskRunner())  # type: ignore[arg-type]  # its futures have a type of their own
    def pipeline() -> uuid.UUID:
        return job.submit().result()

    assert is_set == {pipeline(): False}


POOL = """
import os
from prefect.task_runners import ProcessPoolTaskRunner
from prefect_torchx._engine.pool import children_of

if __name__ == "__main__":
    with ProcessPoolTaskRunner(max_workers=1) as runner:
        child = runner._executor.submit(os.getpid).result()
        print([process.pid for process in children_of(runner)] == [child])
    print(children_of(runner))
"""


@pytest.mark.slow
def test_the_children_of_a_process_pool_are_known(tmp_path: Path) -> None:
    """They are told what ends their flow. Apart, because Python leaves a process of its own behind."""
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert ran.stdout == "True\n[]\n", ran.stderr
