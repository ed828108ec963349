"""A scheduler that a third party wrote for TorchX keeps every promise that its interface can carry."""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from torchx_core import AppDef, Resource, Role, Runner, get_runner
from torchx_core.errors import SchedulerError
from torchx_core.testing import SchedulerContract, Step, python_program


class PluginContract(SchedulerContract):
    """Programs are real processes of this Python."""

    __test__ = False

    @pytest.fixture
    def new_runner(self, shelf: Path, tmp_path: Path) -> Callable[[], Runner]:
        """All runners of a test share one session."""
        del shelf  # installed
        return partial(get_runner, f"contract-{uuid.uuid4().hex}", state_dir=str(tmp_path / "state"))

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Use the Python that runs the tests, without its site packages: it starts in a third of the time."""
        entrypoint, args = python_program(*steps, python=sys.executable)
        return entrypoint, ["-I", "-S", *args]


class TestEntryPoint(PluginContract):
    """Found by an entry point in TorchX's group."""

    backend = "torchx:shelf"


@pytest.mark.slow  # all together, and the bridge is that of the other class
class TestChangedImports(PluginContract):
    """Written for TorchX, with ``torchx`` changed to ``torchx_core`` in its imports; found by our group."""

    backend = "bench"


def test_a_factory_of_torchx_may_be_given_to_a_runner(shelf: Path, tmp_path: Path) -> None:
    """Whoever makes a runner of factories may hand it a scheduler of TorchX as well as one of ours."""
    del shelf
    from torchx_shelf import create_scheduler

    with Runner("s", {"mine": create_scheduler}, scheduler_params={"state_dir": str(tmp_path)}) as runner:
        role = Role("main", image="", entrypoint="echo", args=["hello"], resource=Resource(1, 0, 1))
        handle = runner.run(AppDef("app", [role]), "mine")
        assert list(runner.log_lines(handle, "main", should_tail=True)) == ["hello\n"]
        assert handle.startswith("mine://s/app-")


def test_torchxs_own_local_scheduler_has_one_name(tmp_path: Path) -> None:
    """Each runner would have one of its own, which knows no app of another's and would submit it again."""

    def create(session_name: str, **_: object) -> object:
        upstream = importlib.import_module("torchx.schedulers.local_scheduler")
        with ThreadPoolExecutor(1) as thread:  # in the main thread it would replace signal handlers
            return thread.submit(upstream.create_scheduler, session_name).result()

    with (
        Runner("s", {"mine": create}, scheduler_params={"state_dir": str(tmp_path)}) as runner,
        pytest.raises(SchedulerError, match=r"'mine'.*'torchx:local_cwd'"),
    ):
        runner.list("mine")
