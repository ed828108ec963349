"""Everything that a scheduler promises holds when it is asked over a line; see `near_agent`."""

from __future__ import annotations

from functools import partial

import pytest
from near_agent import NearNode

from torchx_core import Runner
from torchx_core.testing import SchedulerContract, Step


class TestNearAgent(SchedulerContract):
    """The fake scheduler, behind the real client and the real agent."""

    backend = "slurm"
    short_s = 1.0  # a busy host may stop a test for a while

    @pytest.fixture
    def new_runner(self) -> partial[Runner]:
        """All runners of a test reach one agent."""
        return partial(Runner, "contract", {"slurm": NearNode().scheduler})

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Escape what would be a macro."""
        return "fake", [str(step).replace("$", "$$") for step in steps]
