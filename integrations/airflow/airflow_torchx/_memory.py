"""Where the record is kept: in Airflow's task state store, or, without one, in the scheduler's apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from typing_extensions import override

from airflow_torchx._engine import TaskStateStore
from airflow_torchx._record import Memory, Record
from airflow_torchx._tries import TaskTry, make_app_id
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppState, make_app_handle

__all__ = ["ProbingMemory", "StoreMemory"]

KEY = "torchx"


@final
class StoreMemory(Memory):
    """Keeps the record in the task state store: it survives retries and clears, and ends with its run."""

    def __init__(self, store: TaskStateStore) -> None:
        self._store = store

    @override
    def salt(self, this_try: TaskTry) -> str:
        """Return the try's own id: a deleted and re-created run has no record, and must not meet old apps."""
        return this_try.ti_id

    @override
    def load(self) -> Record | None:
        stored = self._store.get(KEY)
        if not isinstance(stored, Mapping):
            return None
        return Record.from_json(stored, f"task state store, key {KEY!r}")

    @override
    def save(self, record: Record) -> None:
        self._store.set(KEY, dict(record.to_json()))


@final
class ProbingMemory(Memory):
    """Finds the record's app by trying the ids that it can have; for Airflow below 3.3.

    The cursor is not kept, so a retry shows the log from its start. A run that was deleted and made again
    under the same name meets the apps of the first one.
    """

    def __init__(self, runner: Runner, scheduler: str, this_try: TaskTry, lease_s: float | None) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._try = this_try
        self._lease_s = lease_s

    @override
    def salt(self, this_try: TaskTry) -> str:
        """Return nothing: the ids must follow from the task instance alone."""
        return ""

    @override
    def load(self) -> Record | None:
        """Return the latest app of the latest generation that has one."""
        for generation in range(self._try.generation, -1, -1):
            latest = self._latest(generation)
            if latest is not None:
                return latest
        return None

    @override
    def save(self, record: Record) -> None:
        """Do nothing: the app, once submitted, is the record."""

    def _latest(self, generation: int) -> Record | None:
        """Return the last attempt's app; those before it may have been deleted."""
        for attempt in reversed(range(self._try.number)):
            app_id = make_app_id(self._try.at(generation), salt="", attempt=attempt)
            handle = make_app_handle(self._scheduler, self._runner.name, app_id)
            status = self._runner.status(handle)
            if status is not None:
                return self._record(handle, generation, attempt, status.state)
        return None

    def _record(self, handle: AppHandle, generation: int, attempt: int, state: AppState) -> Record:
        return Record(
            handle=handle,
            generation=generation,
            attempt=attempt,
            try_number=self._try.number,
            salt="",
            submitted=state is not AppState.SUBMITTED,  # its submitter may have died on the way
            cursor=None,
            lease_s=self._lease_s,
            deadline=None,
        )
