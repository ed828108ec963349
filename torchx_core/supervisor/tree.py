"""The processes of an app: how they are known, found and ended.

An app may submit an app. The guardian of that one is then below the supervisor of the first, which ends
whatever is below it; it must tell this guardian from its own, for the inner app is one like any other. It
knows it by its command.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_ROOM = f"room={'.' * 2048}"
_LOOKS = 100
_PAUSE_S = 0.001
_SCANS = 20

APP_MARKER = "TORCHX_LOCAL_APP"
"""Environment variable that names the app's directory in every process of the app."""

# Stays as it is from version to version: an app and the app that it submits may differ in theirs.
STUB = (
    "import sys; sys.path.append(sys.argv[1]); from torchx_core.supervisor.main import main;"
    " main(sys.argv[2], int(sys.argv[3]), [int(fd) for fd in sys.argv[4:]])"
)
"""The word of a guardian's command that no other program has; the second after it is the app's directory."""


def guardian_command(python: str, package_root: str, app_dir: str, fds: Sequence[int]) -> list[str]:
    """Return the command that an app's guardian, and the supervisor below it, runs as.

    Args:
        python: The interpreter.
        package_root: Where it finds `torchx_core`.
        app_dir: The app's directory.
        fds: What it inherits: the descriptors of control pipe, lock and life sign.
    """
    return [python, "-I", "-S", "-c", STUB, package_root, app_dir, *map(str, fds)]


def with_room(command: Sequence[str]) -> list[str]:
    """Return a command of Python's that does the same and is longer, so that `show_as` has room."""
    return [command[0], "-X", _ROOM, *command[1:]]


def without_room(command: Sequence[str]) -> list[str]:
    """Return the command that `with_room` was given."""
    return [command[0], *command[3 if _ROOM in command else 1 :]]


def room() -> int:
    """Return how many bytes `show_as` may write: what the words of this process's command had."""
    start, end = _arguments()
    return end - start


def show_as(words: Sequence[str]) -> bool:
    """Have this process be known by these words, as if they were those that it was started with.

    They are written over those, which is what the kernel reads for whoever asks (``ps``, ``/proc``).

    Returns:
        False where that is not possible, or there is no `room`; nothing has changed then.
    """
    start, end = _arguments()
    text = os.fsencode("\0".join(words) + "\0")
    if len(text) > end - start:
        return False
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
    return True


def _arguments() -> tuple[int, int]:
    """Return where the words of this process's command begin and end in its memory; twice 0 for unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[45]), int(fields[46])  # proc(5) counts from 1, and the two before the name
    except (OSError, IndexError):
        return 0, 0


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, however it daemonised.

    A later ``ECHILD`` from ``waitid`` then proves that no descendant is left. Only Linux has this; elsewhere
    a process that double-forks and wipes its environment can escape.
    """
    if _LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies, and check that it has not died already."""
    if _LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc().prctl(option, value, 0, 0, 0)


@cache
def libc() -> ctypes.CDLL:
    """Return the C library; a function's error is in ``ctypes.get_errno()`` afterwards."""
    return ctypes.CDLL(None, use_errno=True)


def descendants(pid: int, app_dir: str) -> list[int]:
    """Return every living process of an app below `pid`, parents first; what serves another app is not its.

    Args:
        pid: Where to begin.
        app_dir: The app's directory.
    """
    found: list[int] = []
    queue = [pid]
    while queue:
        own = [child for child in children(queue.pop()) if serves(child) in (None, app_dir)]
        found += own
        queue += own
    return found


def has_only_strangers(pid: int, app_dir: str) -> bool:
    """Return whether `pid` has children, and all of them serve other apps; a zombie serves nobody."""
    below = children(pid)
    return bool(below) and all(serves(child) not in (None, app_dir) for child in below)


def serves(pid: int) -> str | None:
    """Return the directory of the app whose guardian or supervisor this process is, or is about to become.

    None for any other process, and where there is no ``/proc``.
    """
    words = _command_of(pid)
    return (words[words.index(STUB) :] + [""] * 3)[2] if STUB in words else None


def _command_of(pid: int) -> list[str]:
    """Return a process's words; empty when it is gone. One that lives and has none is in execve(2)."""
    for _ in range(_LOOKS):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            break
        if words or is_zombie(pid):
            return os.fsdecode(words).split("\0")
        select.select([], [], [], _PAUSE_S)
    return []


def is_zombie(pid: int) -> bool:
    """Return whether the process has ended, taken leave of or not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def children(pid: int) -> list[int]:
    """Return the processes right below `pid`."""
    if not _LINUX:
        return _children_elsewhere(pid)
    found: list[int] = []
    # One file per thread: a child belongs to the thread that forked it.
    for task in _listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


def _children_elsewhere(pid: int) -> list[int]:
    import subprocess  # imported here: only where there is no /proc

    listing = subprocess.run(["/bin/ps", "-axo", "pid=,ppid="], capture_output=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


def kill_descendants(pid: int, app_dir: str) -> None:
    """Send SIGKILL to every process of the app below `pid`, not to itself."""
    for child in descendants(pid, app_dir):
        kill(child, signal.SIGKILL)


def group_of(pid: int) -> int:
    """Return the process group of a process; 0 when it is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 when it is gone, and where there is no ``/proc``."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def session_of(pid: int) -> int:
    """Return the session of a process; 0 when it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def kill(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def kill_group(pgid: int, number: int) -> None:
    """Signal a process group that may be gone."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        return


def marked(app_dir: str) -> list[int]:
    """Return the processes of this user that carry the app's marker.

    Only for when supervisor and guardian are both dead: it reads every process's environment, and a
    process that wiped its own is missed.
    """
    needle = b"%s=%s\0" % (APP_MARKER.encode(), os.fsencode(app_dir))
    pids = _processes("environ", lambda environment: needle in environment)
    return [pid for pid in pids if pid != os.getpid()]


def serving(app_dir: str) -> list[int]:
    """Return the guardians and supervisors of the app, wherever they are."""

    def serves_it(command: bytes) -> bool:
        words = os.fsdecode(command).split("\0")
        return STUB in words and app_dir in words

    return _processes("cmdline", serves_it)


def _processes(file_name: str, is_meant: Callable[[bytes], bool]) -> list[int]:
    """Return the living processes whose file of that name in ``/proc`` is one that is meant.

    Listing the processes and reading their files takes time: a process that is listed may start another and
    end before its file is read, and then neither is seen. So that nobody was found counts only if every
    process without a readable file was without one at the scan before as well; else this scans again,
    `_SCANS` times at most.
    """
    silent_before: set[int] = set()
    for scan in range(_SCANS):
        found, silent = _scan(file_name, is_meant)
        if found or (scan and silent <= silent_before):
            return found
        silent_before = silent
    return []


def _scan(file_name: str, is_meant: Callable[[bytes], bool]) -> tuple[list[int], set[int]]:
    """Return who is meant, and whose file was empty or gone: a zombie's, a kernel thread's, in execve(2)."""
    found: list[int] = []
    silent: set[int] = set()
    for pid in [int(name) for name in _listdir("/proc") if name.isdigit()]:
        try:
            with open(f"/proc/{pid}/{file_name}", "rb") as file:
                content = file.read()
        except PermissionError:  # another user's
            continue
        except OSError:
            content = b""
        if not (content := content or _of_threads(pid, file_name)):
            silent.add(pid)
        elif is_meant(content):
            found.append(pid)
    return found, silent


def _of_threads(pid: int, file_name: str) -> bytes:
    """Return the file of a process whose first thread has ended; empty where no other thread lives."""
    for thread in _listdir(f"/proc/{pid}/task")[1:]:
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/{file_name}", "rb") as file:
            if content := file.read():
                return content
    return b""


def _listdir(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
