from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local_apps import app_of
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


def test_probing_finds_an_earlier_generation(runner: Runner) -> None:
    """So that a clear can cancel what came before it."""
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
