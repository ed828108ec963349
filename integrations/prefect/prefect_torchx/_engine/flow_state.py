"""Watches the state of a flow run on Prefect's server: the detector of last resort, which works everywhere.

Public API only. A cancel that no signal tells about, because the run's process has no supervisor any more or
is a child of a task runner, is seen within `LOOK_EVERY_S` and the time of a request.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from typing import Final, final

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State

from prefect_torchx import background
from prefect_torchx._engine.caller import ancestors
from prefect_torchx._engine.server import ask_briefly, kept_connection
from prefect_torchx.own import Shared

__all__ = ["FlowRunWatch", "watches"]

LOOK_EVERY_S = 1.0
"""How often the server is asked; once for all calls of a process in one flow run."""
LOOK_AGAIN_S = 10.0
"""How soon the server is asked again when it did not answer."""

logger = logging.getLogger(__name__)


@final
class FlowRunWatch:
    """Knows the state of one flow run and of its parents; see `watches`."""

    def __init__(self, flow_run_id: str) -> None:
        """Ask nobody yet."""
        self._flow_run_id: Final = flow_run_id
        self._line: list[uuid.UUID] = []
        self._is_supervised = True
        self._states: list[State] = []
        self._over = threading.Event()

    def begin(self) -> None:
        """Ask again and again, in a thread."""
        background.start("torchx-state", self._run, self.end)

    def end(self) -> None:
        """Ask no more."""
        self._over.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether the flow run, or one that it is part of, was to be cancelled when last looked at."""
        return any(state.is_cancelling() or state.is_cancelled() for state in self._states)

    @property
    def will_run_again(self) -> bool:
        """Whether one waited for its next start: rescheduled, awaiting a retry, paused or suspended."""
        return any(state.is_scheduled() or state.is_paused() for state in self._states)

    @property
    def is_supervised(self) -> bool:
        """Whether somebody outside started its process, as far as is known; nobody did so with a script."""
        return self._is_supervised

    def look(self) -> bool:
        """Ask the server now; return whether it answered."""
        try:
            self._states = [state for run in ask_briefly(self._read) if (state := run.state)]
        except Exception as err:  # noqa: BLE001  (whatever it is, the app must not suffer from it)
            logger.warning("cannot read the state of flow run %s: %r", self._flow_run_id, err)
            return False
        return True

    def _read(self, client: SyncPrefectClient) -> list[FlowRun]:
        """Read the flow run and those that it is part of; which ones these are is asked once."""
        if self._line:
            return [client.read_flow_run(flow_run_id) for flow_run_id in self._line]
        own = client.read_flow_run(uuid.UUID(self._flow_run_id))
        found = [own, *ancestors(client, own)]
        self._line = [flow_run.id for flow_run in found]
        root = found[-1]
        self._is_supervised = bool(root.deployment_id or root.work_queue_id or root.infrastructure_pid)
        return found

    def _run(self) -> None:
        pause_s = LOOK_EVERY_S
        with kept_connection():
            # A tenth more or less: a thousand runs that began together must not ask together.
            while not self._over.wait(pause_s * random.uniform(0.9, 1.1)):  # noqa: S311  (no secret)
                pause_s = LOOK_EVERY_S if self.look() else LOOK_AGAIN_S


def _begun(flow_run_id: str) -> FlowRunWatch:
    watch = FlowRunWatch(flow_run_id)
    watch.begin()
    return watch


watches: Final = Shared(_begun, FlowRunWatch.end)
"""Of the flow runs that calls in this process are made in: one for all calls, as long as there is one."""
