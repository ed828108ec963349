"""Finds which apps there are of a piece of work. Knows no Prefect."""

from __future__ import annotations

from itertools import count
from typing import final

from prefect_torchx.naming import Work
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppState, AppStatus, make_app_handle

__all__ = ["Attempts", "has_failed"]


@final
class Attempts:
    """The apps of one piece of work, by slot and attempt, as its scheduler has them.

    Any of them but those that run may have been deleted, the failed first attempt of a slot above all. So a
    slot without an app, or whose last app has failed, is looked at once more in the list of all apps: that
    costs more, and is rarely needed.
    """

    def __init__(self, runner: Runner, scheduler: str, work: Work, *, has_gaps: bool) -> None:
        """Look at nothing yet.

        Args:
            runner: Of the session.
            scheduler: Where the apps are.
            work: What they are to do.
            has_gaps: Whether there may be apps of before, and some of them deleted.
        """
        self._runner = runner
        self._scheduler = scheduler
        self._work = work
        self._listed: dict[int, int] | None = None if has_gaps else {}

    def handle(self, slot: int, attempt: int) -> AppHandle:
        """Return the handle that the app has, or would have."""
        app_id = self._work.app_id(slot=slot, attempt=attempt)
        return make_app_handle(self._scheduler, self._runner.name, app_id)

    def latest(self, slot: int) -> tuple[int, AppStatus | None]:
        """Return the slot's last attempt and its status; None when there is none."""
        attempt, status = self._last_in_a_row(slot, 0)
        if status is None or has_failed(status):
            listed = self._latest_listed().get(slot, attempt)
            if listed > attempt:
                return self._last_in_a_row(slot, listed)
        return attempt, status

    def slots_after(self, slot: int) -> list[int]:
        """Return the higher slots that have apps of before."""
        return [each for each in self._latest_listed() if each > slot]

    def _last_in_a_row(self, slot: int, first: int) -> tuple[int, AppStatus | None]:
        latest = None
        for attempt in count(first):
            status = self._runner.status(self.handle(slot, attempt))
            if status is None:
                return attempt - 1, latest
            latest = status
        raise AssertionError("count() never ends")

    def _latest_listed(self) -> dict[int, int]:
        if self._listed is None:
            apps = self._runner.list(self._scheduler, begins=self._work.beginning)
            self._listed = self._work.latest_attempts(app.app_id for app in apps)
        return self._listed


def has_failed(status: AppStatus) -> bool:
    """Return whether the app has ended otherwise than well."""
    return status.is_terminal() and status.state is not AppState.SUCCEEDED
