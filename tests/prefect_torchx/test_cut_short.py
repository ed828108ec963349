"""A try that is cancelled before it has found the app of an earlier try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, task

from prefect_torchx import run_app
from prefect_torchx._engine.caller import Caller
from prefect_torchx.app_run import AppRun
from prefect_torchx.order import Order
from torchx_core import AppState, Runner
from torchx_core.specs import AppHandle

pytestmark = pytest.mark.engine


class _OnTheWayError(Exception):
    """Something that says nothing about the app."""


@pytest.mark.usefixtures("prefect_api")
def test_an_interruption_before_the_app_is_looked_for_cancels_it(
    runner: Runner, running: Callable[[], AppHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try leaves the app running; the second is interrupted while it learns who it is."""
    app = app_of("sleep", "600")
    tries: list[int] = []
    learn = Caller.flow_tries

    def interrupted(_caller: Caller) -> Any:
        monkeypatch.setattr(Caller, "flow_tries", learn)
        raise KeyboardInterrupt

    @task(retries=1)
    def job() -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            with AppRun(Order.make(app)) as run:
                run.attach()
            raise _OnTheWayError
        running()
        monkeypatch.setattr(Caller, "flow_tries", interrupted)
        run_app(app)

    @flow
    def pipeline() -> None:
        job()

    with pytest.raises(KeyboardInterrupt):
        pipeline()
    [left] = runner.list("local_cwd")
    status = runner.wait(left.app_handle, timeout_s=60)
    assert status is not None
    assert (len(tries), status.state) == (2, AppState.CANCELLED)
