"""What a workload may ask of each of the compared ways to run a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

J = TypeVar("J")


class Side(Protocol[J]):
    """One way to run jobs; `J` is what it knows a job by."""

    importing: str
    """A Python statement: import it and get what runs jobs."""
    starting: str
    """A Python program: the same, and start ``true``; ``sys.argv[1]`` is a folder that it may fill."""

    def submit(
        self, command: Sequence[str], replicas: int = 1, *, log_mode: str = "exact", live: bool = False
    ) -> J:
        """Start that many copies; ``live`` when `tail` will be called."""
        ...

    def wait(self, job: J, *, tuned: bool = True) -> None:
        """Block until every copy has ended; ``tuned`` allows settings that a user must know of."""
        ...

    def status(self, job: J) -> object:
        """Ask how the job is."""
        ...

    def cancel(self, job: J) -> None:
        """Ask for the job's end; `wait` tells when it came."""
        ...

    def read(self, job: J) -> list[str]:
        """Return the lines of an ended job of one copy, by the fastest means."""
        ...

    def read_each(self, job: J) -> list[str]:
        """Return the same, fetched line by line."""
        ...

    def tail(self, job: J) -> Iterator[Sequence[str]]:
        """Yield the lines of a job of one copy as they come, until it has ended."""
        ...

    def tail_all(self, job: J, replicas: int) -> list[list[str]]:
        """Return each copy's lines, gathered while they run."""
        ...

    def watch(self, jobs: Sequence[J]) -> None:
        """Await all the jobs and their output in this process, until all have ended."""
        ...

    def close(self) -> None:
        """Stop what still runs."""
        ...
