"""Airflow parses DAG files all the time: importing the operator costs little over importing ``DAG``."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.engine

DAG = "from airflow.sdk import DAG"
OPERATOR = f"{DAG}; from airflow_torchx import TorchXRunOperator"
EXPENSIVE = {
    "airflow.sdk.bases.decorator",
    "airflow.triggers.base",
    "airflow_torchx._execution",
    "asyncio",
    "click",
    "docker",
    "hypothesis",
    "rich",
    "torch",
    "torchx_core.components",
    "yaml",
}
MOST_MODULES = 58
"""Modules are counted, not milliseconds: those depend on the machine."""


@pytest.fixture(scope="module")
def loaded() -> tuple[set[str], set[str], set[str]]:
    """Return what importing the operator loads after `DAG`, and all that making and running one needs."""
    app = "{'name': 'a', 'roles': [{'name': 'w', 'image': '', 'entrypoint': 'true'}]}"
    make = f"TorchXRunOperator(task_id='t', app={app}, scheduler='local_docker', cfg={{'grace_s': 5.0}})"
    had, imported, made, run = _loaded_by(DAG, OPERATOR, make, "import airflow_torchx._execution")
    return imported, had | imported | made, had | imported | made | run


def test_importing_the_operator_loads_few_modules(loaded: tuple[set[str], ...]) -> None:
    """Modules that only some tasks need are not among them; every DAG file pays for `DAG`."""
    imported, _, _ = loaded
    assert imported & EXPENSIVE == set()
    assert {name.partition(".")[0] for name in imported} <= {
        "airflow",
        "airflow_torchx",
        "pydantic",
        "torchx_core",
    }
    assert len(imported) <= MOST_MODULES


def test_making_an_operator_loads_no_scheduler(loaded: tuple[set[str], ...]) -> None:
    """Its options are checked all the same."""
    _, made, _ = loaded
    assert "torchx_core.schedulers.options.docker" in made
    assert (
        made & {"torchx_core.runner", "torchx_core.schedulers.docker", "torchx_core.schedulers.local"}
        == set()
    )


def test_a_task_loads_what_explains_failures_only_when_there_is_one(loaded: tuple[set[str], ...]) -> None:
    """Its regular expressions take a tenth of what a task of `true` takes to load."""
    _, _, run = loaded
    assert "airflow_torchx._outcome" in run
    assert "torchx_core.specs.failure" not in run


def test_the_providers_description_loads_nothing() -> None:
    """Each of Airflow's processes asks for it, before Airflow itself is ready."""
    [more] = _loaded_by("import airflow_torchx.get_provider_info")
    assert {name for name in more if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "airflow_torchx",
        "airflow_torchx.get_provider_info",
    }


def test_the_plugin_loads_next_to_nothing() -> None:
    """Each task's process loads all plugins, whatever its task is."""
    plugins = "import airflow.plugins_manager, airflow.sdk, airflow_torchx"
    [more] = _loaded_by("import airflow_torchx.plugin", after=plugins)
    assert {name for name in more if name.startswith(("airflow_torchx", "torchx_core", "fastapi"))} == {
        "airflow_torchx._addresses",
        "airflow_torchx.plugin",
    }


def _loaded_by(*statements: str, after: str = "pass") -> list[set[str]]:
    """Return the modules that an interpreter has loaded after each of the statements, but not before it."""
    look = "known = set(sys.modules); {}; print(*set(sys.modules) - known)"
    program = "; ".join(["import sys", after, *map(look.format, statements)])
    command = [sys.executable, "-W", "ignore", "-c", program]
    lines = subprocess.check_output(command, text=True).splitlines()
    return [set(line.split()) for line in lines[-len(statements) :]]
