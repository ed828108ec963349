"""TorchX's local scheduler, behind the bridge, keeps every promise that a scheduler of one process can."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from functools import partial

import pytest

from torchx_core import Runner, get_runner
from torchx_core.testing import SchedulerContract, Step, python_program


class TestTorchXLocalCwd(SchedulerContract):
    """``torchx:local_cwd``: the real package starts real processes."""

    backend = "torchx:local_cwd"
    short_s = 2.0  # a busy host may stop a test for a while

    @pytest.fixture
    def new_runner(self) -> Callable[[], Runner]:
        """All runners of a test share one session, and with it one scheduler of TorchX."""
        return partial(get_runner, f"contract-{uuid.uuid4().hex}")

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Use the Python that runs the tests, without its site packages: it starts in a third of the time."""
        entrypoint, args = python_program(*steps, python=sys.executable)
        return entrypoint, ["-I", "-S", *args]
