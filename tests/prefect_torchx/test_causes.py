from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prefect import flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelling

from prefect_torchx._engine.caller import Caller
from prefect_torchx._engine.causes import Causes
from prefect_torchx._engine.server import ask_briefly


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


@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("prefect_api")
def test_a_signal_without_a_word_is_a_cancel_however_slow_the_server_is_to_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that is too busy to answer Prefect's runner in time gets the signal alone."""
    too_slow, found = iter(range(2)), list[str]()

    def slow(question: Callable[[SyncPrefectClient], Any]) -> Any:
        for _ in too_slow:
            raise httpx.ReadTimeout("too slow")
        return ask_briefly(question)

    @flow
    def pipeline() -> None:
        caller = Caller()
        with Causes(caller, "detach") as causes, get_client({"timeout": 30}, sync_client=True) as client:
            monkeypatch.setattr("prefect_torchx._engine.flow_state.ask_briefly", slow)
            assert caller.flow is not None
            assert caller.flow.flow_run is not None
            client.set_flow_run_state(caller.flow.flow_run.id, Cancelling(), force=True)
            found.append(causes.why_cancel(TerminationSignal(signal.SIGTERM)))

    pipeline(return_state=True)
    assert found == ["cancelled because the Prefect flow run was cancelled"]
