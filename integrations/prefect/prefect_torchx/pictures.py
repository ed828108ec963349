"""What people see of an app beside its log: a table, progress, curves, links, its result, why it failed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from time import monotonic, time
from typing import Final, final

from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event

from prefect_torchx.api import Api
from prefect_torchx.artifacts import Artifacts, Drawn
from torchx_core.display.curves import Curves, data_uri
from torchx_core.display.masking import Mask, mask_status
from torchx_core.display.post_mortem import post_mortem
from torchx_core.display.replicas import ReplicaTable
from torchx_core.display.services import find_services, linked_page
from torchx_core.display.tails import Tails
from torchx_core.display.text import cut
from torchx_core.schedulers import AppEvent, Link, Metric, Progress, ReplicaChanged, StateChanged
from torchx_core.specs import AppDef, AppHandle, AppState, AppStatus
from torchx_core.specs.handles import parse_app_handle

__all__ = ["Pictures", "find_links", "run_ids"]

DRAW_EVERY_S = 10.0
"""At most so often, and at the end."""
DRAW_SHARE = 0.01
"""The longer an app has run, the less often: Prefect keeps an event of each time, with what was drawn."""
TRY_AGAIN_S = 2.0
FIRST_WAIT_S = 0.5
"""How long the first picture waits, so that what starts together is drawn together."""
MAX_RESULT_CHARS = 50_000
MAX_LINKS = 100
"""What the app links to itself, of so many."""


@final
class Pictures:
    """Gathers what there is to see, and draws it when it is due; nothing outside of a run.

    `write` is called by who follows the app, `draw` by the log shipper's thread.
    """

    def __init__(self, app: AppDef, tails: Tails, mask: Mask, clock: Callable[[], float] = monotonic) -> None:
        """Look at Prefect's context; draw nothing yet."""
        flow_run_id, task_run_id = run_ids()
        self._on = bool(flow_run_id or task_run_id)
        self._app = app
        self._tails = tails
        self._mask = mask
        self._clock = clock
        self._begun = clock()
        self._artifacts: Final = Artifacts(_slug(app.name), flow_run_id, task_run_id)
        self._announcements: Final = Announcements(app, flow_run_id, task_run_id, tails, mask)
        self._lock: Final = threading.Lock()
        """Guards what follows."""
        self._replicas: Final = ReplicaTable(app)
        self._curves: Final = Curves()
        self._progress: dict[tuple[str, int], Progress] = {}
        self._links: dict[tuple[str, int, str], Link] = {}
        self._announcements_due: list[Callable[[], None]] = []
        self._handle: AppHandle = ""
        self._status: AppStatus | None = None
        self._changed = False
        self._draw_at = float("inf")
        self._drawn_at = float("-inf")
        self._due = float("inf")
        self._drawing = False

    @property
    def settled(self) -> bool:
        """Whether everything taken so far has been announced and written, as far as it ever will be."""
        return self._due == float("inf") and not self._drawing

    def due(self) -> float:
        """Return when `draw` is to be called, by the clock; infinity while there is nothing new."""
        return self._due

    def submitted(self, handle: AppHandle, *, again: bool) -> None:
        """Learn which app it is; announce it unless an earlier try has."""
        with self._lock:
            self._handle = handle
            self._note_change()
            if not again:
                self._announce(partial(self._announcements.submitted, handle, time()))

    def write(self, event: AppEvent) -> None:
        """Take an event."""
        with self._lock:
            match event:
                case ReplicaChanged():
                    self._replicas.take(event)
                case StateChanged():
                    self._announce(partial(self._announcements.changed, self._handle, event))
                case Progress():
                    self._progress[event.role, event.replica] = event
                case Metric():
                    self._curves.take(event)
                case Link():
                    self._links[event.role, event.replica, event.name] = event
                case _:
                    return
            self._note_change()

    def locate(self, status: AppStatus) -> None:
        """Learn where the replicas are, while they run."""
        with self._lock:
            self._status = status
            self._note_change()

    def close(self, status: AppStatus | None) -> None:
        """Draw at once what is not drawn yet; None when the app goes on without us."""
        with self._lock:
            if status is not None:
                self._status = status
                self._replicas.complete(status)
                self._note_change()
            if self._changed:
                self._draw_at = self._due = self._clock()

    def stop(self) -> None:
        """Draw and announce nothing more."""
        with self._lock:
            self._on = self._changed = self._drawing = False
            self._due = self._draw_at = float("inf")

    def draw(self, api: Api) -> bool:
        """Announce and write what is new; return whether Prefect's API has taken all of it."""
        with self._lock:
            self._drawing = True
            announcements, self._announcements_due = self._announcements_due, []
            drawn = dict(self._draw_all()) if self._clock() >= self._draw_at else {}
            if drawn:
                self._changed, self._drawn_at, self._draw_at = False, self._clock(), float("inf")
            self._due = self._draw_at
        for announce in announcements:
            announce()
        written = [self._artifacts.write(api, kind, picture) for kind, picture in drawn.items()]
        with self._lock:
            self._drawing = False
            if not all(written):
                self._changed = True
                self._draw_at = self._clock() + TRY_AGAIN_S
                self._due = min(self._due, self._draw_at)
        return all(written)

    def _announce(self, announcement: Callable[[], None]) -> None:
        if self._on:
            self._announcements_due.append(announcement)
            self._due = min(self._due, self._clock())

    def _note_change(self) -> None:
        if not self._on or self._changed:
            return
        now = self._clock()
        pause_s = max(DRAW_EVERY_S, (now - self._begun) * DRAW_SHARE)
        self._changed = True
        self._draw_at = max(now + FIRST_WAIT_S, self._drawn_at + pause_s)
        self._due = min(self._due, self._draw_at)

    def _draw_all(self) -> Iterator[tuple[str, Drawn]]:
        about = f"`{self._handle}`: {self._replicas.summary()}"
        rows = self._replicas.rows(time())
        page = f"{about}\n\nIts page, where the app is seen: `torchx-core page {self._handle}`"
        yield "replicas", Drawn(type="table", data=self._mask(json.dumps(rows)), description=page)
        if self._progress:
            yield "progress", self._draw_progress()
        if self._curves:
            yield "metrics", self._draw_curves()
        status = self._status
        if links := [*self._draw_services(), *self._draw_links()]:
            yield "links", Drawn(type="markdown", data="\n".join(links), description=about)
        if status is None:
            return
        if status.result is not None:
            yield "result", self._draw_result(status.result)
        if status.is_terminal() and status.state is not AppState.SUCCEEDED:
            report = self._mask(post_mortem(status, self._handle, self._tails))
            yield "post-mortem", Drawn(type="markdown", data=report, description=about)

    def _draw_progress(self) -> Drawn:
        """Draw how far the slowest replica is: the app is not further."""
        slowest = min(self._progress.values(), key=lambda progress: progress.fraction)
        text = self._mask(f"{slowest.role}/{slowest.replica}: {slowest.message}")
        percent = min(100.0, max(0.0, slowest.fraction * 100))
        return Drawn(type="progress", data=percent, description=text)

    def _draw_curves(self) -> Drawn:
        """Draw in Markdown: below an image, Prefect's page prints its address, which here is all of it."""
        pictures = [f"![{_plain(name)}]({data_uri(svg)})" for name, svg in self._curves.pictures().items()]
        rows = [f"| {_plain(name)} | {who} | {x:g} | {y:g} |" for name, who, x, y in self._curves.latest()]
        table = ["| metric | replica | step | latest value |", "|---|---|---|---|", *rows]
        return Drawn(type="markdown", data="\n\n".join([*pictures, "\n".join(table)]))

    def _draw_services(self) -> Iterator[str]:
        links = find_links(self._app, self._status) if self._status is not None else {}
        yield from (f"- {name}: [{url}]({url})" for name, url in links.items())

    def _draw_links(self) -> Iterator[str]:
        """Draw what the app links to itself; what no browser can open as text."""
        for link in list(self._links.values())[:MAX_LINKS]:
            name = f"{_plain(link.name)} of {_plain(link.role)}/{link.replica}"
            page = linked_page(link)
            yield self._mask(f"- {name}: [{page}]({page})" if page else f"- {name}: {_plain(link.target)}")

    def _draw_result(self, result: object) -> Drawn:
        text = cut(json.dumps(result, indent=2, default=str), MAX_RESULT_CHARS)
        return Drawn(type="markdown", data=self._mask(f"```json\n{text}\n```"))


def _plain(name: str) -> str:
    """Return the name without what means something in Markdown."""
    return re.sub(r"[^\w\s./:%-]", " ", " ".join(name.split()))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "app"


def find_links(app: AppDef, status: AppStatus) -> dict[str, str]:
    """Return names and addresses: each port of a ``port_map`` at its role's first replica."""
    services = {name: url for name, url in find_services(app, status).items() if url}
    return {"app": status.ui_url, **services} if status.ui_url else services


def run_ids() -> tuple[str, str]:
    """Return the ids of the flow run and the task run; empty where there is none."""
    flow, task = FlowRunContext.get(), TaskRunContext.get()
    flow_run_id = flow.flow_run.id if flow and flow.flow_run else task.task_run.flow_run_id if task else None
    return str(flow_run_id or ""), str(task.task_run.id if task else "")


@final
class Announcements:
    """Emits events whose resource is the app; Prefect adds the run and its deployment as related."""

    def __init__(self, app: AppDef, flow_run_id: str, task_run_id: str, tails: Tails, mask: Mask) -> None:
        """Emit nothing yet.

        Args:
            app: What runs.
            flow_run_id: In which flow run; empty without one.
            task_run_id: In which task run; empty without one.
            tails: Knows what each replica printed last.
            mask: Hides secrets.
        """
        self._app = app
        self._tails = tails
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
            reason = mask_status(self._tails.explain(event.status), self._mask).failure_summary()
            payload |= {"reason": reason, "failed_replicas": failed}
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
