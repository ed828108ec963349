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

Several may submit the same app at once. When the engine refuses something, the one who wrote the app's own
record decides: it takes the app back, unless the others have completed it. The others wait for that, because
what they were refused may be the trace of somebody else at work; only when it does not decide (it is dead)
they do.
"""

from __future__ import annotations

import re
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
from torchx_core.schedulers.difference import request_differences
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import Refused
from torchx_core.schedulers.docker.client import Engine, all_of, each_at_once
from torchx_core.schedulers.docker.content import UNDONE
from torchx_core.schedulers.docker.labels import KEY, NONCE, common
from torchx_core.schedulers.docker.reconcile import containers_of, stop_what_was_started
from torchx_core.schedulers.docker.records import AppRecord, Stop
from torchx_core.schedulers.docker.removing import remove_everything, remove_unlabelled
from torchx_core.schedulers.docker.request import DockerContainer, DockerRequest, comparable_request, remasked
from torchx_core.schedulers.docker.shim import DATA
from torchx_core.schedulers.docker.volume_state import archive
from torchx_core.schedulers.docker.workspace import is_local_layer
from torchx_core.schedulers.options.docker import FORMER_MEANINGS, PULLS, docker_run_opts

__all__ = ["submit"]

_MOST_TRIES = 5
_CREATOR_PATIENCE_S = 30.0
"""How long the app's creator has, from its record on, to make the network and to decide about a refusal."""
_CREATE_PATIENCE_S = 30.0
_PAUSE_S = 0.05
_HINTS = (
    (r"no such image", "the engine does not have it and pull=never"),
    (r"port is already allocated|address already in use", "choose another port in port_map, or network=none"),
    (r"network .*not found", "create it, or set network=app"),
    (r"address pool", "too many networks on this engine: remove some, or set network=bridge"),
    (r"could not select device driver", "the engine has no GPUs or no driver for them"),
    (r"bind source path does not exist", "paths are those of the engine's host"),
)


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
            try:
                completed = _completed(engine, request, app, created=created)
            except Refused as err:
                completed = _completed_by_others(engine, request, app, err, created=created)
            if completed:
                return
            _withdraw(engine, app)
    except SchedulerError as err:
        if isinstance(err, SubmitFailedError):
            raise
        raise SubmitOutcomeUnknownError(request.app_id, str(err)) from err
    raise SubmitOutcomeUnknownError(request.app_id, "others submit it and take it back again and again")


def _withdraw(engine: Engine, app: AppRecord) -> None:
    """Remove what we created of an app that was deleted meanwhile, and the volume that it made anew."""
    remove_everything(engine, app.session, app.app_id, app.nonce)
    remove_unlabelled(engine, app.session, app.app_id, force=False)


def _recorded(engine: Engine, request: DockerRequest) -> tuple[AppRecord, bool]:
    """Return the app's own record and whether this call wrote it; that record comes before everything."""
    nonce, salt = store.new_nonce(), store.new_nonce()
    content = {
        "nonce": nonce,
        "salt": salt,
        "submitted_at": time.time(),
        "asked": comparable_request(request.app, request.cfg, salt),
        "replicas": [asdict(c.planned) for c in request.containers],
    }
    app = store.create(engine, request.session, request.app_id, content)
    if app.nonce == nonce:
        return app, True
    difference = request_differences(
        remasked(app.app, app.asked, app.salt),
        comparable_request(request.app, request.cfg, app.salt, cast("dict[str, str]", app.asked["secrets"])),
        docker_run_opts(),
        FORMER_MEANINGS,
    )
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
            remove_everything(engine, app.session, app.app_id, app.nonce)
            return False
        if records.stop is not None or records.final is not None:
            return True
        if records.begun_at is not None:
            _start_rest(engine, request, app)
            return _confirmed(engine, app)
    if not _create_all(engine, request, app, created=created):
        return False
    begun = {"time": time.time()}
    if store.write(engine, app, store.BEGUN, begun)["time"] == begun["time"]:
        _start(engine, request.containers)
    else:  # somebody has begun to start them
        _start_rest(engine, request, app)
    return _confirmed(engine, app)


def _create_all(engine: Engine, request: DockerRequest, app: AppRecord, *, created: bool) -> bool:
    """Create what is missing; return whether it is the app's: false when that was deleted meanwhile.

    Once containers hold the volume, nobody removes it who does not remove them. Before, a delete may have
    removed it, so that they made it anew, without labels; or somebody has submitted the id again.
    """
    _provide_images(engine, request)
    if not _stands(engine, app):  # to pull an image may have taken minutes
        return False
    if request.network:
        _provide_network(engine, request, app, wait=not created)
    answers = each_at_once(lambda c: _create(engine, app, c), request.containers)
    _check(request.containers, answers)
    if not all(answers):  # others create them too
        _await_all(engine, request, app)
        _furnish(engine, request.containers[0])
    return _stands(engine, app)


def _stands(engine: Engine, app: AppRecord) -> bool:
    """Return whether the app's own record is the one there is."""
    return store.nonce_of(engine, app.name) == app.nonce


def _provide_images(engine: Engine, request: DockerRequest) -> None:
    policy = str(request.cfg["pull"])
    for image in sorted({c.image for c in request.containers}):
        if is_local_layer(image):
            continue  # nobody else has it
        if policy == PULLS[1] or (policy == PULLS[0] and not engine.has_image(image)):
            engine.pull(image)


def _provide_network(engine: Engine, request: DockerRequest, app: AppRecord, *, wait: bool) -> None:
    """Create the network; only one submitter does, because two at once might get two of the same name."""
    name = cast("str", request.network)
    ours_at = _ours_at(app, created=not wait)
    while time.time() < ours_at and not engine.network_ids(name):
        time.sleep(_PAUSE_S)  # noqa: TID251  # the app's creator is at work, or dead: nothing tells
    engine.create_network(name, common(request.session, request.app_id, "network"))


def _create(engine: Engine, app: AppRecord, spec: DockerContainer) -> bool:
    """Return whether the container is ours; false when somebody was faster."""
    labels = {**cast("dict[str, str]", spec.config["Labels"]), NONCE: app.nonce}
    try:
        engine.create_container(spec.planned.container, {**spec.config, "Labels": labels})
    except Refused as err:
        if not err.conflict:
            raise
        if not _remove_stray(engine, app, spec.planned.container):
            return False
        engine.create_container(spec.planned.container, {**spec.config, "Labels": labels})
    if spec.planned.index == 0:
        _furnish(engine, spec)
    return True


def _remove_stray(engine: Engine, app: AppRecord, container: str) -> bool:
    """Remove a container that an earlier submit of the id has created too late; return whether it was one.

    Our record is looked at after the container: while it stands, nobody's is later.
    """
    stray = next((c for c in containers_of(engine, app.key) if c.name == container), None)
    if stray is None or stray.labels.get(NONCE, app.nonce) == app.nonce or not _stands(engine, app):
        return False
    engine.remove_container(stray.id)
    return True


def _furnish(engine: Engine, spec: DockerContainer) -> None:
    """Make the directories on the app's volume, which any of its containers gives access to.

    Source: an archive can be put into a container that was never started; what it holds below a mounted
    volume lies in the volume then (seen on engine 20.10.24).
    """
    engine.put(spec.planned.container, DATA, archive({}, ("state", "reports")))


def _await_all(engine: Engine, request: DockerRequest, app: AppRecord) -> None:
    """Wait until every container exists.

    A name is taken, and listed, a while before there is a container to ask for (seen on engine 20.10.24).
    """
    deadline = time.monotonic() + _CREATE_PATIENCE_S
    wanted = [c.planned.container for c in request.containers]
    while missing := _missing(engine, app, wanted):
        foreign = sorted(name for name, key in missing.items() if key is not None)
        if foreign or time.monotonic() > deadline:
            names = ", ".join(foreign or sorted(missing))
            raise Refused(f"containers of others have these names: {names}; remove them", status=409)
        wanted = list(missing)
        time.sleep(_PAUSE_S)  # noqa: TID251  # another submitter creates them, and nothing tells


def _missing(engine: Engine, app: AppRecord, names: Sequence[str]) -> dict[str, str | None]:
    """Return which of the containers are not the app's, and whose they are, if anybody's."""
    found = all_of(each_at_once(engine.container_labels, names))
    keys = [None if labels is None else labels.get(KEY, "") for labels in found]
    return {name: key for name, key in zip(names, keys, strict=True) if key != app.key}


def _start_rest(engine: Engine, request: DockerRequest, app: AppRecord) -> None:
    idle = {c.name for c in containers_of(engine, app.key) if c.state == "created"}
    _start(engine, [c for c in request.containers if c.planned.container in idle])


def _start(engine: Engine, containers: Sequence[DockerContainer]) -> None:
    _check(containers, each_at_once(lambda c: engine.start(c.planned.container), containers))


def _check(containers: Sequence[DockerContainer], answers: Iterable[object]) -> None:
    """Raise the first answer that is an error, told for people."""
    for spec, answer in zip(containers, answers, strict=True):
        if isinstance(answer, Refused):
            planned = spec.planned
            raise Refused(f"{planned.role}/{planned.replica}: {explain(answer)}", status=answer.status)
        if isinstance(answer, SchedulerError):
            raise answer


def _completed_by_others(
    engine: Engine, request: DockerRequest, app: AppRecord, refused: Refused, *, created: bool
) -> bool:
    """Return True when others have completed the app in spite of a refusal; else see that nothing is left.

    Raises:
        SubmitFailedError: The app was taken back.
    """
    failed = SubmitFailedError(f"cannot submit app {request.app_id!r}: {refused}")
    ours_at = _ours_at(app, created=created)
    while True:
        records = store.read(engine, app.session, app.app_id)
        if records is None or records.app.nonce != app.nonce:
            _withdraw(engine, app)
            raise failed from refused
        if records.stop is not None and records.stop.outcome != UNDONE:
            return True  # it is over, or about to be: somebody cancelled it
        if records.begun_at is not None and _all_started(engine, request, app):
            return _confirmed(engine, app)
        if records.stop is not None or time.time() >= ours_at:
            _take_back(engine, app, str(refused))
            raise failed from refused
        time.sleep(_PAUSE_S)  # noqa: TID251  # its creator decides, and nothing tells


def _ours_at(app: AppRecord, *, created: bool) -> float:
    """Return from when on we may do what only one submitter does; its clock may be ahead of ours."""
    return 0.0 if created else min(time.time(), app.submitted_at) + _CREATOR_PATIENCE_S


def _all_started(engine: Engine, request: DockerRequest, app: AppRecord) -> bool:
    started = {c.name for c in containers_of(engine, app.key) if c.state != "created"}
    return {c.planned.container for c in request.containers} <= started


def _take_back(engine: Engine, app: AppRecord, why: str) -> None:
    """Remove what there is; written down first, so that whoever comes next goes on if we die."""
    stop = Stop(outcome=UNDONE, msg=why, grace_s=0, time=time.time())
    store.write_stop(engine, app, stop)
    remove_everything(engine, app.session, app.app_id, app.nonce)


def _confirmed(engine: Engine, app: AppRecord) -> bool:
    """Return whether the app is still there; whoever cancelled it meanwhile may have missed our starts."""
    records = store.read(engine, app.session, app.app_id)
    if records is None or records.app.nonce != app.nonce:
        return False
    stop_what_was_started(engine, records)
    return records.stop is None or records.stop.outcome != UNDONE


def explain(refused: Refused) -> str:
    """Return what the engine said and what to do about it."""
    said = str(refused)
    for pattern, hint in _HINTS:
        if re.search(pattern, said, re.IGNORECASE | re.DOTALL):
            return f"{said}; {hint}"
    return said
