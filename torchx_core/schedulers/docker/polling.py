"""What is asked of the engine to see how an app stands; who asks may wait for the answers, or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast
from urllib.parse import urlencode

from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import (
    Container,
    Figures,
    Inspection,
    Json,
    Refused,
    container_of,
    figures_of,
    inspection_of,
    volume_of,
)
from torchx_core.schedulers.docker.client import NOTHING_CAME
from torchx_core.schedulers.docker.exchange import Answer, Request
from torchx_core.schedulers.docker.labels import INDEX, of_app
from torchx_core.schedulers.docker.request_chain import Questions
from torchx_core.schedulers.docker.shim import DATA, REPORTS, STATE
from torchx_core.schedulers.docker.view import (
    AppView,
    Phase,
    is_up,
    replicas_among,
    unexplained,
    view_of,
)
from torchx_core.schedulers.docker.volume_state import VolumeState, archive, read_volume_state

__all__ = ["encoded", "lease_renewal", "look", "reports", "statistics"]

_OK, _NOT_FOUND, _SERVER_ERROR = 200, 404, 500


def look(key: str, nonce: str | None = None, known: VolumeState | None = None) -> Questions[AppView | None]:
    """Return how the app stands; None when there is none.

    Args:
        key: What the engine's labels name the app by.
        nonce: That of the app that is meant, where another one of its id is not.
        known: What was read before. It is not read anew while the app is being stopped: to read a file of a
            container that is about to end takes the engine until its end, and to stop takes all it can do.
    """
    filters = urlencode({"filters": encoded(of_app(key))})
    volumes, containers = yield [
        Request(f"/volumes?{filters}"),
        Request(f"/containers/json?all=1&{filters}"),
    ]
    rows = cast("list[Json] | None", cast("Json", _said(volumes, "list records").json)["Volumes"])
    records = store.decode([volume_of(row) for row in rows or ()])
    if records is None or nonce not in (None, records.app.nonce):
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


def statistics(view: AppView) -> Questions[dict[int, Figures]]:
    """Return what each replica uses that runs, by its index; all are asked at once.

    Engines before API 1.41 do not know ``one-shot``, and answer after a second.
    """
    up = view.in_phase(Phase.UP)
    answers = yield [
        Request(f"/containers/{replica.container}/stats?stream=false&one-shot=true") for replica in up
    ]
    return {
        replica.planned.index: figures_of(cast("Json", answer.json))
        for replica, answer in zip(up, answers, strict=True)
        if answer.status == _OK  # else it has ended meanwhile
    }


def reports(containers: Sequence[str]) -> Questions[bytes]:
    """Return what the replicas reported, as an archive."""
    return (yield from _files_of(containers, REPORTS))


def _files_of(containers: Iterable[str], path: str) -> Questions[bytes]:
    """Return the path as an archive, from the first of the containers that is still there."""
    for container in containers:
        (answer,) = yield [Request(f"/containers/{container}/archive?{urlencode({'path': path})}")]
        if answer.status != _NOT_FOUND:
            body = _said(answer, f"read {path}").body
            if not body:  # an archive never is, and Podman sends one while a container ends
                raise Refused(f"cannot read {path}: {NOTHING_CAME}", status=_SERVER_ERROR)
            return body
    return archive({})


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
        Refused: The engine says no, or is in trouble, for example because it is about to end.
    """
    if answer.status != _OK:
        raise Refused(f"cannot {what}: {answer.message}", status=answer.status)
    return answer
