"""How far the logs of a flow run's apps are, on Prefect's server: one artifact for each process."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar, cast, final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.objects import Artifact

from prefect_torchx._engine.server import ask_briefly, ask_patiently
from prefect_torchx.own import Latest
from prefect_torchx.position import Position

__all__ = ["TYPE", "VERSION", "Entry", "Ledger", "ask", "is_ours", "latest_entries", "ledger_of"]

VERSION = 1
TYPE = "result"
"""Of the artifacts; without a key, no page of Prefect shows them."""
KEPT = 1000
"""Of how many apps, the latest ones, a process keeps how far their logs are; and of how many flow runs."""
ASK_AGAIN_S = 1.0
"""After the server could not be asked; whoever saves for many apps asks for each of them."""
LEDGER = "torchx positions"

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Entry(NamedTuple):
    """How far one app's log is."""

    number: int
    """Grows with every change, whatever process makes it."""
    position: Position


@final
class Ledger:
    """How far the logs of a flow run's apps are that this process shows: one artifact, written as a whole."""

    def __init__(self, run: str, flow_run_id: UUID | None) -> None:
        """Know of no app."""
        self.name: Final = _ledger_name(flow_run_id or run)
        self._flow_run_id = flow_run_id
        self._id: UUID | None = None
        self._entries: OrderedDict[UUID, Entry] = OrderedDict()
        self._lock = Lock()
        """Guards the entries."""
        self._saving = Lock()
        self._changed = False
        self._ask_at = 0.0

    def open(self, app: UUID, found: Entry | None) -> Position | None:
        """Count from where others left off; return how far the app's log is."""
        with self._lock:
            known = self._entries.get(app)
            entries = [entry for entry in (known, found) if entry is not None]
            latest = max(entries, key=lambda entry: entry.number, default=None)
            if latest is None:
                return None
            self._entries[app] = latest
            return latest.position

    def note(self, app: UUID, position: Position) -> None:
        """Remember how far the app's log is."""
        with self._lock:
            known = self._entries.get(app)
            self._entries[app] = Entry(known.number + 1 if known else 1, position)
            self._entries.move_to_end(app)
            while len(self._entries) > KEPT:
                self._entries.popitem(last=False)
            self._changed = True

    def save(self) -> bool:
        """Write everything down unless that is done; return whether it is."""
        with self._saving:
            with self._lock:
                data = {
                    str(app): [entry.number, entry.position.to_json()] for app, entry in self._entries.items()
                }
                changed, self._changed = self._changed, False
            if not changed:
                return True
            asked = monotonic() >= self._ask_at
            kept = asked and self._write(data)
            if asked and not kept:
                self._ask_at = monotonic() + ASK_AGAIN_S
            if not kept:
                self._changed = True
            return kept

    def _write(self, entries: Mapping[str, object]) -> bool:
        data = {"kind": LEDGER, "version": VERSION, "positions": entries}
        if self._id is None:
            new = ArtifactCreate(type=TYPE, data=data, flow_run_id=self._flow_run_id, task_run_id=self.name)
            created = ask(lambda client: client.create_artifact(new))
            self._id = created.id if created else None
            return created is not None
        artifact_id, update = self._id, ArtifactUpdate(data=data)
        return ask(lambda client: _update(client, artifact_id, update)) is not None


_ledgers: Final = Latest[UUID, Ledger](KEPT)


def ledger_of(run: str, flow_run_id: UUID | None) -> Ledger:
    """Return the one that all apps of the flow run share in this process."""
    return _ledgers.get_or_make(_ledger_name(flow_run_id or run), partial(Ledger, run, flow_run_id))


def _ledger_name(run: UUID | str) -> UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{run}/{LEDGER}")


def latest_entries(artifacts: Iterable[Artifact]) -> dict[str, Entry]:
    """Return what the ledgers among them say of each app's artifact: of several processes the latest."""
    latest: dict[str, Entry] = {}
    for ledger in (artifact.data for artifact in artifacts if is_ours(LEDGER, artifact.data)):
        for app, (number, place) in cast("dict[str, Any]", ledger)["positions"].items():
            position = Position.from_json(place)
            if position is not None and (app not in latest or latest[app].number < number):
                latest[app] = Entry(number, position)
    return latest


def is_ours(kind: str, data: Any) -> bool:  # noqa: ANN401  (any JSON value)
    return isinstance(data, Mapping) and data.get("kind") == kind and data["version"] <= VERSION


def ask(question: Callable[[SyncPrefectClient], T], *, patiently: bool = False) -> T | None:
    try:
        return ask_patiently(question) if patiently else ask_briefly(question)
    except Exception as err:  # noqa: BLE001  (whatever it is, the app must not suffer from it)
        logger.warning("cannot keep on Prefect's server how far the log is: %r", err)
        return None


def _update(client: SyncPrefectClient, artifact_id: UUID, update: ArtifactUpdate) -> UUID:
    client.update_artifact(artifact_id, update)
    return artifact_id
