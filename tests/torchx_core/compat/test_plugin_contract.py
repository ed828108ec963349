"""A scheduler that a third party wrote for TorchX keeps every promise that its interface can carry."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from torchx_core import Runner, get_runner
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
