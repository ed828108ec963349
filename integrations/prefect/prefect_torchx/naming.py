"""Names the app that a call of `run_app` is after, and the call that holds an app.

An app's id follows from what does not change when Prefect runs a piece of work again: the flow run, the task
and the request. It cannot hold the task run, because a flow run that is retried gives its tasks new ones. So
equal requests of one task are told apart by a slot number, and who has which slot is written down where the
apps are: in each app's owner token.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import Enum

from torchx_core.launch import AppRequest

__all__ = ["FLOW_RUN", "REAPED", "Holder", "Standing", "Work", "stand"]

_READABLE = 28
_HASH = 16
_KIND = "prefect"
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
        parts = [request.app.to_dict(), request.scheduler, dict(request.cfg), request.workspace]
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
        name = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:_READABLE].strip("-") or "app"
        digest = hashlib.sha256(f"{slot}\n{self.identity}".encode()).hexdigest()[:_HASH]
        return f"{name}-{digest}" + (f"-{attempt + 1}" if attempt else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One call of `run_app`, in one try of a task run, in one try of a flow run."""

    flow_try: int
    """Prefect's run count; 0 without a flow run."""
    task_run_id: str
    """Empty in the body of a flow."""
    task_try: int
    call: str
    """Tells calls within one try apart."""

    @property
    def token(self) -> str:
        """The owner token of an app that this call holds."""
        return f"{_KIND}:{self.flow_try}:{self.task_run_id}:{self.task_try}:{self.call}"

    @property
    def farewell(self) -> str:
        """The owner token of an app that this call held and has cancelled."""
        return f"{self.token}:{_GIVEN_UP}"

    @staticmethod
    def parse(token: str) -> Holder | None:
        """Read an owner token; None when somebody else wrote it."""
        found = re.fullmatch(rf"{_KIND}:(\d+):([^:]*):(\d+):([^:]*)", token.removesuffix(f":{_GIVEN_UP}"))
        if found is None:
            return None
        return Holder(flow_try=int(found[1]), task_run_id=found[2], task_try=int(found[3]), call=found[4])


class Standing(Enum):
    """How a call stands to an app with a certain owner."""

    FREE = "nobody holds it, or an earlier try of the same work: take it over"
    TAKEN = "another call of the same run holds it: look further"
    GIVEN_UP = "its holder has cancelled it: wait for its end, then start anew"
    OVERTAKEN = "a later try holds it, or somebody who is no call of ours: leave it alone"


def stand(owner: str | None, me: Holder) -> Standing:
    """Compare an app's owner token with the call that came across the app."""
    if owner in (None, me.token):
        return Standing.FREE  # submitted by a process that died before it could sign, or by this very call
    assert owner is not None
    if owner.endswith(f":{_GIVEN_UP}"):
        return Standing.GIVEN_UP
    holder = Holder.parse(owner)
    if holder is None:
        return Standing.OVERTAKEN
    if holder.flow_try != me.flow_try:
        return _by_age(holder.flow_try, me.flow_try)
    if holder.task_run_id != me.task_run_id or holder.task_try == me.task_try:
        return Standing.TAKEN
    return _by_age(holder.task_try, me.task_try)


def _by_age(theirs: int, mine: int) -> Standing:
    return Standing.FREE if theirs < mine else Standing.OVERTAKEN
