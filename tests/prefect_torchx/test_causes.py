from __future__ import annotations

import asyncio

import pytest

from prefect_torchx._engine.caller import Caller
from prefect_torchx._engine.causes import Causes


@pytest.mark.parametrize(
    "before", [0, 1], ids=["never cancelled before", "in the clean-up of a cancelled task"]
)
def test_code_that_blocks_its_event_loop_notices_ctrl_c(before: int) -> None:
    """The first one only cancels the asyncio task, which cannot be told while the loop stands still."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task
        for _ in range(before):
            task.cancel()
        with Causes(Caller(), "detach") as causes:
            causes.check()
            task.cancel()
            with pytest.raises(KeyboardInterrupt):
                causes.check()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())


def test_without_an_event_loop_there_is_nothing_to_notice() -> None:
    """As in most flows and tasks."""
    with Causes(Caller(), "detach") as causes:
        causes.check()
