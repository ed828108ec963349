"""Brings an app into being: its record, then everything else; a crash never duplicates or leaks it.

=============================  =====================================================================
the submitter dies …           then
=============================  =====================================================================
before the app's own record    there is no app
before ``begun``               nothing runs; the next submit of this id creates what is missing
between ``begun`` and a start  the next submit of this id starts it, and so does whoever looks later
after the starts               the app runs; the next submit of this id attaches
while it takes a submit back   the record ``stop`` says UNDONE: the next submit of this id goes on
=============================  =====================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import cast

from torchx_core.errors import (
    AppIdConflictError,
    SchedulerError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
)
from torchx_core.schedulers.difference import differences
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.asking import asked_for
from torchx_core.schedulers.docker.attend import archive, containers_of, halt, look
from torchx_core.schedulers.docker.client import Engine, Refused, each_at_once
from torchx_core.schedulers.docker.decide import UNDONE
from torchx_core.schedulers.docker.labels import common
from torchx_core.schedulers.docker.options import PULLS
from torchx_core.schedulers.docker.records import AppRecord, Records, Stop
from torchx_core.schedulers.docker.removing import remove_everything
from torchx_core.schedulers.docker.request import ContainerSpec, DockerRequest
from torchx_core.schedulers.docker.shim import DATA
from torchx_core.schedulers.docker.trouble import explain
from torchx_core.schedulers.docker.view import Phase
from torchx_core.schedulers.docker.workspace import is_local_layer

__all__ = ["submit"]

_MOST_TRIES = 5
_NETWORK_PATIENCE_S = 3.0
"""How long to wait for the network that the app's creator makes, before making it in its place."""
_CREATE_PATIENCE_S = 30.0
_PAUSE_S = 0.05


def submit(engine: Engine, request: DockerRequest) -> None:
    """Create the app, or attach to the one that an equal request created, and complete it if need be.

    Raises:
        AppIdConflictError: The id is taken by a different request.
        SubmitFailedError: The engine refused; nothing is left behind.
        SubmitOutcomeUnknownError: The engine did not answer.
    """
    try:
        for _ in range(_MOST_TRIES):
            app, created = _recorded(engine, request)
            if _completed(engine, request, app, created=created):
                return
    except SchedulerError as err:
        if isinstance(err, SubmitFailedError):
            raise
        raise SubmitOutcomeUnknownError(request.app_id, str(err)) from err
    raise SubmitOutcomeUnknownError(request.app_id, "others submit it and take it back again and again")


def _recorded(engine: Engine, request: DockerRequest) -> tuple[AppRecord, bool]:
    """Return the app's own record and whether this call wrote it; that record comes before everything."""
    nonce, salt = store.new_nonce(), store.new_nonce()
    content = {
        "nonce": nonce,
        "salt": salt,
        "submitted_at": time.time(),
        "asked": asked_for(request.app, request.cfg, salt),
        "replicas": [asdict(c.planned) for c in request.containers],
    }
    app = store.create(engine, request.session, request.app_id, content)
    if app.nonce == nonce:
        return app, True
    difference = differences(app.asked, asked_for(request.app, request.cfg, app.salt))
    if difference:
        raise AppIdConflictError(request.app_id, difference)
    return app, False


def _completed(engine: Engine, request: DockerRequest, app: AppRecord, *, created: bool) -> bool:
    """Return whether the app is there to stay; false when it was taken back while we looked."""
    if not created:
        records = store.read(engine, app.session, app.app_id)
        if records is None or records.app.nonce != app.nonce:
            return False
        if records.stop is not None and records.stop.outcome == UNDONE:
            remove_everything(engine, records.app)
            return False
        if records.stop is not None or records.final is not None:
            return True
        if records.begun_at is not None:
            _start_rest(engine, request, app)
            return _confirmed(engine, app)
    _create_all(engine, request, app, created=created)
    store.write(engine, app, store.BEGUN, {"time": time.time()})
    _start(engine, request, app, request.containers)
    return _confirmed(engine, app)


def _create_all(engine: Engine, request: DockerRequest, app: AppRecord, *, created: bool) -> None:
    try:
        _provide_images(engine, request)
        if request.network:
            _provide_network(engine, request, wait=not created)
        answers = each_at_once(lambda c: _create(engine, c), request.containers)
        _check(request.containers, answers)
        if not all(answers):  # others create them too
            _await_all(engine, request, app)
            _furnish(engine, request.containers[0])
    except Refused as err:
        raise _undone(engine, request, app, str(err)) from err


def _provide_images(engine: Engine, request: DockerRequest) -> None:
    policy = str(request.cfg["pull"])
    for image in sorted({c.image for c in request.containers}):
        if is_local_layer(image):
            continue  # nobody else has it
        if policy == PULLS[1] or (policy == PULLS[0] and not engine.has_image(image)):
            engine.pull(image)


def _provide_network(engine: Engine, request: DockerRequest, *, wait: bool) -> None:
    """Create the network; only one submitter does, because two at once might get two of the same name."""
    name = cast("str", request.network)
    deadline = time.monotonic() + (_NETWORK_PATIENCE_S if wait else 0.0)
    while wait and not engine.has_network(name) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)  # noqa: TID251  # the app's creator is at work, or dead: nothing tells
    engine.create_network(name, common(request.session, request.app_id, "network"))


def _create(engine: Engine, spec: ContainerSpec) -> bool:
    """Return whether the container is ours; false when somebody was faster."""
    try:
        engine.create_container(spec.planned.container, spec.config)
    except Refused as err:
        if not err.conflict:
            raise
        return False
    if spec.planned.index == 0:
        _furnish(engine, spec)
    return True


def _furnish(engine: Engine, spec: ContainerSpec) -> None:
    """Make the directories on the app's volume, which any of its containers gives access to.

    Source: an archive can be put into a container that was never started; what it holds below a mounted
    volume lies in the volume then (seen on engine 20.10.24).
    """
    engine.put(spec.planned.container, DATA, archive({}, ("state", "reports")))


def _await_all(engine: Engine, request: DockerRequest, app: AppRecord) -> None:
    """Wait until every container exists: a name is taken a while before its container is there."""
    deadline = time.monotonic() + _CREATE_PATIENCE_S
    wanted = [c.planned.container for c in request.containers]
    while missing := set(wanted) - {c.name for c in containers_of(engine, app.key)}:
        foreign = sorted(name for name in missing if engine.key_of(name) not in {None, app.key})
        if foreign or time.monotonic() > deadline:
            names = ", ".join(foreign or sorted(missing))
            raise Refused(f"containers of others have these names: {names}; remove them", status=409)
        time.sleep(_PAUSE_S)  # noqa: TID251  # another submitter creates them, and nothing tells


def _start_rest(engine: Engine, request: DockerRequest, app: AppRecord) -> None:
    idle = {c.name for c in containers_of(engine, app.key) if c.state == "created"}
    _start(engine, request, app, [c for c in request.containers if c.planned.container in idle])


def _start(
    engine: Engine, request: DockerRequest, app: AppRecord, containers: Sequence[ContainerSpec]
) -> None:
    answers = each_at_once(lambda c: engine.start(c.planned.container), containers)
    try:
        _check(containers, answers)
    except Refused as err:
        raise _undone(engine, request, app, str(err)) from err


def _check(containers: Sequence[ContainerSpec], answers: Iterable[object]) -> None:
    """Raise the first answer that is an error, told for people."""
    for spec, answer in zip(containers, answers, strict=True):
        if isinstance(answer, Refused):
            planned = spec.planned
            raise Refused(f"{planned.role}/{planned.replica}: {explain(answer)}", status=answer.status)
        if isinstance(answer, SchedulerError):
            raise answer


def _undone(engine: Engine, request: DockerRequest, app: AppRecord, why: str) -> SubmitFailedError:
    """Take the submit back; written down first, so that whoever comes next goes on if we die."""
    records = store.read(engine, app.session, app.app_id)
    if records is not None and records.app.nonce == app.nonce:
        stop = Stop(outcome=UNDONE, msg=why, grace_s=0, time=time.time())
        store.write(engine, app, store.STOP, store.dump_stop(stop))
        remove_everything(engine, app)
    return SubmitFailedError(f"cannot submit app {request.app_id!r}: {why}")


def _confirmed(engine: Engine, app: AppRecord) -> bool:
    """Return whether the app is still there; whoever cancelled it meanwhile may have missed our starts."""
    records = store.read(engine, app.session, app.app_id)
    if records is None or records.app.nonce != app.nonce:
        return False
    if records.stop is not None:
        _stop_what_we_started(engine, records)
    return records.stop is None or records.stop.outcome != UNDONE


def _stop_what_we_started(engine: Engine, records: Records) -> None:
    view = look(engine, records)
    stop = cast("Stop", records.stop)
    halt(engine, view.in_phase(Phase.UP, Phase.AGAIN), stop.grace_s)
