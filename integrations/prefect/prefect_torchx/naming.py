"""Names the app that a call of `run_app` is after, and the call that holds an app.

An app's id follows from what does not change when Prefect runs a piece of work again: the flow run, the task
and the request. It cannot hold the task run, because a flow run that is retried gives its tasks new ones, nor
a subflow's run, which a parent that runs again makes anew. So equal requests of one task are told apart by a
slot number, and who has which slot is written down where the apps are: in each app's owner token.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from torchx_core.launch import AppRequest
from torchx_core.schedulers.earlier_requests import in_former_words

__all__ = ["FLOW_RUN", "REAPED", "FlowTry", "Holder", "Standing", "Work", "is_given_up", "stand"]

_READABLE = 28
_HASH = 16
_RUN = 12
"""Of a flow run's id the last characters: the first ones are the time."""
_ATTEMPT = re.compile(rf"(.+-[0-9a-f]{{{_HASH}}})(?:-(\d+))?")
_KIND = "prefect"
SLOTS = 1000
"""How many equal calls of one run are told apart also where apps in between have been deleted."""
_GIVEN_UP = "given up"

FLOW_RUN = "prefect.flow_run_id"
"""The key of an app's metadata that says which flow run it belongs to; none for apps that runs share."""
REAPED = f"{_KIND}:reaper:{_GIVEN_UP}"
"""The owner token of an app that was cancelled because its flow run was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A piece of work, the same for every try of it."""

    name: str
    """For people."""
    identity: str
    """Tells it from every other piece of work."""

    @staticmethod
    def of_request(run: str, request: AppRequest) -> Work:
        """Return the work of carrying out that request.

        Args:
            run: The flow run and the task.
            request: What to run, where, with which options.
        """
        app = in_former_words(request.app.to_dict())
        parts = [app, request.scheduler, dict(request.cfg), request.workspace]
        return Work(
            name=request.app.name, identity=f"{run}\n{json.dumps(parts, sort_keys=True, default=str)}"
        )

    @staticmethod
    def of_key(key: str) -> Work:
        """Return the work that its user has named."""
        return Work(name=key, identity=f"key\n{key}")

    def app_id(self, *, slot: int = 0, attempt: int = 0) -> str:
        """Return an app id: readable, at most about 50 characters, of lower-case letters, digits and dashes.

        Args:
            slot: How many calls of one run with the very same request come before.
            attempt: How many apps of this slot have failed before.

        Example:
            >>> Work(name="Train it", identity="x").app_id(attempt=1)
            'train-it-fa9d1b0268068b49-2'
        """
        return f"{self.beginning}{self._digest(slot)}" + (f"-{attempt + 1}" if attempt else "")

    @property
    def beginning(self) -> str:
        """What the ids of all its apps begin with."""
        name = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:_READABLE].strip("-") or "app"
        return f"{name}-"

    def _digest(self, slot: int) -> str:
        return hashlib.sha256(f"{slot}\n{self.identity}".encode()).hexdigest()[:_HASH]

    def latest_attempts(self, app_ids: Iterable[str]) -> dict[int, int]:
        """Return which slots have apps among these, lowest first, and the latest attempt of each.

        Example:
            >>> work = Work(name="x", identity="x")
            >>> work.latest_attempts([work.app_id(slot=2, attempt=3), work.app_id(slot=2), "another"])
            {2: 3}
        """
        latest: dict[str, int] = {}
        for first, number in (found.groups() for found in map(_ATTEMPT.fullmatch, app_ids) if found):
            latest[first] = max(latest.get(first, 0), int(number or 1) - 1)
        beginning = self.beginning
        ids = ((slot, f"{beginning}{self._digest(slot)}") for slot in range(SLOTS if latest else 0))
        return {slot: latest[app_id] for slot, app_id in ids if app_id in latest}


class FlowTry(NamedTuple):
    """One start of a flow run."""

    run: str
    number: int
    """Prefect's run count."""
    pauses: int = 0
    """How often it had been suspended or paused since that count: to go on after that does not count."""

    def __str__(self) -> str:
        return f"{self.run[-_RUN:]}.{self.number}" + (f"p{self.pauses}" if self.pauses else "")

    @staticmethod
    def parse(text: str) -> FlowTry:
        """Read what ``str`` has made, which has the end of the run's id only."""
        run, counts = text.split(".")
        number, _, pauses = counts.partition("p")
        return FlowTry(run=run, number=int(number), pauses=int(pauses or 0))

    @property
    def age(self) -> tuple[int, int]:
        """Is greater for every later start of the same flow run."""
        return self.number, self.pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One call of `run_app`, in one try of a task run, in one try of a flow run."""

    flow_tries: tuple[FlowTry, ...]
    """The flow run, and before it those that it is part of, the root first; empty without one."""
    task_run_id: str
    """Empty in the body of a flow."""
    task_try: int
    call: str
    """Tells calls within one try apart; begins with when the task was begun, in ms since the epoch."""
    is_distributed: bool = field(default=False, compare=False)
    """Whether the task runs in another process than its flow, in a pool or a cluster."""

    @property
    def is_retry(self) -> bool:
        """Whether Prefect has run the same work before."""
        return self.task_try > 1 or any(each.age > (1, 0) for each in self.flow_tries)

    @property
    def has_predecessors(self) -> bool:
        """Whether an earlier try of the same work may have had apps.

        A cluster that loses a worker runs its task again; Prefect does not know, and counts the same try.
        """
        return self.is_retry or self.is_distributed

    @property
    def age(self) -> tuple[int, int]:
        """Is greater for every later try of the same task run, and every time that a try is run again."""
        began = re.match(r"(\d+)-", self.call)
        return self.task_try, int(began[1]) if began else 0

    def is_of(self, flow_run_id: str) -> bool:
        """Return whether the call was made in that flow run, or in a part of it."""
        return any(each.run[-_RUN:] == flow_run_id[-_RUN:] for each in self.flow_tries)

    @property
    def token(self) -> str:
        """The owner token of an app that this call holds."""
        tries = "/".join(map(str, self.flow_tries))
        return f"{_KIND}:{tries}:{self.task_run_id}:{self.task_try}:{self.call}"

    @property
    def cancelled_token(self) -> str:
        """The owner token of an app that this call held and has cancelled."""
        return f"{self.token}:{_GIVEN_UP}"

    @staticmethod
    def parse(token: str) -> Holder | None:
        """Read an owner token; None when somebody else wrote it."""
        shape = rf"{_KIND}:((?:\w+\.\d+(?:p\d+)?/?)*):([^:]*):(\d+):([^:]*)"
        found = re.fullmatch(shape, token.removesuffix(f":{_GIVEN_UP}"))
        if found is None:
            return None
        return Holder(
            flow_tries=tuple(FlowTry.parse(each) for each in found[1].split("/") if each),
            task_run_id=found[2],
            task_try=int(found[3]),
            call=found[4],
        )


class Standing(Enum):
    """How a call stands to an app with a certain owner."""

    FREE = "nobody holds it, or an earlier try of the same work: take it over"
    TAKEN = "another call of the same run holds it: look further"
    GIVEN_UP = "its holder has cancelled it: wait for its end, then start anew"
    OVERTAKEN = "a later try holds it, or somebody who is no call of ours: leave it alone"


def is_given_up(owner: str) -> bool:
    """Return whether who held the app with this owner token has cancelled it."""
    return owner.endswith(f":{_GIVEN_UP}")


def stand(owner: str | None, me: Holder) -> Standing:
    """Compare an app's owner token with the call that came across the app."""
    if owner in (None, me.token):
        return Standing.FREE  # submitted by a process that died before it could sign, or by this very call
    assert owner is not None
    holder = Holder.parse(owner)
    standing = _compare(holder, me) if holder else None
    if is_given_up(owner) and standing is not Standing.OVERTAKEN:  # a later try decides what follows
        return Standing.GIVEN_UP
    return standing or Standing.OVERTAKEN


def _compare(holder: Holder, me: Holder) -> Standing:
    for theirs, mine in zip(holder.flow_tries, me.flow_tries, strict=False):
        if theirs.run[-_RUN:] != mine.run[-_RUN:]:
            return Standing.TAKEN  # another call of the subflow
        if theirs.age != mine.age:
            return _by_age(theirs.age, mine.age)
    if holder.task_run_id != me.task_run_id or holder.age == me.age:
        return Standing.TAKEN
    return _by_age(holder.age, me.age)


def _by_age(theirs: tuple[int, ...], mine: tuple[int, ...]) -> Standing:
    return Standing.FREE if theirs < mine else Standing.OVERTAKEN
