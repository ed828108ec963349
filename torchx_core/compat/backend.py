"""What the bridge needs from a TorchX scheduler, whichever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torchx_core.compat import _torchx
from torchx_core.schedulers.events import StreamName
from torchx_core.specs import NONE, AppDef, AppState, CfgVal, ReplicaStatus

__all__ = ["Backend", "Lines", "LogsUnavailableError", "ReplicaKey", "Sight"]

ReplicaKey = tuple[str, int]
"""Role and number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How an app looked, when it was looked at."""

    state: AppState
    msg: str = ""
    structured_error_msg: str = NONE
    ui_url: str | None = None
    num_restarts: int = -1
    replicas: Mapping[ReplicaKey, ReplicaStatus] = field(default_factory=dict[ReplicaKey, ReplicaStatus])
    """What is known of single replicas; the others share the app's state."""


class Lines(NamedTuple):
    """Some lines of one replica and stream, and where to go on."""

    texts: tuple[str, ...]
    position: int
    eol: bool = True
    """Whether the last one ended in a newline."""
    more: bool = False
    """Whether there is more to read at once."""


class LogsUnavailableError(Exception):
    """The lines cannot be read now; perhaps later."""


class Backend(ABC):
    """One TorchX scheduler for one session; shared by all bridges of this process."""

    streams: tuple[StreamName, ...] = ("stdout", "stderr")
    """The outputs that it keeps apart; only ``stdout`` where both are one."""
    survives: bool = True
    """Whether its apps outlive this process."""

    def __init__(self, name: str, upstream: _torchx.Upstream) -> None:
        self.name = name
        self.upstream = upstream

    def check(self, app: AppDef) -> None:  # noqa: B027  # most ignore nothing
        """Raise InvalidAppError for what this backend would silently ignore."""

    def render(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> _torchx.NativeDryRun:
        """Return TorchX's own dry run of the app.

        Raises:
            InvalidAppError: TorchX refuses the app.
            SchedulerError: It cannot say; a client is missing or a service away.
        """
        return _torchx.dry_run(self.upstream, self.name, app, cfg)

    @abstractmethod
    def submit(self, native: _torchx.NativeDryRun) -> str:
        """Submit and return TorchX's own app id.

        Raises:
            SubmitFailedError: As far as can be known, nothing is left behind.
        """

    @abstractmethod
    def look(self, native_id: str) -> Sight | None:
        """Return how the app is doing, or None when the backend has no trace of it.

        Raises:
            SchedulerError: The backend cannot be asked; retryable.
        """

    def describe_native(self, native_id: str) -> str | None:  # noqa: ARG002  # most have nothing to add
        """Return the app's request as the backend has it, or None."""
        return None

    def size_bytes(self, native_id: str) -> int:  # noqa: ARG002  # most have no files here
        """Return how much disk space of this host the app takes."""
        return 0

    @abstractmethod
    def read(
        self, native_id: str, key: ReplicaKey, stream: StreamName, position: int, *, ended: bool
    ) -> Lines:
        """Return whole lines from the position on; the unfinished last one only when the replica has ended.

        Raises:
            LogsUnavailableError: Not now.
        """

    @abstractmethod
    def cancel(self, native_id: str, grace_s: float | None) -> None:
        """Begin to end the app; may return before it has ended.

        Raises:
            SchedulerError: The backend cannot be asked; retryable.
        """

    def close(self) -> None:  # noqa: B027  # some hold nothing that may be released
        """Release what is held in this process; apps go on."""

    @abstractmethod
    def forget(self, native_id: str) -> None:
        """Remove what the backend keeps of an app that has ended; raises nothing."""
