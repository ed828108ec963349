"""Submits an app once, as far as its backend lets one know.

``attempt.<n>`` is written before TorchX is asked to submit and holds the id that the app will have there,
where TorchX says it beforehand; ``submitted`` is written when it has. Whoever finds an attempt without that,
and nobody at work, follows a crash or a lost answer: the app is looked for under that id.
"""

from __future__ import annotations

import os
import time

from torchx_core.compat import _torchx
from torchx_core.compat.backend import Backend
from torchx_core.compat.records import Record, Store, text
from torchx_core.compat.request import BridgeRequest
from torchx_core.errors import (
    AppIdConflictError,
    SchedulerError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
)
from torchx_core.schedulers.difference import comparable_request, request_differences
from torchx_core.specs import runopts

__all__ = ["is_lost", "submit_once"]


def submit_once(store: Store, backend: Backend, request: BridgeRequest) -> None:
    """Submit the request unless an equal one of its app id was submitted before.

    Raises:
        AppIdConflictError: The id is taken by a different request.
        SubmitFailedError: It could not be submitted; the id is free again.
        SubmitOutcomeUnknownError: The backend did not answer; or a submitter died at work, and its backend
            cannot be asked what came of it.
    """
    while True:
        record = store.create(request.app_id, _first_fact(request))
        with record.locked("submit") as is_there:
            if not is_there:
                continue  # its submitter took it back while we waited
            _refuse_other(record, request, _torchx.run_opts(backend.upstream))
            if record.get("submitted") is None and not _settled(record, backend, request):
                _submit(store, record, backend, request)
            return


def is_lost(record: Record) -> bool:
    """Return whether its submitter died before it could write down what became of the app."""
    return not record.is_locked("submit") and record.get("submitted") is None  # in this order


def _first_fact(request: BridgeRequest) -> dict[str, object]:
    return {
        **comparable_request(request.app, request.cfg),
        "incarnation": os.urandom(8).hex(),
        "name": request.app.name,
        "created_at": time.time(),
    }


def _refuse_other(record: Record, request: BridgeRequest, opts: runopts) -> None:
    asked = comparable_request(request.app, request.cfg)
    stored = {key: value for key, value in record.asked.items() if key in asked}
    difference = request_differences(stored, asked, opts)
    if difference:
        raise AppIdConflictError(request.app_id, difference)


def _settled(record: Record, backend: Backend, request: BridgeRequest) -> bool:
    """Find out what became of an attempt whose submitter died; return whether it succeeded."""
    number = _attempts(record)
    if number == 0:
        return False
    native_id = text(record.get(f"attempt.{number}"), "native_id")
    if not native_id:
        problem = f"its submitter died, and {backend.name} has no name to look for"
        raise SubmitOutcomeUnknownError(request.app_id, f"{problem}; look there yourself, or delete the app")
    sight = backend.look(native_id)
    if sight is None:
        return False
    if sight.replicas and len(sight.replicas) < sum(role.num_replicas for role in request.app.roles):
        backend.cancel(native_id, 0)  # half of it: start again as a whole
        return False
    record.put("submitted", {"native_id": native_id, "at": time.time()})
    return True


def _submit(store: Store, record: Record, backend: Backend, request: BridgeRequest) -> None:
    known = _torchx.native_id_of(request.native) or ""
    record.put(f"attempt.{_attempts(record) + 1}", {"native_id": known})
    try:
        native_id = backend.submit(request.native)
    except SubmitFailedError:
        store.remove(record)
        raise
    except SchedulerError as err:  # the next submit finds the attempt, as after a crash
        raise SubmitOutcomeUnknownError(request.app_id, str(err)) from err
    record.put("submitted", {"native_id": native_id, "at": time.time()})


def _attempts(record: Record) -> int:
    number = 0
    while record.get(f"attempt.{number + 1}") is not None:
        number += 1
    return number
