"""Looks at an app and does what is to be done about it: whoever asks for its status or follows it.

There is no daemon. What must hold when nobody looks, the replicas' own scripts see to (`shim`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker.answers import Container, Refused
from torchx_core.schedulers.docker.client import Engine, all_of, each_at_once
from torchx_core.schedulers.docker.decide import Decision, End, Finish, Halt, Launch, Order, decide
from torchx_core.schedulers.docker.labels import app_key, of_app
from torchx_core.schedulers.docker.polling import look
from torchx_core.schedulers.docker.records import AppRecord, Records, Restart, Stop
from torchx_core.schedulers.docker.shim import STATE
from torchx_core.schedulers.docker.view import (
    AppView,
    Phase,
    dump_final,
    is_up,
    replicas_among,
    why,
)
from torchx_core.schedulers.docker.volume_state import archive, last_result
from torchx_core.specs import AppState

__all__ = ["carry_out", "halt", "reconcile", "record_end", "stop_what_was_started"]

logger: Final = logging.getLogger(__name__)

_MOST_STEPS = 20
"""More than any app needs between two waits; a bound, because a loop without one may be a busy one."""


def reconcile(engine: Engine, session: str, app_id: str) -> AppView | None:
    """Return how the app stands, after doing what is to be done about it; None when there is no such app.

    Takes three requests while there is nothing to do, two once the app is over.
    """
    view = decision = None
    for _ in range(_MOST_STEPS):
        view = engine.ask(lambda: look(app_key(session, app_id)))
        if view is None:
            return None
        if isinstance(decision, Launch):
            stop_what_was_started(engine, view.records)
        decision = decide(view, time.time())
        if decision is None:
            return view
        carry_out(engine, view, decision)
        if isinstance(decision, Halt):
            return view
    return view


def containers_of(engine: Engine, key: str) -> list[Container]:
    """Return the app's containers, by index."""
    return replicas_among(engine.containers(of_app(key)))


def record_end(engine: Engine, view: AppView, outcome: str, msg: str) -> None:
    """Write how the app ended, unless somebody has written it."""
    reports = view.volume_state.reports
    result = None if reports is None else last_result(reports)
    store.write(engine, view.app, store.FINAL, dump_final(view, outcome, msg, result, time.time()))


def stop_what_was_started(engine: Engine, records: Records) -> None:
    """Stop what runs of an app that was told to end, or has ended, while somebody started replicas.

    Whoever starts reads the records afterwards and calls this; whoever writes that the app is to end looks
    afterwards for what runs (`end`). So one of the two sees the other, however long one of them is stopped.
    """
    if records.stop is not None:
        halt(engine, _running(engine, records.app), records.stop.grace_s)


def _running(engine: Engine, app: AppRecord) -> list[str]:
    return [container.id for container in containers_of(engine, app.key) if is_up(container)]


def halt(engine: Engine, containers: Sequence[str], grace_s: float) -> None:
    """Have the engine stop the containers, all at once; it serves the grace period when we are gone.

    Raises:
        SchedulerError: The engine does not answer; or one of them cannot be stopped.
    """
    seconds = int(-(-grace_s // 1))  # whole ones, rounded up
    all_of(each_at_once(lambda container: engine.stop(container, seconds), containers))


def carry_out(engine: Engine, view: AppView, decision: Decision) -> None:
    """Do it."""
    match decision:
        case End():
            end(engine, view, decision.stop)
        case Order():
            _order(engine, view, decision.restart)
        case Halt():
            halt(engine, [r.container for r in decision.replicas], 0)
        case Launch():
            _launch(engine, view, decision)
        case Finish():
            record_end(engine, view, decision.outcome, decision.msg)
        case _:
            assert_never(decision)


def end(engine: Engine, view: AppView, stop: Stop) -> Stop:
    """Write down that the app is to end and stop it; return the request that counts, which is the first one.

    A later one may be in more of a hurry: of several stops the engine obeys the one whose time is over first.
    """
    stored = store.write_stop(engine, view.app, stop)
    halt(engine, _running(engine, view.app), min(stored.grace_s, stop.grace_s))
    return stored


def _order(engine: Engine, view: AppView, restart: Restart) -> None:
    logger.info("app %s: restart %d: %s", view.app.app_id, restart.number, restart.cause)
    stored = store.write(engine, view.app, f"{store.RESTART}.{restart.number}", store.dump_restart(restart))
    if stored["time"] != restart.time:
        return  # somebody else's order: what we saw run may be of before it, and runs again by now
    up = view.in_phase(Phase.UP, Phase.AGAIN)
    halt(engine, [r.container for r in up if r.planned.index in restart.targets], view.app.grace_s)


def _launch(engine: Engine, view: AppView, launch: Launch) -> None:
    orders = dict(_orders(launch))
    if orders and not _put(engine, launch.replicas[0].container, archive(orders)):
        return  # the next look shows what became of it
    answers = each_at_once(lambda r: engine.start(r.container), launch.replicas)
    for replica, answer in zip(launch.replicas, answers, strict=True):
        if isinstance(answer, Refused):
            msg = f"{why(view, replica)}; {answer}"
            stop = Stop(
                outcome=AppState.FAILED.name,
                msg=msg,
                grace_s=view.app.grace_s,
                time=time.time(),
                cause=replica.planned.index,
            )
            end(engine, view, stop)
        elif isinstance(answer, SchedulerError):
            raise answer


def _put(engine: Engine, container: str, tar: bytes) -> bool:
    """Write to the app's state; return False when somebody has removed the container, or what it wrote."""
    try:
        engine.put(container, STATE, tar)
    except Refused as err:
        if err.not_found:
            return False
        raise
    return True


def _orders(launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield what lets the replicas' scripts begin their attempts, and what they may not know of the last."""
    for replica in launch.replicas:
        index, last = replica.planned.index, replica.last
        if index in launch.attempts:
            ended = f" {last.code} {last.ended_at}" if last and last.ended_at is not None else ""
            yield f"order.{index}", f"{launch.attempts[index]}{ended}\n"
