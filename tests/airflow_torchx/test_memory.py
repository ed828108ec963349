from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_apps import app_of, python
from task_tries import make_record, make_try

from airflow_torchx._engine import TaskStateStore
from airflow_torchx._memory import ProbingMemory, StoreMemory
from airflow_torchx._tries import make_app_id
from torchx_core.runner import Runner, get_runner


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """Return a runner with a state directory of its own."""
    with get_runner("s", state_dir=str(tmp_path)) as made:
        yield made


def _submit(runner: Runner, generation: int, attempt: int) -> str:
    """Run an app to its end under the id that this generation and attempt have."""
    app_id = make_app_id(make_try(generation=generation), salt="", attempt=attempt)
    handle = runner.run(app_of("true"), "local_cwd", app_id=app_id)
    runner.wait(handle)
    return handle


class DictStore:
    """Airflow's accessor, without Airflow."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def get(self, key: str) -> object:
        """Return the value."""
        return self.values.get(key)

    def set(self, key: str, value: object) -> None:
        """Keep the value."""
        self.values[key] = value


def test_the_store_gives_back_what_it_got() -> None:
    """A record saved by one try is the record of the next."""
    store = TaskStateStore(DictStore())
    record = make_record()
    assert StoreMemory(store).load() is None
    StoreMemory(store).save(record)
    assert StoreMemory(store).load() == record
    assert StoreMemory(store).salt(make_try()) == "ti1"


def _probe(runner: Runner, *, number: int = 3, generation: int = 1) -> ProbingMemory:
    return ProbingMemory(runner, "local_cwd", make_try(number=number, generation=generation), 60.0)


def test_without_apps_probing_finds_nothing(runner: Runner) -> None:
    """The first try of a task submits."""
    assert _probe(runner).load() is None


def test_probing_finds_the_latest_attempt(runner: Runner) -> None:
    """Without a store the apps themselves tell where the task stands."""
    _submit(runner, generation=1, attempt=0)
    handle = _submit(runner, generation=1, attempt=1)
    found = _probe(runner).load()
    assert found is not None
    assert (found.handle, found.attempt, found.generation, found.submitted) == (handle, 1, 1, True)


def test_probing_looks_behind_a_gap(runner: Runner) -> None:
    """A failed attempt may have been pruned; the app of the next one must not be run beside."""
    first = _submit(runner, generation=1, attempt=0)
    handle = _submit(runner, generation=1, attempt=1)
    runner.delete(first)
    found = _probe(runner).load()
    assert found is not None
    assert found.handle == handle


HANGS = """
import sys, time
from local_apps import app_of
from torchx_core import get_runner
from torchx_core.schedulers.local import launch
launch._spawn = lambda *args: print("hangs", flush=True) or time.sleep(600)
get_runner("s").run(app_of("true"), "local_cwd", app_id=sys.argv[1])
"""


def test_probing_does_not_take_a_begun_submit_for_a_done_one(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever began it may have died: the next try finishes it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    app_id = make_app_id(make_try(generation=1), salt="", attempt=0)
    with python(tmp_path, HANGS, app_id) as hanging:
        assert hanging.stdout is not None
        assert hanging.stdout.readline() == "hangs\n"
        found = _probe(runner).load()
        hanging.kill()
    assert found is not None
    assert not found.submitted
    runner.wait(found.handle, timeout_s=240)


def test_probing_finds_an_earlier_generation(runner: Runner) -> None:
    """A clear finds the app of the runs before it, which it is to cancel."""
    handle = _submit(runner, generation=1, attempt=0)
    found = _probe(runner, generation=4).load()
    assert found is not None
    assert (found.handle, found.generation) == (handle, 1)


def test_probing_has_no_salt_and_saves_nothing(runner: Runner) -> None:
    """Its ids must be the same for every try, and the submitted app is the record."""
    memory = _probe(runner)
    memory.save(make_record())
    assert memory.load() is None
    assert memory.salt(make_try()) == ""
