"""Starts one replica's program."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import FileIO
from typing import NamedTuple, NoReturn

from torchx_core.supervisor.tree import die_with_parent

_O_DIRECT = getattr(os, "O_DIRECT", 0)


EXACT_SIZE = os.sysconf("SC_PAGE_SIZE")
"""Bytes of a pipe that holds one packet: one page."""


def pipe_size(pipe: FileIO) -> int:
    """Return how many bytes the pipe can hold."""
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) if sys.platform == "linux" else EXACT_SIZE


class Program(NamedTuple):
    """What to run."""

    argv: list[str]
    env: Mapping[str, str]
    """The whole environment."""
    cwd: str
    cgroups: tuple[str, ...] = ()
    """Files to write the new process's id to before its program starts."""
    nofile: tuple[int, int] | None = None
    """Limit of open files to give back, since the supervisor raises its own."""


class CannotStart(Exception):
    """The program could not be started; ``fatal`` when trying again cannot help."""

    def __init__(self, msg: str, *, fatal: bool) -> None:
        """Say what failed."""
        self.fatal = fatal
        super().__init__(msg)


_TRANSIENT = {11, 12, 23, 24, 26}  # EAGAIN ENOMEM ENFILE EMFILE ETXTBSY


class Ready(NamedTuple):
    """All that a fork needs to become a program, or to say why it cannot."""

    program: Program
    path: str
    """Where the program lies."""
    stdout: FileIO
    stderr: FileIO
    failure: tuple[FileIO, FileIO]
    """The pipe by which it says why not: where we read, and where it writes; closed once the program runs."""

    def close(self) -> None:
        """Close what is open for it."""
        for end in (self.stdout, self.stderr, *self.failure):
            end.close()


def output_pipe(*, exact: bool) -> tuple[FileIO, FileIO]:
    """Return the end that we read, which never blocks, and the one that a program writes to.

    Args:
        exact: Keep the order between this one and another: each write is one packet, and a second one
            blocks until we have read the first (pipe(7), O_DIRECT). Whoever reads watches both pipes before
            the program runs: of two that have something already nobody can tell which had it first.

    Raises:
        CannotStart: The kernel said no.
    """
    linux = sys.platform == "linux"
    with _kernel():
        read, write = os.pipe2(os.O_CLOEXEC | (_O_DIRECT if exact else 0)) if linux else os.pipe()
    if exact and linux:
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, EXACT_SIZE)
    os.set_blocking(read, False)
    return FileIO(read), FileIO(write, "w")


def get_ready(program: Program, stdout: FileIO, stderr: FileIO) -> Ready:
    """Prepare what `begin_all` forks.

    Raises:
        CannotStart: The kernel said no.
    """
    _ignored()  # found here once, not by each child
    path = find_program(program.argv[0], program.env.get("PATH", os.defpath))
    with _kernel():
        read, write = map(FileIO, os.pipe(), "rw")
    return Ready(program, path, stdout, stderr, (read, write))


def begin_all(ready: Sequence[Ready]) -> tuple[list[int], CannotStart | None]:
    """Fork what will run the programs, each in a session of its own; `finish` waits until one does.

    Nothing else is done in between: after a fork each page of memory that is written to has to be copied.

    Returns:
        The process ids, and what the kernel said if those are not all.
    """
    parent = os.getpid()
    pids: list[int] = []
    for each in ready:
        try:
            pid = os.fork()
        except OSError as err:
            return pids, _refusal(err)
        if pid == 0:
            _become(each, parent)
        pids.append(pid)
    return pids, None


@contextmanager
def _kernel() -> Generator[None]:
    try:
        yield
    except OSError as err:
        raise _refusal(err) from err


def _refusal(error: OSError) -> CannotStart:
    return CannotStart(f"cannot start a process: {error.strerror}", fatal=False)


def finish(ready: Ready, pid: int) -> None:
    """Return once the program runs, so that a missing binary is known here.

    Raises:
        CannotStart: It does not.
    """
    failure, theirs = ready.failure
    theirs.close()  # the others that begin now have it too, until their programs run
    problem = failure.read(4096)
    ready.close()
    if problem:
        os.waitpid(pid, 0)
        number, _, what = problem.decode("utf-8", "replace").partition(":")
        raise CannotStart(what, fatal=int(number) not in _TRANSIENT)


@cache
def search_path(first: str, inherited: str | None, cwd: str) -> str:
    """Return the PATH of a program: what it says itself, then that of the submitter, then where it starts.

    Args:
        first: What the replica's own environment says; empty for nothing.
        inherited: The submitter's; None where it has none.
        cwd: The directory in which the program starts, which finds what nothing else does.
    """
    inherited = os.defpath if inherited is None else inherited
    places = [place for path in (first, inherited) for place in path.split(os.pathsep) if place]
    return os.pathsep.join(places if cwd in places else [*places, cwd])


@cache
def find_program(name: str, path: str) -> str:
    """Return where in PATH the program lies, as execvp(3) finds it; the name itself when it does not.

    Looked up before the fork and once per app: every directory of PATH would cost each replica a failed exec.
    """
    if os.sep in name:
        return name
    places = (os.path.join(directory, name) for directory in path.split(os.pathsep))
    return next((p for p in places if os.access(p, os.X_OK) and not os.path.isdir(p)), name)


def _become(ready: Ready, parent: int) -> NoReturn:
    """Turn the forked child into the program; on failure tell the parent which step failed."""
    program = ready.program
    what = "cannot prepare the process"
    try:
        os.setsid()
        die_with_parent(parent)
        for entrance in program.cgroups:
            _write(entrance, str(os.getpid()))
        # The kernel should take the program before its supervisor when memory runs out.
        _try_write("/proc/self/oom_score_adj", "500")
        _restore_signals()
        _redirect(ready.stdout.fileno(), ready.stderr.fileno())
        if program.nofile:
            import resource  # imported here: the supervisor itself may not need it

            resource.setrlimit(resource.RLIMIT_NOFILE, program.nofile)
        what = f"cannot enter directory {program.cwd!r}"
        os.chdir(program.cwd)
        what = f"cannot execute {program.argv[0]!r}"
        os.execve(ready.path, program.argv, program.env)
    except BaseException as err:  # noqa: BLE001  # the child must report and leave, whatever happened
        number = (err.errno or 0) if isinstance(err, OSError) else 0
        why = os.strerror(number) if number else str(err)
        os.write(ready.failure[1].fileno(), f"{number}:{what}: {why}".encode("utf-8", "replace")[:4000])
    os._exit(127)


@cache
def _ignored() -> tuple[signal.Signals, ...]:
    """Return the signals that this process ignores; they are set up once, before the first start."""
    return tuple(number for number in signal.Signals if signal.getsignal(number) is signal.SIG_IGN)


def _restore_signals() -> None:
    """Undo what an exec would pass on: ignored signals and the blocked mask."""
    for number in _ignored():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _redirect(out_w: int, err_w: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out_w, 1)
    os.dup2(err_w, 2)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _try_write(path: str, text: str) -> None:
    try:
        _write(path, text)
    except OSError:
        return
