"""What survives a try: which app it ran, and how far its log got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NotRequired, Protocol, TypedDict, cast

from airflow_torchx._tries import TaskTry
from torchx_core.errors import NewerRecordError

__all__ = ["AirflowUnavailableError", "Memory", "Record", "StoredRecord"]

VERSION = 2


class StoredRecord(TypedDict):
    """A record as JSON."""

    version: int
    handle: str
    generation: int
    attempt: int
    try_number: int
    salt: str
    submitted: bool
    cursor: str | None
    lease_s: float | None
    deadline: float | None
    """Since version 2."""
    unwatched: NotRequired[bool]
    host: NotRequired[str]
    missed_since: NotRequired[float | None]
    reported_lost: NotRequired[int | None]
    ended: NotRequired[str]
    final_status: NotRequired[Mapping[str, object] | None]
    """Older versions know nothing of these six, and may read and write the record all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Which app a task instance runs. Written before the app is submitted."""

    handle: str
    generation: int
    attempt: int
    """How many apps of this generation have failed before this one."""
    try_number: int
    """The try that wrote it."""
    salt: str
    submitted: bool
    """False until the scheduler has confirmed the app: it may or may not exist."""
    cursor: str | None
    """What has been logged so far."""
    lease_s: float | None
    """After how many unwatched seconds the app cancels itself; None for never."""
    deadline: float | None
    """When it must end, in seconds since the epoch; None for never, or where version 1 did not say.

    It differs from try to try, so whoever completes a submit of an earlier one has to ask for the same.
    """
    unwatched: bool = False
    """Whether a triggerer was found not to see the app, so that it is of no use to defer."""
    host: str = ""
    """The name of the host from which it was submitted; empty where an older version did not say."""
    missed_since: float | None = None
    """Since when tries on other hosts have looked for it in vain, in seconds since the epoch."""
    reported_lost: int | None = None
    """The generation that failed because nobody could tell whether the app still runs, and said what to do.

    A user who clears the task after that says that the app has been ended.
    """
    ended: str = ""
    """The terminal state in which a try saw the app; empty as long as none has."""
    final_status: Mapping[str, object] | None = None
    """How it succeeded, as `AppStatus.to_json` has it; None if it has not, or where that is long."""

    def to_json(self) -> StoredRecord:
        """Return the stored form."""
        return StoredRecord(
            version=VERSION,
            handle=self.handle,
            generation=self.generation,
            attempt=self.attempt,
            try_number=self.try_number,
            salt=self.salt,
            submitted=self.submitted,
            cursor=self.cursor,
            lease_s=self.lease_s,
            deadline=self.deadline,
            unwatched=self.unwatched,
            host=self.host,
            missed_since=self.missed_since,
            reported_lost=self.reported_lost,
            ended=self.ended,
            final_status=self.final_status,
        )

    @staticmethod
    def from_json(data: Mapping[str, object], where: str) -> Record:
        """Read the stored form.

        Raises:
            NewerRecordError: A newer version of this package wrote it.
        """
        stored = cast("StoredRecord", data)
        if stored["version"] > VERSION:
            raise NewerRecordError(where, stored["version"], VERSION)
        return Record(
            handle=stored["handle"],
            generation=stored["generation"],
            attempt=stored["attempt"],
            try_number=stored["try_number"],
            salt=stored["salt"],
            submitted=stored["submitted"],
            cursor=stored["cursor"],
            lease_s=stored["lease_s"],
            deadline=stored.get("deadline"),
            unwatched=stored.get("unwatched", False),
            host=stored.get("host", ""),
            missed_since=stored.get("missed_since"),
            reported_lost=stored.get("reported_lost"),
            ended=stored.get("ended", ""),
            final_status=stored.get("final_status"),
        )


class AirflowUnavailableError(Exception):
    """Airflow's server did not answer: something could not be read or written just now."""


class Memory(Protocol):
    """Keeps the record of one task instance over its tries and clears."""

    def salt(self, this_try: TaskTry) -> str:
        """Return what makes the app ids of a new generation unique; empty where ids must be guessable."""
        ...

    def load(self) -> Record | None:
        """Return the record saved last, or None.

        Raises:
            AirflowUnavailableError: It cannot be read now.
        """
        ...

    def save(self, record: Record) -> None:
        """Save the record; once this returns, the next try will load it.

        Raises:
            AirflowUnavailableError: It could not be written.
        """
        ...
