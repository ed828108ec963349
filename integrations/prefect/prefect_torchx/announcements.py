"""Prefect events about an app, for automations: submitted, each state, failed."""

from __future__ import annotations

from contextvars import copy_context
from datetime import UTC, datetime
from typing import Final, final

from prefect.events import emit_event

from prefect_torchx.masking import Mask
from torchx_core.schedulers import StateChanged
from torchx_core.specs import AppDef, AppHandle, AppState
from torchx_core.specs.handles import parse_app_handle

__all__ = ["Announcements"]


@final
class Announcements:
    """Emits events whose resource is the app; Prefect adds the run and its deployment as related."""

    def __init__(self, app: AppDef, flow_run_id: str, task_run_id: str, mask: Mask) -> None:
        """Emit nothing yet.

        Args:
            app: What runs.
            flow_run_id: In which flow run; empty without one.
            task_run_id: In which task run; empty without one.
            mask: Hides secrets.
        """
        self._app = app
        self._mask = mask
        runs = {"flow-run": flow_run_id, "task-run": task_run_id}
        self._related = [
            {"prefect.resource.id": f"prefect.{role}.{run}", "prefect.resource.role": role}
            for role, run in runs.items()
            if run
        ]
        self._context: Final = copy_context()

    def submitted(self, handle: AppHandle, time: float) -> None:
        """Say that the app exists."""
        self._emit("submitted", handle, time, {})

    def changed(self, handle: AppHandle, event: StateChanged) -> None:
        """Say that the app has another state; of a failure also why."""
        payload: dict[str, object] = {"state": str(event.state), "message": self._mask(event.msg)}
        if event.status is not None and event.state is not AppState.SUCCEEDED:
            failed = [f"{replica.role}/{replica.id}" for replica in event.status.failed_replicas()]
            payload |= {"reason": self._mask(event.status.failure_summary()), "failed_replicas": failed}
        self._emit(event.state.name.lower(), handle, event.time, payload)

    def _emit(self, what: str, handle: AppHandle, time: float, payload: dict[str, object]) -> None:
        parsed = parse_app_handle(handle)
        self._context.copy().run(
            emit_event,
            event=f"torchx.app.{what}",
            resource={
                "prefect.resource.id": f"torchx.app.{parsed.app_id}",
                "prefect.resource.name": self._app.name,
                "torchx.handle": handle,
                "torchx.scheduler": parsed.scheduler_backend,
            },
            occurred=datetime.fromtimestamp(time, UTC),
            related=self._related,
            payload=payload,
        )
