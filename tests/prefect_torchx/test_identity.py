from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect import flow, task

from prefect_torchx._engine.caller import Caller

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("prefect_api")]


SOURCE = "def job(): return work()"


def _work() -> str:
    caller = Caller()
    return caller.work(caller.flow_tries()[0].run)


def _tasks(source: str, folders: list[Path]) -> list[Any]:
    """Return tasks of the same source, which lies in each of these folders."""
    made = []
    for folder in folders:
        names: dict[str, Any] = {"work": _work}
        exec(compile(source, folder / "flows.py", "exec"), names)  # noqa: S102  (as Prefect loads a flow)
        made.append(task(names["job"]))
    return made


def test_a_piece_of_work_is_the_same_wherever_its_code_lies(tmp_path: Path) -> None:
    """A process worker fetches it into a new folder for each start, and Prefect's key of the task changes."""
    here, there = _tasks(SOURCE, [tmp_path / "a", tmp_path / "b"])

    @flow
    def pipeline() -> list[str]:
        return [here(), there.submit().result()]

    assert here.task_key != there.task_key
    assert len(set(pipeline())) == 1


def test_other_work_is_told_apart(tmp_path: Path) -> None:
    """By the function, by the flow run, and from the flow's own."""
    [one] = _tasks(SOURCE, [tmp_path])

    @task
    def another() -> str:
        return _work()

    @flow
    def pipeline() -> list[str]:
        return [one(), another(), _work()]

    assert len({*pipeline(), *pipeline()}) == 6
