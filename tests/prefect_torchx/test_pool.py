from __future__ import annotations

import asyncio
import signal

import pytest
from prefect.exceptions import TerminationSignal
from prefect.task_runners import ProcessPoolTaskRunner

import prefect_torchx
from prefect_torchx._engine.pool import pass_on_signals, signal_behind


def _cancelled_by(cause: BaseException | None) -> asyncio.CancelledError:
    cancelled = asyncio.CancelledError()
    cancelled.__context__ = cause
    return cancelled


@pytest.mark.parametrize(
    ("exception", "signum"),
    [
        pytest.param(TerminationSignal(signal=signal.SIGTERM), signal.SIGTERM, id="SIGTERM"),
        pytest.param(KeyboardInterrupt(), signal.SIGINT, id="Ctrl-C"),
        pytest.param(
            _cancelled_by(_cancelled_by(TerminationSignal(signal=signal.SIGTERM))),
            signal.SIGTERM,
            id="SIGTERM on an event loop",
        ),
        pytest.param(_cancelled_by(None), signal.SIGINT, id="Ctrl-C on an event loop"),
        pytest.param(ValueError(), None, id="an exception of the flow's"),
        pytest.param(None, None, id="the flow's normal end"),
    ],
)
def test_what_ends_a_flow_tells_which_signal_it_was(
    exception: BaseException | None, signum: signal.Signals | None
) -> None:
    """Only what a signal ended is passed on: Prefect lets a pool's tasks end when their flow has ended."""
    assert signal_behind(exception) == signum


def test_whoever_imports_a_name_of_ours_has_signals_passed_on() -> None:
    """Once, however often that is asked for."""
    assert callable(prefect_torchx.run_app)
    ours = ProcessPoolTaskRunner.cancel_all
    pass_on_signals()
    assert hasattr(ours, "__wrapped__")
    assert ProcessPoolTaskRunner.cancel_all is ours
