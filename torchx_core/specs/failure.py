"""Why an app failed: which replica first, which rank in it, and by what, as status and last lines tell."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from torchx_core.specs.rank_marks import lines_by_rank, uncaught_by_rank
from torchx_core.specs.state import AppState
from torchx_core.specs.status import AppStatus, LastLines, ReplicaStatus
from torchx_core.specs.structured_error import StructuredError, parse_structured_error
from torchx_core.specs.torchelastic import RankFailure, find_rank_failures
from torchx_core.specs.tracebacks import CRASH, Raised, find_raised, find_stacks

__all__ = ["Failure", "by_failure", "find_failure", "find_stops", "is_of_a_peer", "suspects"]

MAX_READ: Final = 8
"""Of how many replicas the last lines are read, at most."""
_NOTHING: Final = LastLines((), ())
_OF_A_PEER: Final = re.compile(
    r"Connection (?:closed|reset|refused)|Connection was likely closed|Broken pipe|Socket (?:closed|Timeout)"
    r"|remote (?:process|server|worker)|ncclRemoteError|ncclSystemError|Timed out waiting \d+ms"
    r"|Application timeout caused pair closure|Watchdog caught collective operation timeout"
    r"|\bDist(?:Network|Store|Backend)Error\b(?!.*, invalid (?:usage|argument) )"
    r"|\bRendezvous\w*Error\b|\bSignalException\b"
)
"""What a process says whose peer is gone: gloo, NCCL, PyTorch's store, and torchrun on another node.

What NCCL calls invalid, as two ranks on one GPU, is the process's own doing.
"""
_ABORTED: Final = signal.SIGABRT.name
"""What may kill a process that ends after an uncaught exception, while threads of native code run still."""
_DEADLINE: Final = "deadline passed"
_LAST_CODE: Final = 128
"""Higher exit codes are those of what a signal has killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How the replica failed that failed first."""

    replica: ReplicaStatus
    in_rank: bool = False
    """Whether it was one of the processes that the replica's torchrun has started."""
    rank: int | None = None
    """Which one, where that is known."""
    exit_code: int | None = None
    """The rank's, where it was one; likewise the signal."""
    signal: str | None = None
    exception: str = ""
    """Its type and the first line of its message, ``ValueError: no data``, where it is seen to be one."""
    place: str = ""
    """Where the program's own code was: ``train.py:12, in load``."""
    text: str = ""
    """All that is known of the error: its message, its traceback."""
    at: str | None = None
    """When, in UTC, where the program has said so."""
    lines: LastLines = _NOTHING
    """What the replica printed last."""
    of_a_peer: bool = False
    """Whether all that is known is that somebody else was gone."""


def by_failure(replicas: Iterable[ReplicaStatus]) -> list[ReplicaStatus]:
    """Return the replicas, who failed first before who failed later, or only because a peer was gone."""
    return sorted(replicas, key=_order)


def suspects(replicas: Iterable[ReplicaStatus]) -> list[ReplicaStatus]:
    """Return who may be why the app failed, most likely first: who FAILED, and who had when told to end."""
    found = by_failure(r for r in replicas if r.state is AppState.FAILED or _has_failed_before(r))
    while found and found[-1].state is not AppState.FAILED:
        found.pop()  # its error is of its being ended
    return found


def find_failure(status: AppStatus) -> Failure | None:
    """Return how the app failed, or None when no replica did; reads last lines, where it can."""
    replicas = [replica for role in status.roles for replica in role.replicas]
    first = suspects(replicas)[:MAX_READ]
    best: Failure | None = None
    for replica in first:
        found = _explained(replica, status)
        if not found.of_a_peer:
            return found
        best = best or found
    stopped = [replica for replica in replicas if replica.state is AppState.CANCELLED]
    return best and (_blamed_by_torchrun(stopped, status, MAX_READ - len(first)) or best)


def find_stops(status: AppStatus) -> Iterator[tuple[str, str]]:
    """Yield who was where when the app's deadline came, as far as `dist.torchrun` had it printed."""
    if not status.msg.startswith(_DEADLINE):
        return
    for replica in [r for role in status.roles for r in role.replicas][:MAX_READ]:
        name = f"{replica.role}/{replica.id}"
        for rank, lines in sorted(lines_by_rank(_read(replica, status).both).items()):
            if place := find_stacks(lines):
                yield (f"{rank} of {name}" if rank else name), place


def _has_failed_before(replica: ReplicaStatus) -> bool:
    """Return whether it may have failed before it was told to end: its error says exactly when that was."""
    error = _error_of(replica) if replica.state is AppState.CANCELLED else None
    return error is not None and error.at is not None and not _OF_A_PEER.search(error.message)


def _order(replica: ReplicaStatus) -> tuple[bool, float]:
    error = _error_of(replica)
    when = replica.ended_at if error is None or error.at is None else error.at
    of_a_peer = error is not None and _OF_A_PEER.search(error.message) is not None
    return of_a_peer, float("inf") if when is None else when


def _error_of(replica: ReplicaStatus) -> StructuredError | None:
    return parse_structured_error(replica.structured_error_msg)


def _read(replica: ReplicaStatus, status: AppStatus) -> LastLines:
    return status.last_lines(replica) if status.last_lines else _NOTHING


def _explained(replica: ReplicaStatus, status: AppStatus) -> Failure:
    """Return how the replica failed: its own error counts most, then what torchrun says, then a traceback."""
    lines, error = _read(replica, status), _error_of(replica) or _error_of_the_app(status)
    own = None if error is None else _by_error(replica, error, lines)
    if own is not None and not own.of_a_peer:
        return own
    ranks = [_by_rank(replica, failure, lines) for failure in find_rank_failures(lines.both)]
    others = [failure for failure in ranks if not failure.of_a_peer]
    return next(iter([*others, *([own] if own else []), *ranks]), None) or _by_traceback(replica, lines)


def _error_of_the_app(status: AppStatus) -> StructuredError | None:
    """Return the error that belongs to no replica."""
    told = {r.structured_error_msg for role in status.roles for r in role.replicas}
    return (
        None if status.structured_error_msg in told else parse_structured_error(status.structured_error_msg)
    )


def _by_error(replica: ReplicaStatus, error: StructuredError, lines: LastLines) -> Failure:
    raised = find_raised(error.traceback.split("\n")) if error.traceback else None
    same = (
        f
        for f in find_rank_failures(lines.both)
        if raised and f.raised and f.raised.exception == raised.exception
    )
    rank = error.rank if error.rank is not None else next((failure.rank for failure in same), None)
    exit_code, killed_by = (replica.exit_code, replica.signal) if rank is None else _ending(error.exit_code)
    return Failure(
        replica=replica,
        in_rank=rank is not None,
        rank=rank,
        exit_code=error.exit_code if exit_code is None and killed_by is None else exit_code,
        signal=killed_by,
        exception=raised.exception if raised else "",
        place=raised.place if raised else "",
        text=error.text,
        at=error.time,
        lines=lines,
        of_a_peer=_OF_A_PEER.search(error.message) is not None,
    )


def _by_rank(replica: ReplicaStatus, failure: RankFailure, lines: LastLines) -> Failure:
    exit_code, killed_by = _ending(failure.code)
    raised = failure.raised
    return Failure(
        replica=replica,
        in_rank=True,
        rank=failure.rank,
        exit_code=exit_code,
        signal=killed_by,
        exception=raised.exception if raised else "",
        place=raised.place if raised else "",
        text=raised.text if raised else "",
        lines=lines,
        # torchrun ends the others when one has failed
        of_a_peer=killed_by == "SIGTERM" or (raised is not None and is_of_a_peer(raised)),
    )


def _by_traceback(replica: ReplicaStatus, lines: LastLines) -> Failure:
    # a program may log what it raised to its stdout
    raised = _raised(replica, lines.stderr) or _raised(replica, lines.both)
    return Failure(
        replica=replica,
        exit_code=replica.exit_code,
        signal=replica.signal,
        exception=raised.exception if raised else "",
        place=raised.place if raised else "",
        text=raised.text if raised else "",
        lines=lines,
        of_a_peer=raised is not None and is_of_a_peer(raised),
    )


def _raised(replica: ReplicaStatus, lines: Sequence[str]) -> Raised | None:
    """Return the exception that the replica ended with, as its lines tell."""
    uncaught = uncaught_by_rank(lines)
    caught = find_raised(uncaught.pop("", ()))
    found = [raised for raised in map(find_raised, uncaught.values()) if raised]
    if replica.signal != _ABORTED:
        found = [raised for raised in found if _may_have_ended(replica, raised)]
    found += [caught] if caught and _may_have_ended(replica, caught) else []
    return next((raised for raised in found if not is_of_a_peer(raised)), found[0] if found else None)


def _may_have_ended(replica: ReplicaStatus, raised: Raised) -> bool:
    """Return whether the exception can be why: who was killed printed it before, unless it tells of that."""
    if replica.signal or (replica.exit_code or 0) > _LAST_CODE:
        return raised.exception.startswith((CRASH, "KeyboardInterrupt"))
    return True


def is_of_a_peer(raised: Raised) -> bool:
    """Return whether the exception only says that somebody else was gone."""
    return _OF_A_PEER.search(raised.exception) is not None


def _blamed_by_torchrun(replicas: Iterable[ReplicaStatus], status: AppStatus, most: int) -> Failure | None:
    """Return how a rank failed of which a stopped replica's torchrun knew before it was told to end."""
    for replica in list(replicas)[: max(0, most)]:
        lines = _read(replica, status)
        for failure in find_rank_failures(lines.both):
            found = _by_rank(replica, failure, lines)
            if not found.of_a_peer:
                return found
    return None


def _ending(code: int | None) -> tuple[int | None, str | None]:
    """Return exit code and signal of what subprocess calls that."""
    if code is None or code >= 0:
        return code, None
    try:
        return None, signal.Signals(-code).name
    except ValueError:
        return None, f"signal {-code}"
