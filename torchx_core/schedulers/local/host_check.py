"""Finds out before anything is created what would make a submit, or every replica, fail on this host."""

from __future__ import annotations

import os
import resource
import shutil

from torchx_core.errors import InvalidAppError, InvalidInputError, SchedulerError, SubmitFailedError
from torchx_core.schedulers.local.request import LocalRequest
from torchx_core.schedulers.paths import make_private
from torchx_core.supervisor.limits import mounts
from torchx_core.supervisor.plan import ReplicaPlan

__all__ = ["FILES_OF_ITS_OWN", "FILES_PER_REPLICA", "check_file_system", "check_host"]

FILES_PER_REPLICA = 8
FILES_OF_ITS_OWN = 32
_SHARED = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "glusterfs", "beegfs")


def check_host(request: LocalRequest) -> None:
    """Check directories, programs and limits.

    Raises:
        SubmitFailedError: The state directory cannot be written.
        SchedulerError: It is on a network file system.
        InvalidAppError: A program does not exist, or there are more replicas than open files allow.
        InvalidInputError: ``log_dir`` cannot be written.
    """
    _check_state_dir(os.path.dirname(request.app_dir))
    for replica in request.plan.replicas:
        if replica.replica_id == 0:  # replicas of a role differ in their arguments only
            _check_program(replica)
    _check_descriptors(len(request.plan.replicas))
    if request.cfg.get("log_dir"):
        _check_log_dir(os.path.dirname(os.path.dirname(request.plan.replicas[0].log_dir)))


def _check_state_dir(directory: str) -> None:
    try:
        make_private(directory)
    except OSError as err:
        raise SubmitFailedError(f"cannot write to the state directory {directory}: {err.strerror}") from err
    check_file_system(directory)


def _check_program(replica: ReplicaPlan) -> None:
    program = replica.argv[0]
    path = replica.env.get("PATH", os.environ.get("PATH", os.defpath))
    found = os.path.join(replica.cwd, program) if os.sep in program else program
    if shutil.which(found, path=path) is None:
        where = replica.cwd if os.sep in program else path
        raise InvalidAppError(
            f"roles[{replica.role!r}].entrypoint",
            f"no such program on this host: {program!r}; looked in {where}",
        )


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
