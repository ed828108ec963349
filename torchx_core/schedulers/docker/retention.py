"""Which ended apps of a session are forgotten by themselves, when somebody submits the next one.

When a large session was last looked through is written down on the engine, as the name of a volume: whoever
submits to it may be on any host.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import Final, cast

from torchx_core.errors import InvalidRunConfigException, StoredStateError
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import Refused, Volume
from torchx_core.schedulers.docker.client import Engine, each_at_once
from torchx_core.schedulers.docker.labels import APP, KIND, app_key, of_session
from torchx_core.schedulers.docker.reconcile import reconcile
from torchx_core.schedulers.docker.records import Records
from torchx_core.schedulers.docker.removing import remove_everything
from torchx_core.schedulers.docker.view import is_up
from torchx_core.schedulers.option_values import RETENTION, retention
from torchx_core.specs import CfgVal

__all__ = ["FEW", "check_retention", "forget_old", "marks"]

FEW: Final = 100
"""A session with no more records is looked through at every submit: they are listed in milliseconds."""
_INTERVAL_S: Final = 3600
"""How often a larger one is."""
_BUDGET_S: Final = 1.0
"""How long one submit may take to delete apps; the next one goes on."""


def check_retention(cfg: Mapping[str, CfgVal]) -> None:
    """Refuse a retention of this scheduler's that is a size alone.

    Raises:
        InvalidRunConfigException: It is.
    """
    keep = None if cfg.get(RETENTION) is None else retention(cfg)
    if keep is not None and keep.max_age_s == inf:
        problem = "must have an age here, as 30d: the engine does not tell how large an app's log is"
        raise InvalidRunConfigException(f"{RETENTION} {problem}: {cfg[RETENTION]!r}", RETENTION, cfg)


def forget_old(engine: Engine, session: str, max_age_s: float, *, spared: str) -> None:
    """Delete the apps of the session that ended longer ago, as long as that does not take too much time.

    The end of an app counts from when it was first seen. An app that nobody has looked at is looked at.

    Args:
        engine: Where the session is.
        session: The session.
        max_age_s: How long ended apps stay.
        spared: The id of an app that stays, however old it is.

    Raises:
        SchedulerError: The engine does not answer, or refuses.
    """
    now = time.time()
    mark = f"{_mark(session)}{int(now // _INTERVAL_S)}"
    if engine.volume_labels(mark) is not None:
        return
    volumes = engine.volumes(of_session(session))
    apps = store.by_app(volumes)
    apps.pop(spared, None)
    old = [(records.app, records.final) for records in _submitted_before(apps, now - max_age_s)]
    running: set[str | None] = set()
    if any(final is None for _, final in old):
        running = {each.labels.get(APP) for each in engine.containers(of_session(session)) if is_up(each)}
    until = time.monotonic() + _BUDGET_S
    for app, final in old:
        if time.monotonic() > until:
            return
        if final is not None and now - cast("float", final["ended_at"]) > max_age_s:
            with suppress(Refused):  # something holds it: the next look tries again
                remove_everything(engine, session, app.app_id, app.nonce, patience_s=0)
        elif final is None and app.app_id not in running:
            reconcile(engine, session, app.app_id)
    if len(volumes) > FEW:
        earlier = marks(engine, session)
        engine.create_volume(mark, {KIND: "retention"})
        each_at_once(engine.remove_volume, earlier)


def marks(engine: Engine, session: str) -> list[str]:
    """Return the volumes that say when the session was looked through."""
    begin = _mark(session)
    return [v.name for v in engine.volumes({"name": [begin]}) if v.name.startswith(begin)]


def _mark(session: str) -> str:
    return f"torchx-retention-{app_key(session, '')}-"


def _submitted_before(apps: dict[str, list[Volume]], then: float) -> Iterator[Records]:
    for volumes in apps.values():
        try:
            records = store.decode(volumes)
        except StoredStateError:
            continue  # somebody should look at it
        if records is not None and records.app.submitted_at < then:
            yield records
