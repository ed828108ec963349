"""Finds out before anything is created what would make a submit, or every replica, fail on this host."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from torchx_core.errors import InvalidAppError, InvalidInputError, SchedulerError, SubmitFailedError
from torchx_core.schedulers.local.images import ImageProvider
from torchx_core.schedulers.local.request import LocalRequest, submitters_path
from torchx_core.schedulers.paths import make_private
from torchx_core.supervisor.limits import mounts
from torchx_core.supervisor.plan import ReplicaPlan
from torchx_core.supervisor.spawn import search_path

__all__ = ["FILES_OF_ITS_OWN", "FILES_PER_REPLICA", "check_file_system", "check_host"]

FILES_PER_REPLICA = 8
FILES_OF_ITS_OWN = 32
_INSTALLED_WITH: Final[Mapping[str, str]] = {"torchrun": "torch", "accelerate": "accelerate"}
"""Program of a training environment -> the package that brings it."""
_SHELL_WORDS = 4
"""Of a component that has a shell run a program: ``sh -c TEXT PROGRAM``; the text's last line executes it."""
_SHARED = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "glusterfs", "beegfs")


def check_host(request: LocalRequest, images: ImageProvider) -> None:
    """Check directories, programs and limits.

    Args:
        request: What would be submitted.
        images: What images mean to this app.

    Raises:
        SubmitFailedError: The state directory cannot be written.
        SchedulerError: It is on a network file system.
        InvalidAppError: A program or script does not exist, or there are more replicas than open files allow.
        InvalidInputError: ``log_dir`` cannot be written, or a log with a limit cannot be kept there.
    """
    plan, directories = request.plan, [os.path.dirname(request.app_dir)]
    _check_state_dir(directories[0])
    for replica in plan.replicas:
        if replica.replica_id == 0:  # replicas of a role differ in their arguments only
            _check_program(replica, images)
    _check_descriptors(len(plan.replicas))
    if request.cfg.get("log_dir"):
        directories.append(os.path.dirname(os.path.dirname(plan.replicas[0].log_dir)))
        _check_log_dir(directories[-1])
    for directory in directories if plan.log_max_mb is not None else ():
        _check_holes(directory)


def _check_state_dir(directory: str) -> None:
    try:
        make_private(directory)
    except OSError as err:
        raise SubmitFailedError(f"cannot write to the state directory {directory}: {err.strerror}") from err
    check_file_system(directory)


def _check_program(replica: ReplicaPlan, images: ImageProvider) -> None:
    path = search_path(replica.env.get("PATH", ""), submitters_path(), replica.cwd)
    for program in (replica.argv[0], *_run_by_shell(replica.argv)):
        found = os.path.join(replica.cwd, program) if os.sep in program else program
        if shutil.which(images.before_copying(found), path=path) is None:
            where = replica.cwd if os.sep in program else path
            raise InvalidAppError(
                f"roles[{replica.role!r}].entrypoint",
                f"no such program on this host: {program!r}; looked in {where}{_advice(program)}",
            )
    script = _script(replica.argv)
    if script and not os.path.exists(images.before_copying(os.path.join(replica.cwd, script))):
        raise InvalidAppError(
            f"roles[{replica.role!r}].args",
            f"no such script on this host: {script!r}; looked in {replica.cwd}",
        )


def _run_by_shell(argv: Sequence[str]) -> list[str]:
    """Return the program that a component's shell executes in the end; nothing of any other program.

    Only a shell that is called by the program's name, as ours are: in somebody's own script the lines before
    may change PATH.
    """
    if len(argv) < _SHELL_WORDS or list(argv[:2]) != ["sh", "-c"]:
        return []
    last = argv[2].rstrip("\n").rpartition("\n")[2]
    return [argv[3]] if last.startswith(f"exec {argv[3]} ") else []


def _script(argv: Sequence[str]) -> str:
    """Return the Python file that torchrun starts for one of our components; empty of any other program."""
    if _run_by_shell(argv) != ["torchrun"] or "--" not in argv[_SHELL_WORDS:]:
        return ""
    words = argv[argv.index("--", _SHELL_WORDS) + 1 :]
    return words[0] if words and words[0].endswith(".py") else ""


def _advice(program: str) -> str:
    """Return what to do where the program belongs to a Python environment; empty of any other program."""
    if program in _INSTALLED_WITH:
        package = _INSTALLED_WITH[program]
        return f"; it comes with the package {package}: install it, or activate the environment that has it"
    return ""


def _check_descriptors(replicas: int) -> None:
    needed = FILES_OF_ITS_OWN + FILES_PER_REPLICA * replicas
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if allowed != resource.RLIM_INFINITY and needed > allowed:
        raise InvalidAppError(
            "roles", f"{replicas} replicas need {needed} open files; the hard limit is {allowed} (ulimit -Hn)"
        )


def _check_log_dir(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
        writable = os.access(directory, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise InvalidInputError(f"log_dir is not writable: {directory}; choose another directory")


def _check_holes(directory: str) -> None:
    from torchx_core.supervisor.log_limit import can_free_parts  # ctypes: few apps have need of it

    try:
        able = can_free_parts(directory)
    except OSError as err:
        raise SubmitFailedError(f"cannot write to {directory}: {err.strerror}", retryable=True) from err
    if not able:
        raise InvalidInputError(
            f"log_max_mb: the file system of {directory} ({_file_system(os.path.realpath(directory))})"
            " cannot free a part of a file; choose another log_dir or state directory, or set no limit"
        )


def check_file_system(path: str) -> None:
    """Refuse a state directory on a network file system.

    Locks, pipes and links there do not reach, or do not hold, across hosts (flock(2), fifo(7)).

    Raises:
        SchedulerError: It is on one.
    """
    kind = _file_system(os.path.realpath(path))
    if kind in _SHARED or kind.startswith("fuse."):
        raise SchedulerError(
            f"state directory {path} is on a network file system ({kind}), where locks and pipes are not"
            " reliable; set TORCHX_STATE_DIR to a directory on a local disk"
        )


def _file_system(path: str) -> str:
    best, kind = "", ""
    for point, candidate, _ in mounts():
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, candidate
    return kind
