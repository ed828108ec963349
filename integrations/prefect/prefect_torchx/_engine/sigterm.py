"""Has a SIGTERM reach who follows an app, where it would end the process, and where it would get lost.

Prefect turns it into an exception in the process of a flow run. The children of a process pool have no such
handler: without ours a SIGTERM to a worker's process group kills them in the middle of an app's life.

What a handler raises goes up from wherever the main thread happens to be. Below an event loop that is often
a callback or an innocent task, and asyncio lets nothing but KeyboardInterrupt and SystemExit out of those; in
a finaliser it is only reported. So a signal is also remembered, for whoever follows an app to look at.

Python runs a handler when its main thread next runs Python. A signal that comes just before that thread waits
for the events of a loop, or that the kernel gives to another thread, would be seen when the wait is over,
which may be in an hour. So each signal ends the wait: Python writes its number to a socket at once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, TypeAlias, final

from prefect.exceptions import TerminationSignal

__all__ = ["Sigterm", "parent_has_died", "sigterm_watch"]

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None

_PREFECTS_HANDLERS = "prefect.utilities.engine"


@contextmanager
def sigterm_watch() -> Iterator[Sigterm | None]:
    """Raise TerminationSignal for a SIGTERM in the block, and let it have its way once the block is over.

    Only in the main thread. Where Prefect's handler raises it, that is left to it: Prefect acknowledges a
    cancel only while its handler is in place. Where there is no handler, ours is installed; merely raising
    would not do: the pool whose child this is waits until the child has ended, which it does not do of an
    exception. Ctrl-C, which reaches the children of a pool, too, ends them in the same way. On an event loop
    many blocks may be open at once; the last of them ends the process.

    Yields:
        What is known of the signal; None where somebody else handles it.
    """
    sigterm = _open()
    try:
        yield sigterm
    finally:
        if sigterm is not None:
            sigterm.close()


def parent_has_died() -> bool:
    """Return whether this is a process pool's child whose pool is no more; nobody else tells it so.

    It would follow its app for ever, and hold the output of the flow's process open: Prefect's runner takes
    that process for alive until it is closed.
    """
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


class _Terminated(TerminationSignal, KeyboardInterrupt):
    """A SIGTERM's exception that asyncio lets out of an event loop, whose owner then cancels all tasks."""


def _open() -> Sigterm | None:
    if threading.current_thread() is not threading.main_thread():
        return None
    if _bridge.opens():
        return _bridge
    return _listener if _listener.opens() else None


@final
class _Bridge:
    """The handlers of a process that has none, and who needs them."""

    is_ours: Final = True
    """Its handler sees to the signal, and ends the process once nobody needs it any more."""

    def __init__(self) -> None:
        self._users = 0
        self._got: int | None = None
        self._is_told = False
        self._interrupt: Handler = None
        self._numbers = _Numbers()

    def opens(self) -> bool:
        """Take part, unless somebody else handles the signal."""
        if not self._users:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return False
            self._got, self._is_told = None, False
            self._numbers.listen()
            signal.signal(signal.SIGTERM, self._on_sigterm)
            if multiprocessing.parent_process() is not None:
                self._interrupt = signal.signal(signal.SIGINT, self._on_sigint)
        self._numbers.wake_loop()
        self._users += 1
        return True

    def close(self) -> None:
        """Take part no more; who does so last lets a signal that came have its way."""
        self._users -= 1
        if self._users:
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._interrupt is not None:
            signal.signal(signal.SIGINT, self._interrupt)
            self._interrupt = None
        self._numbers.hang_up()
        if self._got is not None:
            # To this thread, which takes it before it goes on. Sent to the process it may come later: where
            # this thread blocks it, and another one has not yet returned from the handler of the first.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            signal.raise_signal(signal.SIGTERM)

    def came(self) -> bool:
        """Return whether the process has got one; whoever asks ends of it, and needs no exception besides."""
        came = self._got == signal.SIGTERM
        self._is_told |= came
        return came

    def pretend(self) -> None:
        """Behave as if one had come, without an exception: the process ends when the last block is over."""
        self._got, self._is_told = signal.SIGTERM, True

    def forget(self) -> None:
        """Listen no more in a process that was forked: its signals are not this one's."""
        self._numbers.forget()

    # One signal is enough. The same may come from the terminal, from the worker and from the flow's process,
    # and a second exception would cut short what the first one made necessary.

    def _on_sigterm(self, signum: int, _frame: FrameType | None) -> None:
        if self._got is not None:
            return
        self._got = signum
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise TerminationSignal(signal=signum) from None
        # Raised between two callbacks it harms neither the loop nor an innocent task. Code that blocks the
        # loop comes first; if it follows an app, it asks whether the signal came.
        loop.call_soon_threadsafe(self._leave_loop)

    def _leave_loop(self) -> None:
        if not self._is_told:
            raise _Terminated(signal=signal.SIGTERM)

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        if self._got is None:
            self._got = signum
            if callable(self._interrupt):  # an event loop's, or the one that raises KeyboardInterrupt
                self._interrupt(signum, frame)


@final
class _Listener:
    """Learns of each signal that Prefect's handler gets, from what Python itself writes to a socket."""

    is_ours: Final = False
    """Prefect's handler sees to it."""

    def __init__(self) -> None:
        self._users = 0
        self._numbers = _Numbers()

    def opens(self) -> bool:
        """Take part where Prefect handles the signal, unless somebody else listens."""
        if not self._users:
            handler = signal.getsignal(signal.SIGTERM)
            if getattr(handler, "__module__", "") != _PREFECTS_HANDLERS:
                return False
            if not self._numbers.listen():
                return False
        self._numbers.wake_loop()
        self._users += 1
        return True

    def close(self) -> None:
        """Take part no more."""
        self._users -= 1
        if not self._users:
            self._numbers.hang_up()

    def came(self) -> bool:
        """Return whether the process has got one."""
        return signal.SIGTERM in self._numbers.take()

    def pretend(self) -> None:
        """Do nothing: whoever handles an exception of Prefect's ends the process."""

    def forget(self) -> None:
        """Listen no more in a process that was forked: its signals are not this one's."""
        self._numbers.forget()


@final
class _Numbers:
    """The numbers of the signals that have come, from what Python itself writes to a socket."""

    def __init__(self) -> None:
        self._came: set[int] = set()
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self) -> bool:
        """Begin anew, and return whether we listen: an event loop with a signal handler does so itself."""
        self._came = set()
        self._sockets = socket.socketpair()
        for each in self._sockets:
            each.settimeout(0)
        before = signal.set_wakeup_fd(self._sockets[1].fileno(), warn_on_full_buffer=False)
        if before == -1:
            return True
        signal.set_wakeup_fd(before)
        self._close()
        return False

    def wake_loop(self) -> None:
        """Have each signal end the wait of the event loop that runs, if one does and we listen."""
        if self._sockets is None or (self._loop is not None and not self._loop.is_closed()):
            return
        with suppress(RuntimeError, NotImplementedError):  # no loop, or one that watches no sockets
            loop = asyncio.get_running_loop()
            loop.add_reader(self._sockets[0], self.take)
            self._loop = loop

    def take(self) -> set[int]:
        """Return which signals have come."""
        with suppress(BlockingIOError):
            while self._sockets is not None and (numbers := self._sockets[0].recv(4096)):
                self._came.update(numbers)
        return self._came

    def hang_up(self) -> None:
        """Listen no more."""
        if self._sockets is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._sockets[0])
        listening = signal.set_wakeup_fd(-1)
        if listening != self._sockets[1].fileno():  # an event loop's, since
            signal.set_wakeup_fd(listening)
        self._close()

    def forget(self) -> None:
        """Listen no more in a process that was forked, and leave the loop alone, which its parent shares."""
        if self._sockets is not None:
            signal.set_wakeup_fd(-1)
            self._close()

    def _close(self) -> None:
        for each in self._sockets or ():
            each.close()
        self._sockets, self._loop = None, None


Sigterm: TypeAlias = _Bridge | _Listener
"""What is known of the signal in this process."""

_bridge: Final = _Bridge()
_listener: Final = _Listener()
for _each in (_bridge, _listener):
    os.register_at_fork(after_in_child=_each.forget)
