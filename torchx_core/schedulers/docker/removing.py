"""Removes what an app has on the engine."""

from __future__ import annotations

import time
from collections.abc import Callable

from torchx_core.errors import StoredStateError
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import Refused
from torchx_core.schedulers.docker.client import Engine, all_of, each_at_once
from torchx_core.schedulers.docker.labels import (
    KIND,
    NONCE,
    app_key,
    app_name,
    is_record_name,
    of_app,
    of_session,
)

__all__ = ["debris", "remove_everything", "remove_unlabelled"]

_PATIENCE_S = 30.0
"""How long things may stay in use: a busy engine lets go of a network long after its last container."""
_PAUSE_S = 0.1
_IN_USE = (403, 409)
"""What an engine answers when a container, a volume or a network is in use, or is being removed."""


def remove_everything(
    engine: Engine, session: str, app_id: str, nonce: str | None = None, *, patience_s: float = _PATIENCE_S
) -> None:
    """Remove containers, network and records, so that neither a crash nor a refusal leaves a half of the app.

    Whoever submits the app meanwhile may add another container, which holds the volume: then begin again.

    Args:
        engine: Where the app is.
        session: Its session.
        app_id: The app.
        nonce: Of which submit; an app that was submitted anew meanwhile, after another one's delete, is left
            alone. None for whatever is there.
        patience_s: How long things may stay in use.
    """
    name = app_name(session, app_id)

    def is_there() -> bool:
        return nonce is None or store.nonce_of(engine, name) == nonce

    _repeat(engine, session, app_id, nonce, is_there, patience_s)


def remove_unlabelled(engine: Engine, session: str, app_id: str, *, force: bool) -> None:
    """Remove what there is of an app whose own volume has no labels, so that no look finds the app.

    Args:
        engine: Where it is.
        session: The app's session.
        app_id: The app.
        force: Also if it has labels, which are not an app's.
    """

    def is_unlabelled() -> bool:
        labels = engine.volume_labels(app_name(session, app_id))
        return labels == {} or (force and labels is not None)

    if is_unlabelled():
        _repeat(engine, session, app_id, None, is_unlabelled, _PATIENCE_S)


def _repeat(
    engine: Engine,
    session: str,
    app_id: str,
    nonce: str | None,
    is_there: Callable[[], bool],
    patience_s: float,
) -> None:
    until: float | None = None
    while True:
        try:
            return _remove(engine, session, app_id, nonce, is_there)
        except Refused as err:
            # From the first refusal on: to remove a hundred containers may take longer than all patience.
            until = until or time.monotonic() + patience_s
            if (err.status not in _IN_USE and not err.conflict) or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_S)  # noqa: TID251  (the other one is at work, and nothing tells)


def _remove(
    engine: Engine, session: str, app_id: str, nonce: str | None, is_there: Callable[[], bool]
) -> None:
    """List, then look whether the app is there still, then remove what was listed and nothing else.

    The record of a later submit is written after this one's is removed. So what is listed before a look that
    finds the record is no later submit's. Containers of another submit among it hold the volume, and nobody
    follows them. The record of the end goes last: as long as there is any, it tells that the app is over.
    """
    name, key = app_name(session, app_id), app_key(session, app_id)
    containers = engine.containers(of_app(key))
    networks = engine.network_ids(name)
    volumes = [v.name for v in engine.volumes({"name": [name]})]  # not by label: some may have none
    begin = f"{name}."
    if not is_there():
        containers = [c for c in containers if nonce is not None and c.labels.get(NONCE) == nonce]
        networks, begin = [], f"{name}.{nonce}."
    records = sorted(v for v in volumes if v.startswith(begin))
    ends = [v for v in records if v.removeprefix(f"{name}.").partition(".")[2].startswith(store.FINAL)]
    all_of(each_at_once(lambda c: engine.remove_container(c.id), containers))
    all_of(each_at_once(engine.remove_network, networks))
    all_of(each_at_once(engine.remove_volume, [v for v in records if v not in ends]))
    if begin == f"{name}.":
        engine.remove_volume(name)
    all_of(each_at_once(engine.remove_volume, ends))


def debris(engine: Engine, session: str) -> list[str]:
    """Return the session's records whose app is gone, and those of any session that say nothing.

    Somebody wrote them while the app was deleted, or the engine died while it made them.
    """
    left: list[str] = []
    for rows in store.by_app(engine.volumes(of_session(session))).values():
        own = [v for v in rows if v.labels.get(KIND) == store.SPEC]
        try:
            records = store.decode(own)
        except StoredStateError:
            continue  # the app is there, though nobody can tell which of them are its records
        alive = f"{records.app.name}.{records.app.nonce}." if records else "\0"
        left += [v.name for v in rows if v not in own and not v.name.startswith(alive)]
    return left + _unlabelled(engine)


def _unlabelled(engine: Engine) -> list[str]:
    """Return the records without labels that are beside no record of an app's own."""
    names = [v.name for v in engine.volumes({}) if not v.labels and is_record_name(v.name)]
    apps = {name.partition(".")[0] for name in names}
    gone = {app for app in apps if engine.volume_labels(app) is None}
    return [name for name in names if name.partition(".")[0] in gone]
