"""An app's records: volumes whose labels say something, each written once, the first writer wins.

===============  =====================================================================================
record           what it says
===============  =====================================================================================
(the app's own)  what was asked for; written before anything else exists; its files are the app's data
``begun``        every container exists, so whoever completes this submit creates none any more
``stop``         the app is to end: how, why, with what grace period
``restart.<n>``  which replicas start again, as which attempt
``owner.<n>``    who owns the app; the highest n counts
``final``        how the app ended; from then on the truth for everybody
===============  =====================================================================================

Only the app's own volume is in use by containers, so ``docker volume prune`` of an engine before 23 (later:
``prune --all``) may take the others of an app that has ended; its end is then told from its containers again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from typing import cast

from torchx_core.errors import CorruptRecordError, InvalidAppError, StoredStateError
from torchx_core.schedulers.docker import content as said_in
from torchx_core.schedulers.docker.answers import Json, Refused, Volume
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.content import (
    BEGUN,
    FINAL,
    OWNER,
    RESTART,
    SPEC,
    STOP,
    Planned,
    Stop,
    dumped,
    naming_damage,
    parsed,
)
from torchx_core.schedulers.docker.labels import (
    APP,
    CONTENT,
    KIND,
    SESSION,
    app_key,
    app_name,
    common,
    of_app,
    record_name,
)
from torchx_core.specs import AppDef
from torchx_core.supervisor.shape import Misshapen

__all__ = [
    "BEGUN",
    "FINAL",
    "OWNER",
    "RESTART",
    "SPEC",
    "STOP",
    "AppRecord",
    "Planned",
    "Records",
    "Restart",
    "Stop",
    "by_app",
    "create",
    "decode",
    "dump_restart",
    "dump_stop",
    "new_nonce",
    "read",
    "write",
    "write_stop",
]

_REMOVER_PATIENCE_S = 2.0
"""How long a submitter has to remove what it made of an app that was deleted meanwhile."""
_PAUSE_S = 0.1


@dataclass(frozen=True)
class AppRecord:
    """What was submitted; never changes while the app exists."""

    session: str
    app_id: str
    content: Json

    @property
    def key(self) -> str:
        """What labels name the app by."""
        return app_key(self.session, self.app_id)

    @property
    def name(self) -> str:
        """The name of the app's volume and network."""
        return app_name(self.session, self.app_id)

    @property
    def nonce(self) -> str:
        """Unique among all apps that ever had this id."""
        return str(self.content["nonce"])

    @property
    def submitted_at(self) -> float:
        """Seconds since the epoch, by the submitter's clock."""
        return cast("float", self.content["submitted_at"])

    @property
    def asked(self) -> Json:
        """What the submitter asked for: app and cfg, secrets masked, and their digests."""
        return cast("Json", self.content["asked"])

    @property
    def salt(self) -> str:
        """What the digests of secrets are made with."""
        return str(self.content["salt"])

    @property
    def cfg(self) -> Json:
        """The resolved options."""
        return cast("Json", self.asked["cfg"])

    @cached_property
    def app(self) -> AppDef:
        """The app as it was submitted, secrets masked.

        Raises:
            CorruptRecordError: It is none.
        """
        with naming_damage(self.name, common(self.session, self.app_id, SPEC)):
            try:
                return AppDef.from_dict(cast("Json", self.asked["app"]))
            except InvalidAppError as err:
                raise Misshapen(f"its app cannot be read: {err}") from err

    @cached_property
    def replicas(self) -> tuple[Planned, ...]:
        """Every replica, in the order of roles."""
        return said_in.replicas(self.content)

    @property
    def grace_s(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        return cast("float", self.cfg["grace_s"])

    @property
    def has_shim(self) -> bool:
        """Whether the replicas keep journals."""
        return self.cfg["shim"] != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Some replicas start again together."""

    number: int
    targets: Mapping[int, int]
    """Index of each replica -> the attempt it starts."""
    cause: str
    time: float
    """When it was ordered, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """All records of one app."""

    app: AppRecord
    begun_at: float | None = None
    stop: Stop | None = None
    restarts: tuple[Restart, ...] = ()
    owner: str | None = None
    owner_number: int = 0
    final: Json | None = None


def write(engine: Engine, app: AppRecord, kind: str, content: Json) -> Json:
    """Write the record unless it is there, and return what it says: ours, or what somebody wrote before.

    An engine that dies while it makes a volume leaves one without labels. Nobody was told of that, so the
    record is written beside it, under the next name, where again the first writer wins. To remove the volume
    would not do: it may have become somebody's record since we looked.
    """
    labels = _labels(app.session, app.app_id, kind, content)
    for number in count(1):
        name = record_name(app.name, app.nonce, kind, number)
        stored = engine.create_volume(name, labels)
        if stored:
            return parsed(name, stored)
    raise AssertionError  # pragma: no cover  # there is always a next number


def write_stop(engine: Engine, app: AppRecord, stop: Stop) -> Stop:
    """Write the request that the app ends unless there is one, and return the one that counts.

    Raises:
        CorruptRecordError: There is one, and it cannot be read.
    """
    stored = write(engine, app, STOP, dump_stop(stop))
    with naming_damage(record_name(app.name, app.nonce, STOP), common(app.session, app.app_id, STOP)):
        return said_in.stop(stored)


def create(engine: Engine, session: str, app_id: str, content: Json) -> AppRecord:
    """Write the app's own record unless there is one, and return the one that is there.

    What is left of an engine that died while it made the volume is removed. Should that be the record which
    another submitter has just put in its place, the app is that of the next record, to both of them; once
    there is a container, the engine refuses. A container that is made while its app is deleted makes the
    volume anew; its submitter removes both, and has a moment to do so.

    Raises:
        CorruptRecordError: The volume is not this library's.
    """
    name, deadline = app_name(session, app_id), time.monotonic() + _REMOVER_PATIENCE_S
    while not (stored := engine.create_volume(name, _labels(session, app_id, SPEC, content))):
        try:
            engine.remove_volume(name)
        except Refused as err:
            if err.conflict and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)  # noqa: TID251  # another submitter is at work, and nothing tells
            elif err.conflict:
                problem = "has no labels, and containers hold it; delete the app to remove them"
                raise CorruptRecordError(f"volume {name}", problem) from err
            else:
                raise
    return _app_record(name, stored)


def nonce_of(engine: Engine, name: str) -> str | None:
    """Return of which submit the app's own record of that name is; None when there is none that tells."""
    labels = engine.volume_labels(name)
    try:
        return _app_record(name, labels).nonce if labels else None
    except StoredStateError:
        return None


def read(engine: Engine, session: str, app_id: str) -> Records | None:
    """Return the app's records, or None when there is no such app; one request.

    Raises:
        CorruptRecordError: A record cannot be read.
        NewerRecordError: A newer version of this library wrote it.
    """
    return decode(engine.volumes(of_app(app_key(session, app_id))))


def by_app(volumes: Iterable[Volume]) -> dict[str, list[Volume]]:
    """Return the volumes that are records, sorted by the id of their app."""
    apps: dict[str, list[Volume]] = {}
    for volume in volumes:
        if {APP, SESSION, KIND} <= volume.labels.keys():
            apps.setdefault(volume.labels[APP], []).append(volume)
    return apps


def decode(volumes: Sequence[Volume]) -> Records | None:
    """Return the records of one app, or None when its own is not among the volumes; raises as `read` does."""
    for volume in volumes:
        if volume.labels.get(KIND) == SPEC:
            return _of(_app_record(volume.name, volume.labels), volumes)
    return None


def new_nonce() -> str:
    """Return what tells an app from all others of the same id."""
    return os.urandom(6).hex()


def dump_stop(stop: Stop) -> Json:
    """Return the content of the record."""
    return asdict(stop)


def dump_restart(restart: Restart) -> Json:
    """Return the content of the record."""
    targets = {str(i): n for i, n in restart.targets.items()}
    return {"targets": targets, "cause": restart.cause, "time": restart.time}


def _of(app: AppRecord, volumes: Iterable[Volume]) -> Records:
    mine = {v.labels.get(KIND, ""): v for v in volumes if v.name.startswith(f"{app.name}.{app.nonce}.")}
    said: dict[str, Json] = {}
    for kind, volume in mine.items():
        said[kind] = parsed(volume.name, volume.labels)
        with naming_damage(volume.name, volume.labels):
            said_in.check(kind.partition(".")[0], said[kind], app.content)
    owners = _numbered(said, OWNER)
    final = said.get(FINAL)
    begun = said.get(BEGUN) or (final and cast("Json | None", final["begun"]))
    stop = said.get(STOP) or (final and cast("Json | None", final["stop"]))
    return Records(
        app=app,
        begun_at=cast("float", begun["time"]) if begun else None,
        stop=said_in.stop(stop) if stop else None,
        restarts=tuple(_restart(n, content) for n, content in _numbered(said, RESTART)),
        owner=str(owners[-1][1]["token"]) if owners else None,
        owner_number=owners[-1][0] if owners else 0,
        final=final,
    )


def _numbered(said: Mapping[str, Json], kind: str) -> list[tuple[int, Json]]:
    rows = [(name.partition("."), content) for name, content in said.items()]
    return sorted(
        (
            (int(number), content)
            for (first, _, number), content in rows
            if first == kind and number.isdecimal()
        ),
        key=lambda row: row[0],
    )


def _restart(number: int, content: Json) -> Restart:
    targets = cast("dict[str, int]", content["targets"])
    return Restart(
        number=number,
        targets={int(i): n for i, n in targets.items()},
        cause=str(content["cause"]),
        time=cast("float", content["time"]),
    )


def _app_record(name: str, labels: Mapping[str, str]) -> AppRecord:
    session, app_id = labels.get(SESSION, ""), labels.get(APP, "")
    if not common(session, app_id, SPEC).items() <= labels.items() or name != app_name(session, app_id):
        raise CorruptRecordError(f"volume {name}", "is not one of this library's")
    content = parsed(name, labels)
    with naming_damage(name, labels):
        said_in.check(SPEC, content, content)
    return AppRecord(session, app_id, content)


def _labels(session: str, app_id: str, kind: str, content: Json) -> dict[str, str]:
    return {**common(session, app_id, kind), CONTENT: dumped(content)}
