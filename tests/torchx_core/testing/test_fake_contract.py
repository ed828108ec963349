"""The fake scheduler keeps every promise that it claims."""

from __future__ import annotations

from functools import partial

import pytest

from torchx_core import Runner
from torchx_core.testing import FakeHost, SchedulerContract, Step


class TestFakeScheduler(SchedulerContract):
    """Steps are the arguments of a fake program."""

    backend = "fake"
    short_s = 1.0  # a busy host may stop a test for a while

    @pytest.fixture
    def new_runner(self) -> partial[Runner]:
        """All runners of a test share one host."""
        return partial(Runner, "contract", {"fake": FakeHost().scheduler})

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Escape what would be a macro."""
        return "fake", [str(step).replace("$", "$$") for step in steps]
