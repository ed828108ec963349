"""A process that has this library in memory and becomes the guardian of one app after the other, by fork(2).

To start an interpreter and load the supervisor costs many times what an app's record costs. So the guardian
that is started as a program leaves a copy of itself behind, which waits a while for submits that come from a
process like the first one's, and then goes. An app is safe without it: whoever finds none, or one that does
not answer, starts the guardian as a program.

==============================================  =====================================================
one of the two dies, or is stopped …            then
==============================================  =====================================================
before the copy has said how much it can take   the submitter starts a program
after that, before the submitter asks           likewise; the copy has no app's descriptors, and goes
after it has asked                              the guardian is one like those that were started as a
                                                program: an app that it cannot serve has never begun
==============================================  =====================================================
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

from torchx_core.supervisor.tree import room, show_as, without_room

if TYPE_CHECKING:
    import socket

VARIABLE = "TORCHX_ZYGOTE"
"""Tells a guardian that it should leave a zygote behind: of what name, and for how many seconds."""
FDS = 5
"""What comes with the words of a guardian's command: control pipe, lock, life sign, log, environment."""
LONGEST_OFFER = 32

ServeApp: TypeAlias = "Callable[[str, int, list[int]], NoReturn]"
"""What a guardian does, given the app's directory, the control pipe, and what else it inherits."""

_PATIENCE_S = 10.0
"""How long a submitter may take to ask."""


def leave_behind(serve_app: ServeApp) -> None:
    """Fork the zygote that the environment asks for, if it does; none of our descriptors stays open in it.

    Args:
        serve_app: What an app's guardian does.
    """
    name, _, idle_s = os.environ.pop(VARIABLE, "").partition(" ")
    if not name:
        return
    show_as(without_room(sys.orig_argv))
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    elif os.fork():
        os._exit(0)  # the zygote is nobody's child
    else:
        try:
            _serve(name, float(idle_s), serve_app)
        finally:
            os._exit(1)


def _serve(name: str, idle_s: float, serve_app: ServeApp) -> None:
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if not show_as(["torchx-zygote", name]):
        return
    import socket  # imported here: no app waits for it

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guardians are not waited for
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address_of(name))  # not when there is one by now
    listening.listen(128)
    listening.settimeout(idle_s)
    gc.freeze()  # what is there stays shared with every guardian: no collection touches it
    while True:
        submitter, _ = listening.accept()
        with submitter:
            if is_mine(submitter) and not os.fork():
                listening.close()
                _become_guardian(submitter, serve_app)


def address_of(name: str) -> str:
    """Return the zygote's address: no file, so that nothing is left of one that was killed."""
    return f"\0torchx-zygote-{name}"


def is_mine(peer: socket.socket) -> bool:
    """Return whether the process at the other end is of this user."""
    import socket

    _pid, uid, _gid = (
        int.from_bytes(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[i : i + 4], sys.byteorder)
        for i in (0, 4, 8)
    )
    return uid == os.geteuid()


def _become_guardian(
    submitter: socket.socket, serve_app: Callable[[str, int, list[int]], NoReturn]
) -> NoReturn:
    try:
        submitter.settimeout(_PATIENCE_S)
        submitter.sendall(b"%d" % room())
        words, (ctl, lock, alive, log, environment) = _receive(submitter)
        submitter.close()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        show_as([*words, *map(str, (ctl, lock, alive))])
        with open(environment, "rb") as file:
            pairs = [pair.split(b"=", 1) for pair in file.read().split(b"\0") if pair]
        os.environb.clear()
        os.environb.update(cast("list[tuple[bytes, bytes]]", pairs))
        serve_app(words[-1], ctl, [lock, alive])
    except BaseException:  # noqa: BLE001  # nothing is above us
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _receive(submitter: socket.socket) -> tuple[list[str], Sequence[int]]:
    import socket

    data, fds, _flags, _address = socket.recv_fds(submitter, room(), FDS)
    if len(fds) != FDS:
        os._exit(0)  # it has changed its mind, or is gone
    return os.fsdecode(data).split("\0"), fds
