"""What a retry makes of apps some of which have been deleted."""

from __future__ import annotations

import pytest
from flow_tries import Flow, Leave, leave

from torchx_core.specs import AppState


def test_a_retry_finds_the_running_attempt_though_the_failed_one_was_deleted() -> None:
    """Pruning deletes what has ended, which leaves a gap before what runs."""
    flow = Flow("exit:3")
    flow.attachment().run()
    flow.request.app.app.roles[0].args = ["hold"]
    second, third = (flow.attachment(task_try=number, check=leave) for number in (2, 3))
    with pytest.raises(Leave):
        second.run()
    assert len(flow.runner.prune("fake", max_count=0)) == 1
    with pytest.raises(Leave):
        third.run()
    assert (third.handle, flow.states) == (second.handle, [AppState.RUNNING])


def test_a_retry_counts_on_from_the_latest_attempt_though_others_were_deleted() -> None:
    """An app that was deleted leaves its id to nobody while a later attempt is there."""
    flow = Flow("exit:3")
    first, second, third = (flow.attachment(task_try=number) for number in (1, 2, 3))
    first.run()
    second.run()
    flow.runner.delete(str(first.handle))
    third.run()
    assert third.handle == f"{first.handle}-3"


def test_a_retry_finds_its_running_app_though_that_of_an_equal_call_was_deleted() -> None:
    """The call that succeeded is not made again; the other one does not take its place."""
    flow = Flow("exit:0")
    flow.attachment(task="done").run()
    flow.request.app.app.roles[0].args = ["hold"]
    before, after = (flow.attachment(task_try=number, check=leave) for number in (1, 2))
    with pytest.raises(Leave):
        before.run()
    assert len(flow.runner.prune("fake", max_count=0)) == 1
    with pytest.raises(Leave):
        after.run()
    assert (after.handle, flow.states) == (before.handle, [AppState.RUNNING])


def test_a_first_try_does_not_ask_for_the_list_of_all_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tasks that begin together must not each read a thousand apps."""
    flow = Flow("exit:0")

    def refuse(_scheduler: str) -> None:
        raise AssertionError("it asked")

    monkeypatch.setattr(flow.runner, "list", refuse)
    assert flow.attachment().run().state is AppState.SUCCEEDED
