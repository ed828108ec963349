"""Which flow runs a worker takes on that it did not submit; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

__all__ = ["NOBODY", "WORKER_LABEL", "Crew"]

WORKER_LABEL = "prefect.worker.name"
"""The label with which Prefect's workers mark a flow run as theirs, before they submit it."""
NOBODY = "(whoever can see its app)"
"""The name on a flow run that a worker marked which was too late, and cannot know whose it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The workers of a pool, as one of them sees them."""

    me: str
    """Workers of one name are one worker to Prefect: whoever bears mine was here before me."""
    others: Collection[str]
    """Who is online beside me."""

    def is_mine(self, flow_run: FlowRun) -> bool:
        """Return whether I, or a worker before me with my name, took the flow run."""
        return flow_run.labels.get(WORKER_LABEL) == self.me

    def orphans(self, active: Iterable[FlowRun], held: Collection[UUID]) -> Iterator[FlowRun]:
        """Yield the flow runs that nobody looks after: mine that I do not hold, and those of the departed.

        A flow run without a worker's name is being taken right now.
        """
        for flow_run in active:
            worker = flow_run.labels.get(WORKER_LABEL)
            if worker and worker not in self.others and flow_run.id not in held:
                yield flow_run
