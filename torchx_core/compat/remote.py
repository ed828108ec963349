"""A TorchX scheduler behind a service: everything is asked of it, nothing is kept here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Final

from torchx_core.compat import _torchx
from torchx_core.compat.backend import Backend, Lines, LogsUnavailableError, ReplicaKey, Sight
from torchx_core.errors import SchedulerError, SubmitFailedError
from torchx_core.schedulers.events import StreamName

__all__ = ["RemoteBackend"]

log: Final = logging.getLogger(__name__)

# TorchX's Docker scheduler stops one container after the other, ten seconds each: not with us waiting.
_CANCEL_S = 2.0
_THREAD = "torchx-compat-cancel"


class RemoteBackend(Backend):
    """Docker, Slurm, Kubernetes, and whatever a plugin brings."""

    def __init__(self, name: str, upstream: _torchx.Upstream, *, streams: tuple[StreamName, ...]) -> None:
        super().__init__(name, upstream)
        self.streams = streams

    def submit(self, native: _torchx.NativeDryRun) -> str:
        """Submit; cancel what fails half way, where TorchX says beforehand what its id would be.

        Raises:
            SubmitFailedError: The backend refused.
            SchedulerError: No answer came: the app may be there.
        """
        try:
            with _torchx.translated(f"TorchX could not submit to {self.name}", SubmitFailedError):
                return self.upstream.schedule(native)
        except SubmitFailedError as err:
            if _torchx.was_cut_off(err):
                raise SchedulerError(str(err), retryable=True) from err.__cause__
            native_id = _torchx.native_id_of(native)
            if native_id is not None:
                with _logged(f"taking back {native_id}"):
                    self.upstream.cancel(native_id)
            raise

    def look(self, native_id: str) -> Sight | None:
        """Ask TorchX's ``describe``."""
        with _torchx.translated(f"TorchX cannot describe {native_id} on {self.name}"):
            status = self.upstream.describe(native_id)
        if status is None:
            return None
        replicas = {(r.role, r.id): r for r in _torchx.replica_statuses(status)}
        return Sight(
            state=_torchx.state_of(status.state),
            msg=_told(status.msg),
            structured_error_msg=status.structured_error_msg,
            ui_url=status.ui_url,
            num_restarts=status.num_restarts,
            replicas=replicas,
        )

    def describe_native(self, native_id: str) -> str | None:
        """Ask TorchX's ``describe_native``, which most of its schedulers do not answer."""
        with _torchx.translated(f"TorchX cannot read {native_id} back from {self.name}"):
            ask = getattr(self.upstream, "describe_native", None)  # TorchX 0.7 has none
            native = None if ask is None else ask(native_id)
        return None if native is None else repr(native)

    def read(
        self, native_id: str, key: ReplicaKey, stream: StreamName, position: int, *, ended: bool
    ) -> Lines:
        """Read the log anew and leave out what was delivered; positions are numbers of lines.

        Nothing is tailed: TorchX's tails end early, tear lines, and hold a thread each that nothing can stop.
        """
        role, replica = key
        wanted = _torchx.stream(self.upstream, stream if len(self.streams) > 1 else None)
        # not started yet, gone, undecodable, not supported: TorchX's errors are all different
        with _torchx.translated(f"TorchX cannot read the log of {role}/{replica}", LogsUnavailableError):
            pieces = self.upstream.log_iter(native_id, role, replica, streams=wanted)
            *whole, rest = "".join(pieces).split("\n")
        if rest and ended and position <= len(whole):
            return Lines((*whole[position:], rest), len(whole) + 1, eol=False)
        return Lines(tuple(whole[position:]), max(position, len(whole)))

    def cancel(self, native_id: str, grace_s: float | None) -> None:
        """Have TorchX cancel the app; wait for that a little, to be able to tell what is wrong.

        The grace period is the backend's own: TorchX has no word for another.
        """
        del grace_s
        with _torchx.translated(f"TorchX cannot cancel {native_id} on {self.name}"):
            call = Future[None]()
            threading.Thread(target=_run, args=(call, self.upstream.cancel, native_id), name=_THREAD).start()
            with suppress(TimeoutError):
                call.result(_CANCEL_S)

    def close(self) -> None:
        """Have TorchX release what it holds."""
        with _logged("closing"):
            self.upstream.close()

    def forget(self, native_id: str) -> None:
        """Have TorchX delete the app; its backend may have forgotten it already."""
        delete = getattr(self.upstream, "delete", None)
        if delete is not None:  # as in TorchX 0.7, which leaves it to the backend to forget
            with _logged(f"deleting {native_id}"):
                delete(native_id)


def _run(call: Future[None], function: Callable[[str], None], native_id: str) -> None:
    """Call the function; its error is for whoever still waits, and in the log for whoever has left."""
    with _logged(f"cancelling {native_id}"):
        try:
            function(native_id)
        except Exception as err:
            call.set_exception(err)
            raise
        call.set_result(None)


@contextmanager
def _logged(what: str) -> Generator[None]:
    """Log whatever goes wrong inside, and go on; the traceback is for who asks for debug records."""
    try:
        yield
    except Exception as err:
        traceback = log.isEnabledFor(logging.DEBUG)
        log.warning("%s through TorchX failed: %s: %s", what, type(err).__name__, err, exc_info=traceback)


def _told(msg: str) -> str:
    return "" if msg == "<NONE>" else msg
