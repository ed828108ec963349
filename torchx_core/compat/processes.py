"""TorchX's local scheduler: it renders and starts the processes; watching and ending them is done here.

Its own way would replace signal handlers, copy each line by a thread per replica and lose some, signal
process ids that may have been reused, and ignore the grace period.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any, Protocol, cast

from torchx_core.compat import _torchx
from torchx_core.compat.backend import Backend, Lines, LogsUnavailableError, ReplicaKey, Sight
from torchx_core.errors import InvalidAppError, SubmitFailedError
from torchx_core.schedulers.events import StreamName
from torchx_core.schedulers.removing import tree_size
from torchx_core.specs import NONE, AppDef, AppState, CfgVal, ReplicaStatus
from torchx_core.supervisor.reading import MAX_ERROR_FILE_BYTES, DamagedFile, read_bytes, read_part
from torchx_core.supervisor.signals import signal_name

__all__ = ["LOCAL_CLASS", "ProcessBackend", "read_lines"]

LOCAL_CLASS = "torchx.schedulers.local_scheduler.LocalScheduler"

_GRACE_S = 10.0  # TorchX's
_PAUSE_S = 0.02
_CHUNK_BYTES = 1 << 20
"""The most that is read at once, and the longest piece of a line."""
_CONTINUATION = 0b1000_0000
_CONTINUATION_MASK = 0b1100_0000
_LONGEST_CHARACTER = 4


class _Params(Protocol):
    """How TorchX is to start a replica."""

    stdout: str
    stderr: str
    combined: str | None
    env: Mapping[str, str]


class _Request(Protocol):
    """The request of TorchX's local scheduler."""

    log_dir: str
    role_params: Mapping[str, Sequence[_Params]]


@dataclass(slots=True)
class _Replica:
    process: subprocess.Popen[bytes]
    logs: Mapping[StreamName, str]
    error_file: str


@dataclass(slots=True)
class _App:
    log_dir: str
    replicas: dict[ReplicaKey, _Replica] = field(default_factory=dict[ReplicaKey, _Replica])


class ProcessBackend(Backend):
    """Processes of this host that end with the process that started them."""

    survives = False

    def __init__(self, name: str, upstream: _torchx.Upstream) -> None:
        super().__init__(name, upstream)
        self._apps: dict[str, _App] = {}
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen[bytes]] = []
        self._files: list[IO[bytes]] = []
        self._log_root = str(Path(tempfile.gettempdir(), f"torchx-core-{os.urandom(6).hex()}"))
        self._pid = os.getpid()
        starting = cast(Any, upstream)
        self._start, self._open = starting._popen, starting._get_replica_output_handles  # noqa: SLF001
        vars(upstream).update(_popen=self._start_and_keep, _get_replica_output_handles=self._open_and_keep)
        atexit.register(self._end_all)

    def check(self, app: AppDef) -> None:
        """Refuse what TorchX's local scheduler ignores without a word."""
        for i, role in enumerate(app.roles):
            if role.mounts:
                raise InvalidAppError(
                    f"roles[{i}].mounts", f"{self.name} cannot mount anything; leave them out"
                )
            if role.max_retries:
                problem = f"{self.name} does not retry: {role.max_retries}; set it to 0, or use local_cwd"
                raise InvalidAppError(f"roles[{i}].max_retries", problem)

    def render(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> _torchx.NativeDryRun:
        """Render with a log directory of our own: TorchX would make a new one for every dry run."""
        native = super().render(app, {**cfg, "log_dir": cfg.get("log_dir") or self._log_root})
        for params in cast(_Request, native.request).role_params.values():
            for replica in params:
                replica.combined = None  # TorchX makes that file with a thread per replica; nobody reads it
        return native

    def submit(self, native: _torchx.NativeDryRun) -> str:
        """Start all processes, or none."""
        with self._lock:
            self._started, self._files = [], []
            try:
                with _torchx.translated("TorchX could not start the app", SubmitFailedError):
                    native_id = self.upstream.schedule(native)
            except SubmitFailedError:
                for process in self._started:
                    _end(process, signal.SIGKILL)
                    process.wait()
                self._remove_logs(cast(_Request, native.request).log_dir)
                raise
            finally:
                for file in self._files:
                    file.close()  # the processes have their own
            self._apps[native_id] = self._adopt(native)
            # TorchX keeps no track: at its own end it would signal these process ids, whoever has them then.
            vars(self.upstream)["_apps"].clear()
        return native_id

    def _start_and_keep(self, *args: object, **kwargs: object) -> object:
        """Stand in front of what TorchX starts each replica with, in order."""
        replica = self._start(*args, **kwargs)
        self._started.append(cast("subprocess.Popen[bytes]", replica.proc))
        return replica

    def _open_and_keep(self, *args: object) -> object:
        """Stand in front of what opens a replica's files, for its process to inherit."""
        stdout, stderr, combined = self._open(*args)
        self._files += [stdout, stderr]
        return stdout, stderr, combined

    def _adopt(self, native: _torchx.NativeDryRun) -> _App:
        request = cast(_Request, native.request)
        app = _App(request.log_dir)
        processes = iter(self._started)
        for role, params in request.role_params.items():
            for k, replica in enumerate(params):
                logs: dict[StreamName, str] = {"stdout": replica.stdout, "stderr": replica.stderr}
                error_file = replica.env["TORCHELASTIC_ERROR_FILE"]
                app.replicas[role, k] = _Replica(next(processes), logs, error_file)
        return app

    def look(self, native_id: str) -> Sight | None:
        """Ask the kernel."""
        with self._lock:
            app = self._apps.get(native_id)
            if app is None:
                return None
            replicas = {key: _status(key, replica) for key, replica in app.replicas.items()}
        states = {replica.state for replica in replicas.values()}
        return Sight(
            state=next(s for s in (AppState.RUNNING, AppState.FAILED, AppState.SUCCEEDED) if s in states),
            structured_error_msg=_first_error(app),
            num_restarts=0,
            replicas=replicas,
        )

    def read(
        self, native_id: str, key: ReplicaKey, stream: StreamName, position: int, *, ended: bool
    ) -> Lines:
        """Read what the process wrote, from the file that it wrote to; positions are bytes."""
        app = self._apps.get(native_id)
        return (
            Lines((), position)
            if app is None
            else read_lines(app.replicas[key].logs[stream], position, ended=ended)
        )

    def cancel(self, native_id: str, grace_s: float | None) -> None:
        """Send SIGTERM to every process group now, and SIGKILL to what is left after the grace period."""
        app = self._apps.get(native_id)
        if app is None:
            return
        self._signal(app, signal.SIGTERM)
        grace_s = _GRACE_S if grace_s is None else grace_s
        threading.Thread(target=self._kill_late, args=(app, grace_s), name="torchx-compat-grace").start()

    def _kill_late(self, app: _App, grace_s: float) -> None:
        end = monotonic() + grace_s
        while monotonic() < end and self._is_alive(app):
            threading.Event().wait(min(_PAUSE_S, max(0.0, end - monotonic())))
        self._signal(app, signal.SIGKILL)

    def _is_alive(self, app: _App) -> bool:
        with self._lock:
            return any(_exit_code(replica.process) is None for replica in app.replicas.values())

    def _signal(self, app: _App, which: signal.Signals) -> None:
        with self._lock:
            for replica in app.replicas.values():
                if _exit_code(replica.process) is None:
                    _end(replica.process, which)

    def forget(self, native_id: str) -> None:
        """Remove the logs, and the directories around them once they are empty."""
        app = self._apps.pop(native_id, None)
        if app is not None:
            self._remove_logs(app.log_dir)

    def _remove_logs(self, log_dir: str) -> None:
        shutil.rmtree(log_dir, ignore_errors=True)
        if log_dir.startswith(self._log_root):
            with suppress(OSError):
                Path(log_dir).parent.rmdir()
                Path(self._log_root).rmdir()

    def size_bytes(self, native_id: str) -> int:
        """Return the size of the logs."""
        app = self._apps.get(native_id)
        return tree_size(app.log_dir) if app else 0

    def _end_all(self) -> None:
        """End what is left when this process ends, as TorchX does; a fork of it has nothing to end."""
        if os.getpid() != self._pid:
            return
        end = monotonic() + _GRACE_S
        for app in self._apps.values():
            self._signal(app, signal.SIGTERM)
        for app in self._apps.values():
            self._kill_late(app, end - monotonic())
        shutil.rmtree(self._log_root, ignore_errors=True)


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return how the process ended, or None; what is left of its group ends with it, as in a container."""
    if process.returncode is None and hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            seen = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is not None:  # a zombie still holds the id, so that its group cannot be somebody else's
                _end(process, signal.SIGKILL)
    return process.poll()


def _end(process: subprocess.Popen[bytes], which: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, which)


def _status(key: ReplicaKey, replica: _Replica) -> ReplicaStatus:
    code = _exit_code(replica.process)
    role, k = key
    status = ReplicaStatus(id=k, state=AppState.RUNNING, role=role, hostname=socket.gethostname())
    status.log_dir = os.path.dirname(replica.logs["stdout"])  # noqa: PTH120  # many times a second
    if code is not None:
        status.state = AppState.FAILED if code else AppState.SUCCEEDED
        status.exit_code = code if code >= 0 else None
        status.signal = signal_name(-code) if code < 0 else None
        status.structured_error_msg = _error(replica)
    return status


def _error(replica: _Replica) -> str:
    try:
        return (
            read_bytes(replica.error_file, MAX_ERROR_FILE_BYTES, follow=True).decode(errors="replace") or NONE
        )
    except (OSError, DamagedFile):
        return NONE


def _first_error(app: _App) -> str:
    """Return the error file that was written first: the others often follow from it."""
    written: list[tuple[float, _Replica]] = []
    for replica in app.replicas.values():
        with suppress(OSError):
            written.append((Path(replica.error_file).stat().st_mtime, replica))
    return _error(min(written, key=lambda item: item[0])[1]) if written else NONE


def read_lines(path: str, position: int, *, ended: bool) -> Lines:
    r"""Return the lines from that byte on; undecodable bytes become U+FFFD, ``\r`` stays.

    What follows the last newline is left for later, unless the writer has ended. A line longer than a
    chunk comes in pieces, always the same ones.

    Raises:
        LogsUnavailableError: What lies there is no log, or cannot be read just now.
    """
    try:
        data = read_part(path, position, _CHUNK_BYTES)
    except (DamagedFile, OSError) as err:
        raise LogsUnavailableError(str(err)) from err
    full = len(data) == _CHUNK_BYTES
    size = data.rfind(b"\n") + 1
    if size:
        return Lines(_split(data[: size - 1]), position + size, more=full or (ended and size < len(data)))
    if full:
        data = data[: _whole_characters(data)]
        return Lines(_split(data), position + len(data), eol=False, more=True)
    if ended and data:
        return Lines(_split(data), position + len(data), eol=False)
    return Lines((), position)


def _split(data: bytes) -> tuple[str, ...]:
    return tuple(data.decode(errors="replace").split("\n"))


def _whole_characters(data: bytes) -> int:
    """Return how much of the data can be decoded without cutting its last character."""
    for back in range(1, _LONGEST_CHARACTER):
        if data[-back] & _CONTINUATION_MASK != _CONTINUATION:
            return len(data) - back if data[-back] > _CONTINUATION else len(data)
    return len(data)
