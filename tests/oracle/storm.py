"""Submits, lists, prunes and deletes small apps beside an app of the oracle, as one process of several."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchx_core import AppDef, Runner
from torchx_core.errors import AppNotTerminalError, TorchXError, UnknownAppException

__all__ = ["NEIGHBOUR", "storm"]

Document = dict[str, Any]
NEIGHBOUR = ".neighbour"
"""How the name ends of a file in which an app notes that it ``began`` and ``ended``."""


def storm(
    runner: Runner, request: Document, place: Path, number: int, turns: int
) -> list[tuple[str, BaseException]]:
    """Do all this at random, and return which call raised what it should not.

    Args:
        runner: One of this process.
        request: That of the app beside which this happens: what it needs of its backend the others need too.
        place: Where they note what they do.
        number: Which of several storms this is.
        turns: How often to do everything.
    """
    rng = random.Random(f"{request['app_id']} {number}")
    scheduler, session = request["scheduler"], request["session"]
    handles: list[str] = []
    problems: list[tuple[str, BaseException]] = []

    def attempt(name: str, act: Callable[[], object], *errors: type[TorchXError]) -> None:
        try:
            act()
        except errors:
            return
        except Exception as err:  # noqa: BLE001  # the judge decides
            problems.append((name, err))

    def submit(app_id: str) -> None:
        (place / f"{app_id}{NEIGHBOUR}").touch()
        app = _small(request["app"], place / f"{app_id}{NEIGHBOUR}", 0.1)
        handles.append(runner.run(app, scheduler, request["cfg"], app_id=app_id))

    for turn in range(turns):
        app_id = f"shared-{rng.randrange(2)}" if rng.random() < 0.4 else f"own-{number}-{turn}"
        attempt("submit a neighbour", lambda app_id=app_id: submit(app_id))  # type: ignore[misc]
        some = rng.choice(handles or [f"{scheduler}://{session}/none"])
        acts: list[tuple[str, Callable[[], object], tuple[type[TorchXError], ...]]] = [
            ("list neighbours", lambda: runner.list(scheduler), ()),
            ("describe a neighbour", lambda some=some: runner.describe(some), ()),  # type: ignore[misc]
            ("prune neighbours", lambda: runner.prune(scheduler, max_count=rng.randrange(3)), ()),
            ("delete a neighbour", lambda some=some: runner.delete(some), (AppNotTerminalError,)),  # type: ignore[misc]
            ("follow a neighbour", lambda some=some: list(runner.follow(some)), (UnknownAppException,)),  # type: ignore[misc]
        ]
        for name, act, errors in rng.sample(acts, len(acts)):
            attempt(name, act, *errors)
    return problems


def _small(app: Document, notes: Path, seconds: float) -> AppDef:
    """Return an app of one replica that notes its beginning and its end, like the given one otherwise."""
    small = AppDef.from_dict(app)
    del small.roles[1:]
    role = small.roles[0]
    role.entrypoint, role.num_replicas, role.max_retries = "sh", 1, 0
    role.args = ["-c", f"echo began >> {notes}; sleep {seconds}; echo ended >> {notes}"]
    return small
