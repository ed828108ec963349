"""Names a try of a task, and the app that it runs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

__all__ = ["TaskTry", "make_app_id", "try_number_of", "was_given_up"]

_READABLE = 32
_HASH = 10
_TOKEN = re.compile(r"airflow-try-(\d+)-")
_RESUMED = "-resumed"
_CANCELLED = "-farewell"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTry:
    """One try of one task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    """-1 for a task that is not mapped."""
    ti_id: str
    """Airflow's own id; a new one for every try."""
    number: int
    """1-based; goes up with every try, also across clears."""
    generation: int
    """The task instance's ``max_tries``: constant over retries, higher after a clear, because Airflow sets
    it to the tries so far plus ``retries``."""
    is_rescheduled: bool = False
    """Whether this try has begun before: it looked for its app in vain, and Airflow was to start it again."""
    is_resumed: bool = False
    """Whether it goes on after a deferral, and has the app from its trigger."""

    @property
    def token(self) -> str:
        """Return the owner token by which the core tells this try from an older one, and from its trigger."""
        return f"airflow-try-{self.number}-{self.ti_id}{_RESUMED if self.is_resumed else ''}"

    @property
    def cancelled_token(self) -> str:
        """Return the owner token of an app that this try has asked to end: a retry must not go on with it."""
        return f"{self.token}{_CANCELLED}"

    def at(self, generation: int) -> TaskTry:
        """Return this try as it would be in another generation."""
        return replace(self, generation=generation)

    @property
    def is_last(self) -> bool:
        """Return whether Airflow will not retry when this try fails."""
        return self.number > self.generation


def try_number_of(token: str | None) -> int:
    """Return the number of the try that an owner token names; 0 when it names none."""
    found = _TOKEN.match(token or "")
    return int(found[1]) if found else 0


def was_given_up(token: str | None) -> bool:
    """Return whether the owner has given its app up; see `TaskTry.cancelled_token`."""
    return token is not None and token.endswith(_CANCELLED)


def make_app_id(this_try: TaskTry, *, salt: str, attempt: int) -> str:
    """Return the app id: readable, at most 50 characters, of lower-case letters, digits and dashes.

    Such a name is good for a directory, a container and a Kubernetes object alike. The hash alone makes it
    unique, so two tasks whose readable parts are cut to the same text stay apart.

    Args:
        this_try: Any try of the generation.
        salt: Tells a deleted and re-created run from the first of that name; empty where nothing can.
        attempt: How many apps of this generation have failed before.
    """
    mapped = f"-{this_try.map_index}" if this_try.map_index >= 0 else ""
    name = re.sub(r"[^a-z0-9]+", "-", f"{this_try.dag_id}-{this_try.task_id}".lower()).strip("-")
    readable = name[: _READABLE - len(mapped)].rstrip("-") or "task"
    identity = (
        this_try.dag_id,
        this_try.run_id,
        this_try.task_id,
        this_try.map_index,
        this_try.generation,
        salt,
    )
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:_HASH]
    again = f"-{attempt + 1}" if attempt else ""
    return f"{readable}{mapped}-{digest}{again}"
