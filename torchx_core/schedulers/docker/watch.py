"""Keeps an eye on one app: looks when it is told to, does what is due, fetches reports, renews the lease.

Looking and fetching never wait for the engine. What is due (stopping a gang, starting replicas again, writing
down the end) is rare and takes a few requests that do wait: `act`, called by whoever waits anyway.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from os import urandom
from typing import Final, TypeVar, cast

from torchx_core.errors import SchedulerError, UnknownAppException
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.decide import Decision, Halt, decide
from torchx_core.schedulers.docker.exchange import Exchange
from torchx_core.schedulers.docker.polling import lease_renewal, look, reports
from torchx_core.schedulers.docker.reconcile import carry_out
from torchx_core.schedulers.docker.records import AppRecord
from torchx_core.schedulers.docker.request_chain import Questions, RequestChain
from torchx_core.schedulers.docker.sdk import unreachable
from torchx_core.schedulers.docker.view import AppView, Phase
from torchx_core.schedulers.docker.volume_state import report_files

__all__ = ["Watch"]

T = TypeVar("T")

logger: Final = logging.getLogger(__name__)

_AWAY_S = 300.0
"""How long the engine may be away before whoever follows is told."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0
_OVERDUE_S = 1.0
"""How long what is due may wait for a pause in what there is to tell."""
_FIRST_AGAIN_S, _AGAIN_GROWTH = 0.1, 1.5
"""After an event: how soon to look once more, and how many times as long to wait each time after that."""
_SOON_S = 1.0
"""How often to look although nothing rang, while something is due to happen by time."""
_IDLE_LOOK_S = 300.0
_REPORTS_S, _IDLE_REPORTS_S = 1.0, 30.0
"""How often to fetch reports: nothing rings when a program writes one. Longer while none come."""
_RENEWALS_PER_LEASE = 4


class Watch:
    """What is known of the app, and what is being asked."""

    def __init__(self, engine: Engine, app: AppRecord, app_handle: str, *, renew: bool = True) -> None:
        """Know nothing yet.

        Args:
            engine: Where the app is.
            app: Its record.
            app_handle: Its name.
            renew: Whether its lease is renewed.
        """
        self._lease_s = cast("float | None", app.cfg.get("lease_s")) if renew else None
        self._engine = engine
        self._app = app
        self._handle = app_handle
        self._look: RequestChain[AppView | None] | None = None
        self._fetch: RequestChain[bytes] | None = None
        self._renewal: RequestChain[bool] | None = None
        self._look_at = self._fetch_at = self._renew_at = 0.0
        self.renewals: int = 0
        """How often the lease has been renewed."""
        self._pause_s = _FIRST_PAUSE_S
        self._fetch_pause_s = _REPORTS_S
        self._away_since: float | None = None
        self._looks = self._fetched_look = self._fetching_look = 0
        self._ended_look = 1
        self._ends: int = 0
        self._due_since = 0.0
        self._halting_since: float | None = None
        self._again_s = _IDLE_LOOK_S
        self.due: Decision | None = None
        """What is to be done; `act` does it."""
        self.view: AppView | None = None
        """How the app stood at the last look."""
        self.reports: dict[tuple[int, int], list[bytes]] = {}
        """Lines of the report files, by replica's index and attempt, as fetched last."""

    @property
    def reports_complete(self) -> bool:
        """Whether `reports` has everything of the attempts that have ended as far as `view` tells."""
        return self._fetched_look >= self._ended_look

    @property
    def exchanges(self) -> Iterator[Exchange]:
        """What may be waited for."""
        for request_chain in (self._look, self._fetch, self._renewal):
            if request_chain is not None:
                yield from request_chain.exchanges

    @property
    def due_at(self) -> float:
        """When to `advance` although nothing is ready, in monotonic seconds; perhaps never."""
        over = self.view is not None and self.view.over
        times = [self._look_at] if self._look is None and not over else []
        if self.view is not None and self._fetch is None:
            times.append(self._fetch_at)
        if self._lease_s and self._renewal is None:
            times.append(self._renew_at)
        return min(times, default=float("inf"))

    def ring(self) -> None:
        """Look now, and again, less and less often.

        An engine says that a container died before it lists it so, and when it has much to do that takes it a
        while (seen on 20.10.24). Of what has ended while the engine was away it may never say so.
        """
        if self._away_since is None:
            self._look_at, self._again_s = 0.0, _FIRST_AGAIN_S

    def heard(self) -> None:
        """Take note that the app prints: it may well report, too."""
        self._fetch_pause_s = _REPORTS_S
        self._fetch_at = min(self._fetch_at, time.monotonic() + _REPORTS_S)

    def advance(self, now: float) -> bool:
        """Carry on with everything; return whether there is a new view.

        Raises:
            UnknownAppException: The app was deleted.
            SchedulerError: The engine has been away for too long, or says no.
        """
        if self.due is not None and now - self._due_since > _OVERDUE_S:
            self.act()
        self._advance_renewal(now)
        self._advance_fetch(now)
        return self._advance_look(now)

    def close(self) -> None:
        """Let go of the connections."""
        for request_chain in (self._look, self._fetch, self._renewal):
            if request_chain is not None:
                request_chain.close()
        self._look = self._fetch = self._renewal = None

    # --- looking

    def _advance_look(self, now: float) -> bool:
        if self._look is None:
            if now < self._look_at or self.due is not None or (self.view is not None and self.view.over):
                return False
            self._look_at = float("inf")  # unless somebody rings meanwhile
            self._look = self._ask(
                look(
                    self._app.key,
                    self._app.nonce,
                    None if self.view is None else self.view.volume_state,
                ),
                now,
            )
        self._look.advance(now)
        if self._look.failure is not None:
            self._away(self._look.failure, now)
            self._look = None
        elif self._look.done:
            view, self._look = self._look.result, None
            if view is None:
                raise UnknownAppException(self._handle)
            self._adopt(view, now)
            return True
        return False

    def _adopt(self, view: AppView, now: float) -> None:
        if self._away_since is not None:
            self._away_since, self._again_s = None, _FIRST_AGAIN_S
        self.due = decide(view, time.time())
        self._due_since = now
        if not isinstance(self.due, Halt):
            self._halting_since, self._pause_s = None, _FIRST_PAUSE_S
        if self._look_at > now:  # else it was rung meanwhile, and the next look is the first
            self._look_at = min(self._look_at, now + self._patience(view))
        self._looks += 1
        had_all = self.view is not None and self.view.volume_state.reports is not None
        self.view = view
        ends = sum(a.ended_at is not None for r in view.replicas for a in r.attempts)
        if view.volume_state.reports is not None:
            self._adopt_reports(view.volume_state.reports)
        elif ends != self._ends or (view.over and not had_all):
            self._ended_look = self._looks
            self._fetch_at = 0.0
        self._ends = ends

    def _adopt_reports(self, archive: bytes) -> None:
        """Take what the look has brought, instead of fetching it."""
        if self._fetch is not None:
            self._fetch.close()
            self._fetch = None
        self.reports = report_files(archive)
        self._fetched_look = self._ended_look = self._looks
        self._fetch_at = float("inf")

    def _patience(self, view: AppView) -> float:
        """Return after how long to look although nothing rang."""
        again_s, self._again_s = self._again_s, min(_AGAIN_GROWTH * self._again_s, _IDLE_LOOK_S)
        return min(again_s, _FIRST_AGAIN_S if _is_ending(view) else _patience(view))

    def act(self) -> None:
        """Do what is due, and look again; waits for the engine. May be called from another thread."""
        view, due, self.due = self.view, self.due, None
        if view is None or due is None:
            return
        self._look_at = 0.0
        try:
            carry_out(self._engine, view, due)
        except SchedulerError as err:
            self._away(err, time.monotonic())
        else:
            if isinstance(due, Halt):
                self._halted(due, time.monotonic())

    def _halted(self, halt: Halt, now: float) -> None:
        """Leave the engine its time to kill; one that was started again may be unable to (seen on 28.5.2).

        Raises:
            SchedulerError: It has had enough of it.
        """
        if self._halting_since is None:
            self._halting_since = now
        elif now - self._halting_since > _AWAY_S:
            names = ", ".join(replica.planned.container for replica in halt.replicas)
            raise SchedulerError(f"the engine cannot kill {names}; restart the engine", retryable=True)
        self._pause(now)

    def _away(self, err: Exception, now: float) -> None:
        if self._away_since is None:
            logger.info("app %s: the engine does not answer: %s", self._app.app_id, err)
            self._away_since = now
        elif now - self._away_since > _AWAY_S:
            if isinstance(err, SchedulerError):
                raise err
            raise unreachable(self._engine.endpoint, err) from err
        self._pause(now)

    def _pause(self, now: float) -> None:
        self._look_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)

    # --- reports

    def _advance_fetch(self, now: float) -> None:
        if self._fetch is None:
            if self.view is None or now < self._fetch_at:
                return
            self._fetching_look = self._looks
            self._fetch = self._ask(reports(self._containers(self.view)), now)
        self._fetch.advance(now)
        if self._fetch.failure is not None:
            self._fetch, self._fetch_at = None, now + _REPORTS_S
        elif self._fetch.done:
            found, self._fetch = report_files(self._fetch.result), None
            self._fetch_pause_s = _REPORTS_S if found != self.reports else 2 * self._fetch_pause_s
            self._fetch_pause_s = min(self._fetch_pause_s, _IDLE_REPORTS_S)
            self.reports, self._fetched_look = found, self._fetching_look
            up = self.view is not None and bool(self.view.in_phase(Phase.UP))
            done = self._fetched_look >= self._ended_look
            self._fetch_at = (now + self._fetch_pause_s if up else float("inf")) if done else 0.0

    # --- the lease

    def _advance_renewal(self, now: float) -> None:
        if not self._lease_s or self.view is None or self.view.over:
            return
        if self._renewal is None:
            if now < self._renew_at:
                return
            container = next(iter(self._containers(self.view)))
            self._renewal = self._ask(lease_renewal(container, f"{urandom(8).hex()}\n"), now)
        self._renewal.advance(now)
        if self._renewal.failure is not None or self._renewal.done:
            renewed = self._renewal.done and self._renewal.result
            self.renewals += bool(renewed)
            self._renewal = None
            later = self._lease_s / _RENEWALS_PER_LEASE
            self._renew_at = now + (later if renewed else min(_SOON_S, later / 2))

    def _containers(self, view: AppView) -> list[str]:
        """Return what the app's volume can be reached by, those that run first."""
        rows = sorted(view.replicas, key=lambda r: r.phase is not Phase.UP)
        return [r.container or r.planned.container for r in rows]

    def _ask(self, questions: Questions[T], now: float) -> RequestChain[T]:
        return RequestChain(self._engine.endpoint, self._engine.api.api_version, questions, now)


def _is_ending(view: AppView) -> bool:
    """Return whether a replica's program has ended, and its container is about to."""
    return any(r.last is not None and r.last.code is not None for r in view.in_phase(Phase.UP))


def _patience(view: AppView) -> float:
    """Return after how long to look although nothing rang."""
    if view.over:
        return float("inf")
    cfg = view.app.cfg
    timed = cfg.get("deadline") or cfg.get("timeout_s")
    settled = view.records.begun_at is not None and view.records.stop is None
    waiting = view.in_phase(Phase.CREATED, Phase.AGAIN, Phase.DOWN, Phase.ABSENT)
    if settled and not waiting and not timed:
        return _IDLE_LOOK_S
    return _SOON_S if not settled or view.records.restarts or waiting else 5 * _SOON_S
