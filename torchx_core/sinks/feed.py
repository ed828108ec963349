"""Gives each report of this process to the sinks that its environment names, until the process ends."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Final, final

from torchx_core.sinks.addresses import without_password
from torchx_core.sinks.entries import Entries
from torchx_core.sinks.named import NamedSink, parse_sinks
from torchx_core.sinks.place import Place
from torchx_core.sinks.sink import Sink, warn
from torchx_core.sinks.writer import Writer

__all__ = ["feed", "leaving_out"]

TellLink = Callable[[str, str], None]
"""Reports where a sink writes to: name, and address or path."""

_lock = threading.Lock()
_sinks: Sinks | None = None


def feed(named: str, report: Mapping[str, object], tell: TellLink) -> None:
    """Give the report to the sinks; nothing outside an app.

    Args:
        named: What the environment names; only that of the first call counts.
        report: As it was made.
        tell: Reports where a sink writes to, once for each.
    """
    global _sinks  # noqa: PLW0603  (an app reports by functions, and has nothing to keep an object in)
    with _lock:
        if _sinks is None:
            _sinks = Sinks(named, tell)
        _sinks.take(report)


@contextmanager
def leaving_out(kind: str) -> Generator[None]:
    """Give what this thread reports meanwhile to all sinks but those of the kind."""
    _thread.left_out = kind
    try:
        yield
    finally:
        _thread.left_out = ""


class _Thread(threading.local):
    left_out = ""


_thread = _Thread()


def _forget() -> None:
    """Begin anew in a forked process: it has no threads, and what its parent has open is its parent's."""
    global _lock, _sinks  # the lock may be held by a thread that is not here
    _lock, _sinks = threading.Lock(), None


def _pause() -> None:
    _paused.extend(writer for _, writer in (_sinks.writers if _sinks else []) if writer.pause())


def _resume() -> None:
    while _paused:
        _paused.pop().resume()


_paused: list[Writer] = []


@cache
def _mind_forks() -> None:
    """Have every fork from now on wait until the clients are idle.

    Of what is called before a fork, the latest that was registered is called first. It must be ours, since
    `logging` and `concurrent.futures` take locks then that a client may need to become idle.
    """
    for name in ("logging", "concurrent.futures.thread"):
        import_module(name)
    os.register_at_fork(before=_pause, after_in_parent=_resume, after_in_child=_forget)


@final
class Sinks:
    """The sinks of one process."""

    def __init__(self, named: str, tell: TellLink) -> None:
        """Import the clients; one that cannot be had is said, and left out."""
        self._tell = tell
        self._entries: Final = Entries()
        self._failed = False
        place = Place.find(os.environ)
        self.writers: Final = [] if place is None else list(self._open_all(named, place))
        if self.writers:
            _mind_forks()
            self._note_failure_of_child()
            # No daemon: while the interpreter waits for it, the clients may start threads and programs. In
            # `atexit` they may not, since Python 3.12.
            threading.Thread(target=self._close_at_end, name="torchx-sinks", daemon=False).start()

    def take(self, report: Mapping[str, object]) -> None:
        """Give the report to each sink."""
        if self.writers and (entries := self._entries.of(report)):
            for kind, writer in self.writers:
                if kind != _thread.left_out:
                    writer.take(entries)

    def _open_all(self, text: str, place: Place) -> Iterator[tuple[str, Writer]]:
        try:
            named_sinks = parse_sinks(text)
        except ValueError as err:
            warn(f"reports go to no metric sink: {err}")
            return
        for named in named_sinks:
            try:
                yield named.kind, self._open(named, place)
            except ImportError as err:
                extra = f"torchx-core[{named.kind}]"
                warn(f"no metrics go to {named.kind}: {err}; install it: pip install '{extra}'")

    def _open(self, named: NamedSink, place: Place) -> Writer:
        sink = _make(named, place)
        return Writer(_shown(named), sink, lambda where: self._tell(named.kind, where))

    def _close_at_end(self) -> None:
        """Wait for the end of the main thread, and of others that may still report; then write the rest."""
        threading.main_thread().join()
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
        failed = self._failed or _is_failure(getattr(sys, "last_value", None))
        for _, writer in self.writers:
            writer.close(failed=failed)

    def _note_failure_of_child(self) -> None:
        """Have `multiprocessing` tell how a child of its own ends: no exception reaches `sys` there."""
        processes, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
        if processes is not None and util is not None and processes.parent_process() is not None:
            util.Finalize(None, self._note_failure, exitpriority=0)

    def _note_failure(self) -> None:
        self._failed = _is_failure(sys.exc_info()[1])


def _make(named: NamedSink, place: Place) -> Sink:
    """Return the sink, its client imported; ImportError where that is not installed."""
    match named.kind:
        case "tensorboard":
            from torchx_core.sinks.tensorboard_events import TensorBoardEvents

            return TensorBoardEvents(named.target, place)
        case "mlflow":
            from torchx_core.sinks.mlflow_run import MlflowRun

            return MlflowRun(named.target, place)
        case _:
            from torchx_core.sinks.wandb_offline import WandbOffline

            return WandbOffline(named.target, place)


def _is_failure(error: object) -> bool:
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None


def _shown(named: NamedSink) -> str:
    return without_password(f"{named.kind}:{named.target}").rstrip(":")
