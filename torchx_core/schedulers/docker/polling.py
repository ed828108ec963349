"""Looks at an app as `reconcile.look` does, with questions that nobody waits for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast
from urllib.parse import urlencode

from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import (
    Container,
    Inspection,
    container_of,
    inspection_of,
    volume_of,
)
from torchx_core.schedulers.docker.api import Json
from torchx_core.schedulers.docker.client import Refused
from torchx_core.schedulers.docker.exchange import Answer, Request
from torchx_core.schedulers.docker.labels import INDEX, of_app
from torchx_core.schedulers.docker.reconcile import archive
from torchx_core.schedulers.docker.records import AppRecord
from torchx_core.schedulers.docker.request_chain import Questions
from torchx_core.schedulers.docker.shim import DATA, REPORTS, STATE
from torchx_core.schedulers.docker.view import AppView, is_up, replicas_among, unexplained, view_of
from torchx_core.schedulers.docker.volume_state import VolumeState, read_volume_state

__all__ = ["encoded", "lease_renewal", "look", "reports"]

_OK, _NOT_FOUND, _SERVER_ERROR = 200, 404, 500


def look(app: AppRecord, known: VolumeState | None = None) -> Questions[AppView | None]:
    """Return how the app stands; None when it was deleted, also if there is a new one of its id.

    Args:
        app: Which one.
        known: What was read before. It is not read anew while the app is being stopped: to read a file of a
            container that is about to end takes the engine until its end, and to stop takes all it can do.
    """
    filters = urlencode({"filters": encoded(of_app(app.key))})
    volumes, containers = yield [
        Request(f"/volumes?{filters}"),
        Request(f"/containers/json?all=1&{filters}"),
    ]
    rows = cast("list[Json] | None", cast("Json", _said(volumes, "list records").json)["Volumes"])
    records = store.decode([volume_of(row) for row in rows or ()])
    if records is None or records.app.nonce != app.nonce:
        return None
    if records.final is not None:
        return view_of(records, (), VolumeState(), {})
    found = [container_of(row) for row in cast("list[Json]", _said(containers, "list containers").json)]
    replicas = replicas_among(found)
    up = any(map(is_up, replicas))
    if known is not None and up and records.stop is not None:
        return view_of(records, replicas, known, {})
    volume_state = VolumeState()
    if records.begun_at is not None:
        files = yield from _files_of([c.id for c in replicas], STATE if up else DATA)
        volume_state = read_volume_state(files, complete=not up)
    inspections = yield from _inspections(list(unexplained(replicas, volume_state)))
    return view_of(records, replicas, volume_state, inspections)


def reports(containers: Sequence[str]) -> Questions[bytes]:
    """Return what the replicas reported, as an archive."""
    return (yield from _files_of(containers, REPORTS))


def _files_of(containers: Iterable[str], path: str) -> Questions[bytes]:
    """Return the path as an archive, from the first of the containers that is still there."""
    for container in containers:
        (answer,) = yield [Request(f"/containers/{container}/archive?{urlencode({'path': path})}")]
        if answer.status != _NOT_FOUND:
            return _some(_said(answer, f"read {path}").body, path)
    return archive({})


def _some(body: bytes, path: str) -> bytes:
    """Return an answer that is not empty, as an archive never is: Podman sends one while a container ends."""
    if not body:
        raise OSError(f"cannot read {path}: the engine sent nothing")
    return body


def lease_renewal(container: str, text: str) -> Questions[bool]:
    """Write the text into the lease; return whether that could be done."""
    target = f"/containers/{container}/archive?{urlencode({'path': DATA})}"
    (answer,) = yield [Request(target, "PUT", archive({"lease": text}))]
    return answer.status == _OK


def encoded(filters: Mapping[str, Sequence[str]]) -> str:
    """Return the filters as a query takes them."""
    return json.dumps({name: list(values) for name, values in filters.items()})


def _inspections(containers: Sequence[Container]) -> Questions[dict[int, Inspection]]:
    if not containers:
        return {}
    answers = yield [Request(f"/containers/{c.id}/json") for c in containers]
    return {
        int(c.labels[INDEX]): inspection_of(cast("Json", _said(answer, "look at a container").json))
        for c, answer in zip(containers, answers, strict=True)
        if answer.status != _NOT_FOUND
    }


def _said(answer: Answer, what: str) -> Answer:
    """Return an answer that is one.

    Raises:
        OSError: The engine is in trouble, for example because it is about to end.
        Refused: It says no.
    """
    if answer.status >= _SERVER_ERROR:
        raise OSError(f"cannot {what}: {answer.message}")
    if answer.status != _OK:
        raise Refused(f"cannot {what}: {answer.message}", status=answer.status)
    return answer
