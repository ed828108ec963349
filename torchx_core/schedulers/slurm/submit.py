"""Brings an app into being: its record, then Slurm's job; a crash never duplicates or loses it.

=========================================  =======================================================
the submitter dies …                       then
=========================================  =======================================================
before the record has its name             there is no app; a hidden directory is left to `prune`
before sbatch has been called              the next submit of this id sees that it was not, and submits
between the note that it will be, and it   the next submit finds no job, and submits one
after sbatch, before the id is written     the next submit finds the job by its comment; the job
                                           itself writes its id when it starts
after the id is written                    the app runs; the next submit attaches
=========================================  =======================================================

A job that has ever run has written its id itself. So what a late submit cannot find, because Slurm has
forgotten it, has run nothing: it was taken from the queue, and the submit hands in another. Accounting need
not be asked.

Should two jobs come of it all the same (Slurm lists a job late, say), only one does anything: whichever
writes ``job.json`` first. The other ends at once.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import time
import zipfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from torchx_core import supervisor
from torchx_core.errors import (
    AppIdConflictError,
    SchedulerError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
)
from torchx_core.schedulers.difference import comparable_request, request_differences
from torchx_core.schedulers.locks import release
from torchx_core.schedulers.options.slurm import slurm_run_opts
from torchx_core.schedulers.paths import make_private
from torchx_core.schedulers.slurm import node
from torchx_core.schedulers.slurm.cancelling import wake_tasks
from torchx_core.schedulers.slurm.commands import CommandFailed, call
from torchx_core.schedulers.slurm.job import job_with
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.record import (
    FINAL,
    JOB,
    LEASE,
    NEVER_RENEWED,
    PLAN,
    SCRIPT,
    SHIM,
    SPEC,
    STOP,
    SUBMIT_LOCK,
    AppRecord,
)
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.stored import StoredApp
from torchx_core.schedulers.unsupported import FORMER_MEANING
from torchx_core.supervisor.reading import DamagedFile, is_there, open_regular
from torchx_core.supervisor.records import Json, dumps, sync_directory, write_all

if TYPE_CHECKING:
    from importlib.abc import InspectLoader
    from importlib.machinery import ModuleSpec

__all__ = ["is_submitted", "packed", "submit"]

_NEVER_TRIED, _TRIED = b"0", b"1"
"""What the lock file says: whether anybody was ever about to call sbatch for this app."""

_OF_THE_CLUSTER: Final = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"})
_MAIN = f"import sys\n\nfrom {node.__name__}.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
_AROUND = ("torchx_core", "torchx_core/schedulers", "torchx_core/schedulers/slurm", "torchx_core/supervisor")
_SHARED = "reading.py"
"""How a record is read is the same on the nodes."""


def submit(request: SlurmRequest, queue: JobQueue) -> None:
    """Create the app and its job, or attach to the one that an equal request created, completing it.

    Raises:
        AppIdConflictError: The id is taken by a different request.
        SubmitFailedError: Slurm refused the job; nothing is left behind.
        SubmitOutcomeUnknownError: Slurm did not answer.
    """
    asked = comparable_request(request.app, request.cfg)
    while True:
        _create(request, asked)
        record = AppRecord.read_from(request.app_dir)
        if record is None:
            continue  # deleted, or taken back, meanwhile
        difference = request_differences(record.asked, asked, slurm_run_opts(), FORMER_MEANING)
        if difference:
            raise AppIdConflictError(request.app_id, difference)
        try:
            with record.naming_damage():
                if _has_job(record, request, queue):
                    return
        except FileNotFoundError:
            continue


def _create(request: SlurmRequest, asked: Json) -> None:
    """Make the record, unless there is one."""
    if os.path.exists(request.app_dir):
        return
    session_dir = os.path.dirname(request.app_dir)
    fresh = os.path.join(session_dir, f".new-{os.urandom(6).hex()}")
    content: Json = {
        "version": AppRecord.VERSION if "log_max_mb" in request.plan else StoredApp.VERSION,
        "incarnation": request.incarnation,
        "comment": request.comment,
        "created_at": time.time(),
        "asked": asked,
        "replicas": [list(planned) for planned in request.replicas],
        "sbatch": request.sbatch,
    }
    try:
        make_private(fresh)
        files = {
            SPEC: dumps(content),
            PLAN: dumps(request.plan),
            SCRIPT: os.fsencode(request.script),
            SHIM: packed(),
            SUBMIT_LOCK: _NEVER_TRIED,
            LEASE: NEVER_RENEWED,
        }
        _write(fresh, files)
        with suppress(FileExistsError):
            _rename(fresh, request.app_dir)
        sync_directory(session_dir)
    except OSError as err:
        raise SubmitFailedError(
            f"cannot create app {request.app_id} in {session_dir}: {err}", retryable=True
        ) from err
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # gone already when all went well


def _rename(source: str, target: str) -> None:
    try:
        os.rename(source, target)
    except OSError as err:
        if err.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise FileExistsError(target) from err
        raise


def _write(directory: str, files: Mapping[str, bytes]) -> None:
    """Write them all, then sync them all: most of them go to the disk with the first."""
    with ExitStack() as stack:
        fds: list[int] = []
        for name, data in files.items():
            fds.append(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            stack.callback(os.close, fds[-1])
            write_all(fds[-1], data)
        for fd in fds:
            os.fsync(fd)
    sync_directory(directory)


def _has_job(record: AppRecord, request: SlurmRequest, queue: JobQueue) -> bool:
    """See that the app has its job; false when its record was taken back while we looked."""
    if is_submitted(record):
        return True
    with _alone(record) as lock:
        if lock is None:
            return False
        if is_submitted(record):
            return True
        job_id = _earlier_job(record, request.app_id, lock, queue) or _sbatch(record, request.app_id)
        record.write(JOB, {"job_id": job_id, "time": time.time()})  # or the job does, when there is room
    if is_there(record.path(STOP)):
        wake_tasks(record)  # whoever wrote it may have known of no job
    return True


def is_submitted(record: AppRecord) -> bool:
    """Return whether there is nothing left to submit of the app."""
    with record.naming_damage():
        return any(is_there(record.path(name)) for name in (JOB, STOP, FINAL))


@contextmanager
def _alone(record: AppRecord) -> Generator[int | None]:
    """Hold the app's lock, so that of several submitters one calls sbatch; yield None if the app is gone."""
    lock = _open_lock(record)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        present = AppRecord.read_from(record.directory)
        yield lock if present is not None and present.incarnation == record.incarnation else None
    finally:
        release(lock)


def _open_lock(record: AppRecord) -> int:
    path = record.path(SUBMIT_LOCK)
    with record.naming_damage():
        try:
            return open_regular(path, os.O_RDWR)
        except FileNotFoundError as err:
            if is_there(record.path(SPEC)):  # else the app was deleted
                raise DamagedFile(path, "is missing") from err
            raise


def _earlier_job(record: AppRecord, app_id: str, lock: int, queue: JobQueue) -> str | None:
    """Return the job of a submitter that died before it could write its id down.

    Slurm is only asked if there was one that got so far: it has noted that in the lock file, as we do now.
    """
    if os.pread(lock, 1, 0) == _NEVER_TRIED:
        os.pwrite(lock, _TRIED, 0)
        os.fdatasync(lock)
        return None
    try:
        job = job_with(record.comment, queue.ask().jobs.values())
    except SchedulerError as err:
        raise SubmitOutcomeUnknownError(app_id, str(err)) from err
    return job.job_id if job else None


def _sbatch(record: AppRecord, app_id: str) -> str:
    """Submit, from the record: what is submitted is what was recorded."""
    try:
        said = call(record.sbatch, _outside_of_jobs(os.environ))
    except CommandFailed as err:
        _take_back(record)
        raise SubmitFailedError(f"cannot submit app {app_id!r}: {err}") from err
    except SchedulerError as err:
        raise SubmitOutcomeUnknownError(app_id, str(err)) from err
    job_id = said.partition(";")[0].strip()  # with a cluster's name behind it, where there are several
    if not job_id.isdecimal():
        raise SubmitOutcomeUnknownError(app_id, f"sbatch says {job_id!r}")
    return job_id


def _outside_of_jobs(env: Mapping[str, str]) -> dict[str, str]:
    """Leave out what Slurm has told a job that we run in: it would pass for what it tells ours.

    Seen: a submitter's SLURM_RESTART_COUNT and SLURM_HET_JOB_ID reach a job that has none of its own.
    """
    inside = "SLURM_JOB_ID" in env
    return {k: v for k, v in env.items() if not (inside and k.startswith("SLURM_")) or k in _OF_THE_CLUSTER}


def _take_back(record: AppRecord) -> None:
    gone = os.path.join(os.path.dirname(record.directory), f".undone-{os.urandom(6).hex()}")
    os.rename(record.directory, gone)
    shutil.rmtree(gone, ignore_errors=True)


@cache
def packed() -> bytes:
    """Return a zip archive that ``python3`` runs; the packages around ours are empty in it.

    Each module is there as code, for nodes whose Python is the submitter's, and as source for all others,
    which compile it anew in each task: a Python that finds code of another version takes the source. Every
    app keeps the archive, on a disk that is perhaps far from the nodes, so it is compressed.
    """
    from importlib.resources import files  # our own sources may lie in an archive, too

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("__main__.py", _MAIN)
        for package in _AROUND:
            archive.writestr(f"{package}/__init__.py", "")
        for package, ending in ((node.__name__, ".py"), (supervisor.__name__, _SHARED)):
            for source in sorted(files(package).iterdir(), key=lambda source: source.name):
                if source.name.endswith(ending):
                    path = f"{package.replace('.', '/')}/{source.name}"
                    archive.writestr(path, source.read_bytes())
                    module = f"{package}.{source.name.removesuffix('.py')}"
                    archive.writestr(f"{path}c", _compiled(module.removesuffix(".__init__")))
    return content.getvalue()


def _compiled(module: str) -> bytes:
    """Return the module's code as a file of it is to be (PEP 552), used without a look at its source."""
    import marshal
    from importlib.util import MAGIC_NUMBER, find_spec

    loader = cast("InspectLoader", cast("ModuleSpec", find_spec(module)).loader)
    unchecked = (1).to_bytes(4, "little") + bytes(8)
    return MAGIC_NUMBER + unchecked + marshal.dumps(loader.get_code(module))
