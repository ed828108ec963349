"""Keeps positions on Prefect's server, beside the log that they are about.

Each app that a run has to do with gets an artifact of type ``result`` without a key, which no page of Prefect
shows. It is written before the app is submitted, so it also tells which apps there may be of a flow run.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast, final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterTaskRunId,
    ArtifactFilterType,
)
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort

from prefect_torchx._engine.server import ask_briefly, ask_patiently
from prefect_torchx.position import Position
from torchx_core.specs import AppHandle

__all__ = ["ServerShelf", "apps_of_flow_run"]

VERSION = 1
PAGE = 200
"""How many artifacts Prefect's server returns at most."""
_TYPE = "result"
_KIND = "torchx app"

T = TypeVar("T")

logger = logging.getLogger(__name__)


@final
class ServerShelf:
    """Keeps how far one run's log has got with apps; says so in the log when it cannot."""

    def __init__(self, flow_run_id: str, task_run_id: str, root: str = "") -> None:
        """Keep for the flow run, or for a task run without one; both empty: for nobody.

        Args:
            flow_run_id: Whose log it is.
            task_run_id: The same, without a flow run.
            root: The flow run that the other is part of, and that the app belongs to; empty for the same.
        """
        self.run = flow_run_id or task_run_id
        self._belongs_to = UUID(root or flow_run_id) if flow_run_id else None
        self._ids: dict[AppHandle, UUID] = {}
        self._lock = Lock()

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Write down that the run has to do with the app, and return how far its log has got with it."""
        if not self.run:
            return None
        # Not in haste: whoever does not find out shows again what has been shown.
        find = partial(self._find, handle=handle)
        found = None if fresh else self._ask(find, patiently=True)
        if found is None:
            self._create(handle, None)
            return None
        self._ids[handle] = found.id
        return _position(found.data)

    def save(self, handle: AppHandle, position: Position) -> bool:
        """Remember how far it has got, and return whether that is so; from any thread."""
        if not self.run:
            return True
        with self._lock:
            artifact_id = self._ids.get(handle)
            if artifact_id is None:
                return self._create(handle, position)
            update = ArtifactUpdate(data=self._data(handle, position))
            return self._ask(lambda client: _update(client, artifact_id, update)) is not None

    def _create(self, handle: AppHandle, position: Position | None) -> bool:
        artifact = ArtifactCreate(
            type=_TYPE,
            data=self._data(handle, position),
            flow_run_id=self._belongs_to,
            task_run_id=self._name(handle),
        )
        created = self._ask(lambda client: client.create_artifact(artifact))
        if created is not None:
            self._ids[handle] = created.id
        return created is not None

    def _find(self, client: SyncPrefectClient, handle: AppHandle) -> Artifact | None:
        only = ArtifactFilter(task_run_id=ArtifactFilterTaskRunId(any_=[self._name(handle)]))
        # The latest: a try that died before it submitted has left one, too.
        found = client.read_artifacts(artifact_filter=only, sort=ArtifactSort.CREATED_DESC, limit=1)
        return found[0] if found else None

    def _data(self, handle: AppHandle, position: Position | None) -> dict[str, object]:
        shown = position.to_json() if position else None
        return {"kind": _KIND, "version": VERSION, "app": handle, "run": self.run, "position": shown}

    def _name(self, handle: AppHandle) -> UUID:
        """Return an id for this run's dealings with the app, by which the artifact is found at once."""
        return uuid.uuid5(uuid.NAMESPACE_URL, f"{self.run}/{handle}")

    def _ask(self, question: Callable[[SyncPrefectClient], T], *, patiently: bool = False) -> T | None:
        try:
            return ask_patiently(question) if patiently else ask_briefly(question)
        except Exception as err:  # noqa: BLE001  (whatever it is, the app must not suffer from it)
            logger.warning("cannot keep on Prefect's server how far the log is: %r", err)
            return None


def apps_of_flow_run(client: SyncPrefectClient, root: UUID, flow_run_id: UUID) -> Iterator[AppHandle]:
    """Yield the apps that the flow run has, or was about to have.

    Args:
        client: Of the server that has both.
        root: What the flow run is part of; itself, when it is part of none. It has all apps.
        flow_run_id: The flow run.
    """
    only = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[root]), type=ArtifactFilterType(any_=[_TYPE])
    )
    seen: set[AppHandle] = set()
    offset = 0
    while page := client.read_artifacts(artifact_filter=only, limit=PAGE, offset=offset):
        offset += len(page)
        for artifact in page:
            handle = _handle(artifact.data, flow_run_id if flow_run_id != root else None)
            if handle and handle not in seen:
                seen.add(handle)
                yield handle


def _update(client: SyncPrefectClient, artifact_id: UUID, update: ArtifactUpdate) -> UUID:
    client.update_artifact(artifact_id, update)
    return artifact_id


def _position(data: Any) -> Position | None:  # noqa: ANN401  (any JSON value)
    if not _is_ours(data) or data["version"] > VERSION or not isinstance(data["position"], Mapping):
        return None
    return Position.from_json(cast("Mapping[str, object]", data["position"]))


def _handle(data: Any, run: UUID | None) -> AppHandle | None:  # noqa: ANN401  (any JSON value)
    """Return the app; None when it is no such thing, or not of that run."""
    return str(data["app"]) if _is_ours(data) and run in (None, UUID(data["run"])) else None


def _is_ours(data: Any) -> bool:  # noqa: ANN401  (any JSON value)
    return isinstance(data, Mapping) and data.get("kind") == _KIND
