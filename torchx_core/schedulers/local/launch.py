"""Brings an app into being: its record, then its supervisor; a crash never duplicates or leaks it.

========================================  ======================================================
the launcher dies …                       then
========================================  ======================================================
before the rename                         there is no app; a hidden directory is left to `prune`
between the rename and the fork           nobody holds the lock and the journal is empty: the next
                                          submit of this id starts it, a reader ends it as FAILED
after the fork                            the app runs; the next submit of this id attaches
========================================  ======================================================
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress

import torchx_core
from torchx_core.errors import SubmitFailedError
from torchx_core.schedulers.local.liveness import REAP_LOCK
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.request import submitters_path
from torchx_core.schedulers.local.zygote import ask_zygote, idle_s, zygote_name
from torchx_core.schedulers.paths import make_private
from torchx_core.schedulers.removing import fresh_path, move_aside, remove_tree, rename_unless_there
from torchx_core.supervisor.closing import has_begun
from torchx_core.supervisor.reading import is_there, open_regular
from torchx_core.supervisor.records import (
    ALIVE,
    CTL,
    LOCK,
    SPEC,
    SUPERVISOR_LOG,
    TIMELINE,
    Json,
    dumps,
    sync_directory,
    write_all,
)
from torchx_core.supervisor.tree import APP_MARKER, guardian_command, with_room
from torchx_core.supervisor.zygote import VARIABLE

__all__ = ["create", "start_again"]

_PATIENCE_S = 30.0
_PAUSE_S = 0.005

# The shell puts the supervisor into the background and goes: it is then nobody's child here, so no one who
# walks or reaps this process's children meets it, and a shell costs 1 ms where a second interpreter costs 15.
_STDERR = 2
_SHELL = ["/bin/sh", "-c", '"$@" &', "sh"]


def create(app_dir: str, record: Json, furnish: Callable[[str], None]) -> bool:
    """Create the app and start its supervisor; false when the app exists already.

    Args:
        app_dir: Where the app's record will lie.
        record: Its content.
        furnish: Puts other things into the app's directory, whose present path it is given.

    Raises:
        SubmitFailedError: It could not be done; nothing is left behind.
    """
    session_dir, name = os.path.split(app_dir)
    fresh = fresh_path(session_dir)
    try:
        make_private(fresh)
        with ExitStack() as stack:
            stack.callback(remove_tree, fresh)  # gone already when all went well
            furnish(fresh)
            _write_record(fresh, record)
            held = stack.enter_context(_held(fresh))
            if not rename_unless_there(fresh, app_dir):
                return False
            sync_directory(session_dir)
            _start_or_undo(app_dir, held)
    except OSError as err:
        raise SubmitFailedError(f"cannot create app {name} in {session_dir}: {err}", retryable=True) from err
    return True


def start_again(record: AppRecord) -> bool:
    """See that an app which exists is started: its launcher may have died before it could.

    Returns:
        Whether there is such an app; false when its launcher took it back meanwhile.
    """
    deadline = time.monotonic() + _PATIENCE_S
    with suppress(FileNotFoundError):
        while not has_begun(record.directory):
            if _start_if_free(record) or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE_S)  # noqa: TID251  # its launcher is at work, and nothing tells of the end
    return is_there(record.path(SPEC))


def _start_if_free(record: AppRecord) -> bool:
    """Start the supervisor, unless somebody holds the lock: who starts it, or looks whether it lives."""
    with record.locked(REAP_LOCK), ExitStack() as stack:
        try:
            held = stack.enter_context(_held(record.directory))
        except BlockingIOError:
            return False
        if not has_begun(record.directory):  # asked while we hold the lock: it cannot begin now
            _spawn(record.directory, held)
    return True


def _write_record(directory: str, record: Json) -> None:
    for name in (ALIVE, CTL):
        os.mkfifo(os.path.join(directory, name), 0o600)
    for name, data in ((LOCK, b""), (TIMELINE, b""), (SPEC, dumps(record))):
        fd = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, data)
            if data:
                os.fsync(fd)
        finally:
            os.close(fd)
    sync_directory(directory)


@contextmanager
def _held(directory: str) -> Generator[list[int]]:
    """Hold what the supervisor will inherit: the control pipe, the lock, the life sign.

    We hold them from before the app exists until after the supervisor has them, so there is no gap.

    Raises:
        BlockingIOError: Somebody holds the lock.
    """
    with ExitStack() as stack:

        def pipe(name: str) -> int:
            fd = os.open(os.path.join(directory, name), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            return _kept(fd, stack)

        lock = _kept(open_regular(os.path.join(directory, LOCK), os.O_RDWR), stack)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield [pipe(CTL), lock, pipe(ALIVE)]


def _kept(fd: int, stack: ExitStack) -> int:
    """Return the descriptor, or a copy whose number the supervisor's own streams do not have.

    It is open as long as the stack is. A submitter that has closed its stdin, stdout or stderr, as daemons
    do, gets those numbers for its files.
    """
    if fd <= _STDERR:
        low, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
        os.close(low)
    stack.callback(os.close, fd)
    return fd


def _start_or_undo(app_dir: str, held: list[int]) -> None:
    try:
        _spawn(app_dir, held)
    except SubmitFailedError:  # after anything else, such as a signal's exception, the supervisor may run
        # Nothing runs yet and we hold the lock: nobody else can have started it.
        remove_tree(move_aside(app_dir))
        raise


def _spawn(app_dir: str, held: list[int]) -> None:
    """Start the supervisor.

    Raises:
        SubmitFailedError: The kernel, or the shell, says no.
    """
    if not os.access(sys.executable or "", os.X_OK):
        raise _cannot_start(
            app_dir, f"no Python to run the supervisor with; sys.executable is {sys.executable!r}"
        )
    package_root = os.path.dirname(os.path.dirname(os.path.abspath(torchx_core.__file__)))
    held = [*held, *_in_memory(package_root)]
    # Its submitter may be part of an app, whose mark it must not bear: it would be taken for what that left.
    env = {name: value for name, value in os.environ.items() if name != APP_MARKER}
    env["PATH"] = submitters_path()
    zygote = zygote_name(package_root)
    try:
        with open(os.path.join(app_dir, SUPERVISOR_LOG), "a+b", opener=_open_private) as log:
            command = guardian_command(sys.executable, package_root, app_dir, ())
            if zygote and ask_zygote(zygote, command, [*held, log.fileno()], env):
                return
            command = [*command, *map(str, held)]
            if zygote:
                command, env[VARIABLE] = with_room(command), f"{zygote} {idle_s()}"
            shell = subprocess.run(
                [*_SHELL, *command],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=held,
                start_new_session=True,
                check=False,
            )
            if shell.returncode:  # it could not fork; what it said may be gone with the app
                log.seek(0)
                raise _cannot_start(app_dir, log.read().decode("utf-8", "replace")[-300:].strip())
    except TimeoutError:  # of a signal's handler: starting a program has no such error
        raise
    except OSError as err:
        raise _cannot_start(app_dir, str(err)) from err


def _in_memory(package_root: str) -> list[int]:
    """Return the descriptor through which our code is read, if that lies in memory; else nothing.

    So it is where somebody on another host has sent it here (`torchx_core.schedulers.remote`). A supervisor
    inherits it under the same number, and so has the same code, at the same path, for as long as it lives.
    """
    number = package_root.removeprefix("/proc/self/fd/")
    return [int(number)] if number != package_root and number.isdigit() else []


def _cannot_start(app_dir: str, why: str) -> SubmitFailedError:
    return SubmitFailedError(f"cannot start app {os.path.basename(app_dir)}: {why}", retryable=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
