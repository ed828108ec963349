"""Puts down the request that an app ends, and has the engine serve it."""

from __future__ import annotations

import time

from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.reconcile import end, reconcile
from torchx_core.schedulers.docker.records import Stop
from torchx_core.schedulers.docker.view import Phase
from torchx_core.specs import AppState

__all__ = ["ask_to_end"]


def ask_to_end(
    engine: Engine, session: str, app_id: str, *, grace_s: float | None, reason: str, if_owner: str | None
) -> CancelOutcome:
    """Write the request, so that it outlives everybody, and stop what runs; the first request counts.

    The owner is looked at before: whoever takes the app over within that moment finds it cancelled.
    """
    view = reconcile(engine, session, app_id)
    if view is None:
        return CancelOutcome.UNKNOWN_APP
    if if_owner is not None and view.records.owner != if_owner:
        return CancelOutcome.NOT_OWNER
    if view.over:
        return CancelOutcome.ALREADY_TERMINAL
    first = view.records.stop
    default_s = view.app.grace_s if first is None else first.grace_s
    stop = Stop(
        outcome=AppState.CANCELLED.name,
        msg=reason or "cancelled",
        grace_s=default_s if grace_s is None else grace_s,
        time=time.time(),
    )
    end(engine, view, stop)
    if not view.in_phase(Phase.UP, Phase.AGAIN):
        reconcile(engine, session, app_id)  # nothing runs: it has ended
    return CancelOutcome.REQUESTED
