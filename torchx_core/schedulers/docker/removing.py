"""Removes what an app has on the engine."""

from __future__ import annotations

import time
from collections.abc import Iterable

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.attend import containers_of
from torchx_core.schedulers.docker.client import Engine, Refused, Volume, each_at_once
from torchx_core.schedulers.docker.labels import KIND, of_app
from torchx_core.schedulers.docker.records import AppRecord

__all__ = ["debris", "remove_everything"]

_MOST_TRIES = 10
_PAUSE_S = 0.1


def remove_everything(engine: Engine, app: AppRecord) -> None:
    """Remove containers, network and records; the app's own record last, so that a crash leaves no orphan.

    Whoever submits the app meanwhile may add another container, which holds the volume: then begin again.
    """
    for _ in range(_MOST_TRIES):
        try:
            return _remove(engine, app)
        except Refused as err:
            if not err.conflict:
                raise
            time.sleep(_PAUSE_S)  # noqa: TID251  # the other one is at work, and nothing tells
    return _remove(engine, app)


def _remove(engine: Engine, app: AppRecord) -> None:
    _check(each_at_once(lambda c: engine.remove_container(c.id), containers_of(engine, app.key)))
    engine.remove_network(app.name)
    names = {v.name for v in engine.volumes(of_app(app.key))} - {app.name}
    _check(each_at_once(engine.remove_volume, sorted(names)))
    engine.remove_volume(app.name)


def debris(volumes: Iterable[Volume]) -> list[Volume]:
    """Return the records whose app is gone: somebody wrote them while it was deleted."""
    left: list[Volume] = []
    for rows in store.by_app(volumes).values():
        own = [v for v in rows if v.labels.get(KIND) == store.SPEC]
        records = store.decode(own)
        alive = f"{records.app.name}.{records.app.nonce}." if records else "\0"
        left += [v for v in rows if v not in own and not v.name.startswith(alive)]
    return left


def _check(answers: Iterable[object]) -> None:
    for answer in answers:
        if isinstance(answer, SchedulerError):
            raise answer
