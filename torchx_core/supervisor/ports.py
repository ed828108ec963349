"""Gives each role of several replicas a TCP port of this host on which they can meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchx_core.supervisor.plan import Plan
from torchx_core.supervisor.spawn import CannotStart

if TYPE_CHECKING:
    import socket


class MeetingPorts:
    """Holds a port per role: bound, so that nobody else is given it, but open to a program that serves it.

    A server that names the port may bind it beside us, since both allow reuse of the address (SO_REUSEADDR,
    which servers set) and we do not listen. The kernel hands a bound port to nobody who asks for any, be it
    another supervisor. The port goes back when this process ends, however it does.
    """

    def __init__(self, plan: Plan) -> None:
        """Hold none yet."""
        self._role_of = [replica.role for replica in plan.replicas]
        self._size = Counter(self._role_of)
        self._held: dict[str, socket.socket] = {}

    def shown_to(self, index: int, running: Iterable[int]) -> int | None:
        """Return the port of the replica's role; None when it is the only one of its role.

        While others of the role run it is theirs. Otherwise it is one that is free now: something left from
        an attempt before, or a program that did not ask, may be on the last one.

        Args:
            index: The replica that is about to start.
            running: The replicas that run.

        Raises:
            CannotStart: The host has none to give.
        """
        role = self._role_of[index]
        if self._size[role] == 1:
            return None
        if not any(self._role_of[other] == role for other in running):
            self._choose(role)
        return int(self._held[role].getsockname()[1])

    def close(self) -> None:
        """Give the ports back; their roles have ended."""
        while self._held:
            self._held.popitem()[1].close()

    def _choose(self, role: str) -> None:
        try:
            chosen = _bound()
        except OSError as err:
            raise CannotStart(f"no port for the replicas to meet on: {err.strerror}", fatal=False) from err
        former = self._held.pop(role, None)
        if former:
            former.close()  # only now: the new one is another
        self._held[role] = chosen


def _bound() -> socket.socket:
    """Return a socket on a port that nobody uses, of either IP version where the host has both."""
    import socket  # imported here: 3 ms that an app of one replica does not pay

    try:
        return _bound_to(socket.socket(socket.AF_INET6, socket.SOCK_STREAM), "::")
    except OSError:
        return _bound_to(socket.socket(socket.AF_INET, socket.SOCK_STREAM), "0.0.0.0")  # noqa: S104  # never listens


def _bound_to(fresh: socket.socket, address: str) -> socket.socket:
    import socket

    try:
        if fresh.family == socket.AF_INET6:
            fresh.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        fresh.bind((address, 0))
        # Only now: the port must be free of everything, also of what allows reuse.
        fresh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        fresh.close()
        raise
    return fresh
