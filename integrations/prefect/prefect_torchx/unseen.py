"""Apps that earlier tries submitted on a host whose apps are not seen on this one. Knows no Prefect."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from socket import gethostname
from time import monotonic
from typing import Final

from prefect_torchx.driver import Pause, Procedure
from prefect_torchx.position import End, NotedApp
from prefect_torchx.reading import SIGN_EVERY_S
from torchx_core.errors import TorchXError
from torchx_core.specs import AppHandle, AppState

__all__ = ["LostAppError", "is_of_another_host", "latest_noted", "outwait_unseen"]

LOOK_EVERY_S: Final = 5.0
"""How often Prefect's server is asked what has been written down of such an app meanwhile."""
SHORTEST_LEASE_S: Final = 3 * SIGN_EVERY_S
"""For how long at least there must be no sign of a follower: it gives one every `SIGN_EVERY_S`."""
ADVICE: Final = "let the workers of a pool share a host, or a scheduler (one Docker engine, Slurm)"


class LostAppError(TorchXError):
    """An earlier try submitted the app on another host, and nobody can tell whether it still runs."""

    def __init__(self, handle: AppHandle, host: str) -> None:
        """Name the app and where it was submitted."""
        super().__init__(
            f"{_whereabouts(handle, host)}; without a lease nobody can tell whether it still runs: end it"
            f" there (torchx-core cancel '{handle}') and start a new flow run, or {ADVICE}"
        )


def latest_noted(
    find: Callable[[AppHandle], NotedApp | None], name: Callable[[int], AppHandle], first: int
) -> tuple[int, NotedApp | None]:
    """Return the latest attempt that is written down, and what; the first one, and None, when none is.

    Args:
        find: Returns what is written down about an app.
        name: Returns the handle of an attempt.
        first: The first attempt that the scheduler does not know.
    """
    latest, noted = first, None
    for attempt in count(first):
        found = find(name(attempt))
        if found is None:
            break
        latest, noted = attempt, found
    return latest, noted


def is_of_another_host(noted: NotedApp) -> bool:
    """Return whether the app was to be submitted on another host, as far as that was written down."""
    return noted.host not in {"", gethostname()}


def outwait_unseen(
    handle: AppHandle,
    noted: NotedApp,
    find: Callable[[AppHandle], NotedApp | None],
    lease_s: float | None,
    say: Callable[[str], None],
    since: float,
) -> Procedure[End | None]:
    """Wait until an app of another host is over: as is written down, or because its lease must be over.

    A process that follows the app renews its lease, and gives a sign of that where the app is written down.

    Args:
        handle: The app.
        noted: What is written down about it.
        find: Returns what is written down about an app by now; None when that cannot be told.
        lease_s: After so many seconds without a follower the app ends; None if it does not.
        say: Told what is waited for.
        since: Since when no sign has been seen, in monotonic seconds.

    Returns:
        How it ended; None when nobody has seen that.

    Raises:
        LostAppError: It has no lease.
    """
    is_told = False
    while noted.end is None:
        if lease_s is None:
            raise LostAppError(handle, noted.host)
        left_s = since + max(lease_s, SHORTEST_LEASE_S) - monotonic()
        if left_s <= 0:
            say(f"the lease of {handle} is over")
            return None
        if not is_told:
            where = _whereabouts(handle, noted.host)
            say(f"{where}; waiting until it has ended, {left_s:.0f} s without a follower at most; {ADVICE}")
            is_told = True
        yield Pause(seconds=min(LOOK_EVERY_S, left_s))
        before, noted = noted, find(handle) or noted
        if noted.changes != before.changes:
            since = monotonic()
    say(f"{handle} ended {noted.end.state} on host {noted.host}{_what_follows(noted.end)}")
    return noted.end


def _what_follows(end: End) -> str:
    if end.state is not AppState.SUCCEEDED:
        return ""
    return "; its result is taken" if end.result else "; its result was not kept, so it runs again"


def _whereabouts(handle: AppHandle, host: str) -> str:
    return (
        f"{handle} was submitted on host {host} by an earlier try of this run, and is unknown on this one,"
        f" {gethostname()}"
    )
