"""TorchX's events, for programs that record their own calls by them; the runner here records none."""

from __future__ import annotations

import json
import logging
import os
import time
import traceback
from dataclasses import asdict, dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from torchx_core.settings import ENV_TORCHX_INTERNAL_SESSION_ID

__all__ = ["SourceType", "TorchxEvent", "log_event", "record"]


class SourceType(str, Enum):
    """Where an event comes from."""

    UNKNOWN = "<unknown>"
    INTERNAL = "INTERNAL"
    EXTERNAL = "EXTERNAL"


@dataclass
class TorchxEvent:
    """One call: what was asked for, how long it took, and what it raised.

    Times are in microseconds; ``start_epoch_time_usec`` is counted from the epoch.
    """

    session: str
    scheduler: str
    api: str
    app_id: str | None = None
    app_image: str | None = None
    app_metadata: dict[str, str] | None = None
    runcfg: str | None = None
    raw_exception: str | None = None
    source: SourceType = SourceType.UNKNOWN
    cpu_time_usec: int | None = None
    wall_time_usec: int | None = None
    start_epoch_time_usec: int | None = None
    workspace: str | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    exception_source_location: str | None = None

    def __str__(self) -> str:
        """Return the event as JSON."""
        return self.serialize()

    def serialize(self) -> str:
        """Return the event as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: str | TorchxEvent) -> TorchxEvent:
        """Read what `serialize` gives; an event is returned as it is.

        Raises:
            ValueError: It is no JSON.
            TypeError: It has fields that no event has.
        """
        if isinstance(data, TorchxEvent):
            return data
        event = TorchxEvent(**json.loads(data))
        known = event.source in SourceType.__members__.values()
        event.source = SourceType(event.source) if known else SourceType.UNKNOWN
        return event


def record(event: TorchxEvent, destination: str = "null") -> None:
    """Hand the event, as JSON, to the logger ``torchx_core.events.<destination>``, at level INFO."""
    logging.getLogger(f"torchx_core.events.{destination}").info("%s", event)


class log_event:  # noqa: N801  # TorchX's name
    """Records what a ``with`` block does as one event, also when it raises.

    Example:
        >>> with log_event("upload", scheduler="slurm"):
        ...     pass
    """

    def __init__(
        self,
        api: str,
        scheduler: str | None = None,
        app_id: str | None = None,
        app_image: str | None = None,
        app_metadata: dict[str, str] | None = None,
        runcfg: str | None = None,
        workspace: str | None = None,
    ) -> None:
        """Take the facts of the event."""
        self._event = TorchxEvent(
            session=os.environ.get(ENV_TORCHX_INTERNAL_SESSION_ID, ""),
            scheduler=scheduler or "",
            api=api,
            app_id=app_id,
            app_image=app_image,
            app_metadata=app_metadata,
            runcfg=runcfg,
            workspace=workspace,
        )
        self._cpu_ns = self._wall_ns = 0

    def __enter__(self) -> Self:
        """Begin to count the time."""
        self._event.start_epoch_time_usec = time.time_ns() // 1000
        self._cpu_ns, self._wall_ns = time.process_time_ns(), time.perf_counter_ns()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Record the event."""
        self._event.cpu_time_usec = (time.process_time_ns() - self._cpu_ns) // 1000
        self._event.wall_time_usec = (time.perf_counter_ns() - self._wall_ns) // 1000
        if exc is not None:
            self._tell(exc)
        record(self._event)

    def _tell(self, exc: BaseException) -> None:
        self._event.raw_exception = "".join(traceback.format_exception(exc))
        self._event.exception_type = type(exc).__name__
        self._event.exception_message = str(exc)
        for frame in traceback.extract_tb(exc.__traceback__)[-1:]:
            place = {"filename": frame.filename, "lineno": frame.lineno, "name": frame.name}
            self._event.exception_source_location = json.dumps(place)
