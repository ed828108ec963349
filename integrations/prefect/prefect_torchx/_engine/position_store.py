"""Keeps positions on Prefect's server, beside the log that they are about.

Each app that a run has to do with gets an artifact of type ``result`` without a key, which no page of Prefect
shows. It is written before the app is submitted, so it also tells which apps there may be of a flow run. How
far their logs are stands in one more such artifact for each process: a single request saves it for all apps.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from socket import gethostname
from typing import Any, NamedTuple, final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterTaskRunId,
    ArtifactFilterType,
)
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort

from prefect_torchx._engine.ledger import TYPE, VERSION, Entry, ask, is_ours, latest_entries, ledger_of
from prefect_torchx._engine.server import pages
from prefect_torchx._engine.shown import log_of, shown_after
from prefect_torchx.position import START, NotedApp, Position
from torchx_core.specs import AppHandle

__all__ = ["ServerPositionStore", "apps_of_flow_run"]

_KIND = "torchx app"


@final
class ServerPositionStore:
    """Keeps how far one run's log has got with apps; says so in the log when it cannot."""

    def __init__(
        self,
        flow_run_id: str,
        task_run_id: str,
        root: str = "",
        *,
        holder: str = "",
        has_hidden: bool = False,
        limit_bytes: int | None = None,
    ) -> None:
        """Keep for the flow run, or for a task run without one; both empty: for nobody.

        Args:
            flow_run_id: Whose log it is.
            task_run_id: The same, without a flow run.
            root: The flow run that the other is part of, and that the app belongs to; empty for the same.
            holder: The owner token of the call whose apps are written down.
            has_hidden: Whether apps have secrets that only this process knows: whoever reaps them is told.
            limit_bytes: How much of an app's output the log shows; None for all.
        """
        self.run = flow_run_id or task_run_id
        self._belongs_to = UUID(root or flow_run_id) if flow_run_id else None
        self._ledger = ledger_of(self.run, self._belongs_to)
        self._about = {
            "run": self.run,
            "hidden": has_hidden,
            "limit_bytes": limit_bytes,
            "host": gethostname(),
            "holder": holder,
        }
        self._ids: dict[AppHandle, UUID] = {}
        self._noted: dict[AppHandle, Position] = {}
        self._unasked: set[AppHandle] = set()
        """Apps of which the server, being away, could not say whether they are written down."""

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Write down that the run has to do with the app, and return how far its log has got with it."""
        if not self.run:
            return None
        if fresh:
            self._create(handle)
            return None
        found = self._ask_for(handle)
        if found is None:  # what there may be must not be hidden behind something newer
            self._unasked.add(handle)
            return None
        if not found:
            self._create(handle)
            return None
        return self._open(handle, found[0])

    def find(self, handle: AppHandle) -> Position | None:
        """Return how far its log has got with an app that it has had; None when it has had no such app."""
        found = self._ask_for(handle) if self.run else None
        return (self._open(handle, found[0]) or START) if found else None

    def noted(self, handle: AppHandle) -> NotedApp | None:
        """Return what the run has written down about the app; None for nothing."""
        found = self._ask_for(handle) if self.run else None
        return _noted(found[0].data, found[0].entry) if found else None

    def withdraw(self, handle: AppHandle) -> None:
        """Forget that the run was about to submit the app: another call of the run had done so before."""
        note = self._ids.pop(handle, None)
        self._noted.pop(handle, None)
        if note is not None:
            ask(lambda client: client.delete_artifact(note))

    def note(self, handle: AppHandle, position: Position) -> None:
        """Remember how far it has got, for the next `save`."""
        app = self._ids.get(handle)
        if app is None:
            self._noted[handle] = position
        else:
            self._ledger.note(app, position)

    def save(self, handle: AppHandle) -> bool:
        """Keep what was noted of all apps of the flow run; return whether that of this one is kept."""
        if not self.run:
            return True
        if handle in self._unasked and not self._ask_again(handle):
            return False
        if handle not in self._ids and not self._create(handle):
            return False
        if (position := self._noted.pop(handle, None)) is not None:
            self._ledger.note(self._ids[handle], position)
        return self._ledger.save()

    def _open(self, handle: AppHandle, found: _Found) -> Position | None:
        """Return how far the log is, with what it has behind that; None when it has nothing of the app."""
        self._ids[handle] = found.id
        position = self._ledger.open(found.id, found.entry)
        if position is not None and not position.times:  # an older release has saved it
            return position
        find = partial(
            shown_after,
            log=log_of(self.run, is_task=self._belongs_to is None),
            handle=handle,
            times=position.times if position else {},
            noted_at=found.noted_at,
        )
        after = ask(find, patiently=True)
        return replace(position or START, after=after) if after else position

    def _ask_for(self, handle: AppHandle, *, patiently: bool = True) -> list[_Found] | None:
        """Return what was written down of the app, nothing or one; None when the server does not answer.

        Not in haste by default: whoever does not find out shows again what has been shown.
        """
        return ask(partial(self._find, handle=handle), patiently=patiently)

    def _ask_again(self, handle: AppHandle) -> bool:
        """Go on counting from what was written down of the app; return whether the server could say."""
        found = self._ask_for(handle, patiently=False)
        if found is None:
            return False
        self._unasked.discard(handle)
        for app in found:
            self._ids[handle] = app.id
            self._ledger.open(app.id, app.entry)
        return True

    def _create(self, handle: AppHandle) -> bool:
        artifact = ArtifactCreate(
            type=TYPE,
            data={"kind": _KIND, "version": VERSION, "app": handle, "position": None, **self._about},
            flow_run_id=self._belongs_to,
            task_run_id=self._name(handle),
        )
        created = ask(lambda client: client.create_artifact(artifact))
        if created is not None:
            self._ids[handle] = created.id
        return created is not None

    def _find(self, client: SyncPrefectClient, handle: AppHandle) -> list[_Found]:
        names = [self._name(handle), self._ledger.name]
        only = ArtifactFilter(task_run_id=ArtifactFilterTaskRunId(any_=names))
        found = _latest_first(client, only)
        # The latest: a try that died before it submitted has left one, too.
        app = next((artifact for artifact in found if is_ours(_KIND, artifact.data)), None)
        if app is None:
            return []
        noted_at = app.created.timestamp() if app.created else 0.0
        return [_Found(app.id, noted_at, _entry(app, latest_entries(found)), app.data)]

    def _name(self, handle: AppHandle) -> UUID:
        """Return an id for this run's dealings with the app, by which the artifact is found at once."""
        return uuid.uuid5(uuid.NAMESPACE_URL, f"{self.run}/{handle}")


class _Found(NamedTuple):
    """An app that was written down."""

    id: UUID
    noted_at: float
    """In seconds since the epoch."""
    entry: Entry | None
    data: Any
    """JSON, as `_noted` reads it."""


def apps_of_flow_run(client: SyncPrefectClient, root: UUID, flow_run_id: UUID) -> dict[AppHandle, NotedApp]:
    """Return the apps that the flow run has, or was about to have; of several notes of one app the latest.

    Args:
        client: Of the server that has both.
        root: What the flow run is part of; itself, when it is part of none. It has all apps.
        flow_run_id: The flow run.
    """
    only = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[root]), type=ArtifactFilterType(any_=[TYPE])
    )
    found = _latest_first(client, only)
    entries = latest_entries(found)
    apps: dict[AppHandle, NotedApp] = {}
    for artifact in found:
        data: Any = artifact.data
        if is_ours(_KIND, data) and flow_run_id in (root, UUID(data["run"])):
            apps.setdefault(str(data["app"]), _noted(data, _entry(artifact, entries)))
    return apps


def _latest_first(client: SyncPrefectClient, only: ArtifactFilter) -> list[Artifact]:
    """Return all of them; what is made meanwhile may be missing, nothing else."""

    def read(limit: int, offset: int) -> list[Artifact]:
        order = ArtifactSort.CREATED_DESC
        return client.read_artifacts(artifact_filter=only, sort=order, limit=limit, offset=offset)

    return [artifact for page in pages(read) for artifact in page]


def _entry(app: Artifact, entries: Mapping[str, Entry]) -> Entry | None:
    """Return how far the app's log is; an older release kept that with the app, in no ledger."""
    data: Any = app.data
    place = data.get("position")
    position = Position.from_json(place) if isinstance(place, Mapping) else None
    return entries.get(str(app.id)) or (Entry(0, position) if position else None)


def _noted(data: Mapping[str, Any], entry: Entry | None) -> NotedApp:
    return NotedApp(
        run=str(data["run"]),
        position=entry.position if entry else None,
        changes=entry.number if entry else 0,
        has_hidden=bool(data.get("hidden", True)),  # older versions did not say
        limit_bytes=data.get("limit_bytes"),
        host=str(data.get("host", "")),
        holder=str(data.get("holder", "")),
    )
