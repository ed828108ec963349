"""Brings an app into being: its record, then Slurm's job; a crash never duplicates or loses it.

=========================================  =======================================================
the submitter dies …                       then
=========================================  =======================================================
before the record has its name             there is no app; a hidden directory is left to `prune`
before sbatch has been called              the next submit of this id finds no job, and submits one
after sbatch, before the id is written     the next submit finds the job by its comment; the job
                                           itself writes its id when it starts
after the id is written                    the app runs; the next submit attaches
=========================================  =======================================================

Should two jobs come of it all the same (Slurm lists a job late, say), only one does anything: whichever
writes ``job.json`` first. The other ends at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import cast

from torchx_core.errors import (
    AppIdConflictError,
    SchedulerError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
)
from torchx_core.schedulers.difference import differences
from torchx_core.schedulers.slurm.commands import CommandFailed, call
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.record import (
    FINAL,
    JOB,
    LEASE,
    PLAN,
    SCRIPT,
    SHIM,
    SPEC,
    STOP,
    SUBMIT_LOCK,
    VERSION,
    AppRecord,
    read_record,
)
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.shipping import packed
from torchx_core.supervisor.records import Json, dumps, sync_directory, write_once

__all__ = ["submit"]


def submit(request: SlurmRequest, queue: JobQueue) -> None:
    """Create the app and its job, or attach to the one that an equal request created, completing it.

    Raises:
        AppIdConflictError: The id is taken by a different request.
        SubmitFailedError: Slurm refused the job; nothing is left behind.
        SubmitOutcomeUnknownError: Slurm did not answer.
    """
    asked: Json = {"app": request.app.to_dict(), "cfg": dict(request.cfg)}
    while True:
        _create(request, asked)
        record = read_record(request.app_dir)
        if record is None:
            continue  # deleted, or taken back, meanwhile
        difference = differences(record.asked, asked)
        if difference:
            raise AppIdConflictError(request.app_id, difference)
        try:
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
        "version": VERSION,
        "incarnation": request.incarnation,
        "comment": request.comment,
        "created_at": time.time(),
        "asked": asked,
        "replicas": [list(planned) for planned in request.replicas],
        "sbatch": request.sbatch,
    }
    try:
        os.makedirs(fresh, mode=0o700)
        _write(fresh, SPEC, dumps(content))
        _write(fresh, PLAN, dumps(request.plan))
        _write(fresh, SCRIPT, os.fsencode(request.script))
        _write(fresh, SHIM, packed())
        _write(fresh, LEASE, b"")
        _write(fresh, SUBMIT_LOCK, b"")
        sync_directory(fresh)
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


def _write(directory: str, name: str, data: bytes) -> None:
    with open(
        os.path.join(directory, name), "xb", opener=lambda path, flags: os.open(path, flags, 0o600)
    ) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _has_job(record: AppRecord, request: SlurmRequest, queue: JobQueue) -> bool:
    """See that the app has its job; false when its record was taken back while we looked."""
    if _is_settled(record):
        return True
    with _alone(record) as still_there:
        if not still_there:
            return False
        if _is_settled(record):
            return True
        try:
            job_id = _find_job(record, queue) or _sbatch(record, request.app_id)
        except CommandFailed as err:
            _take_back(record)
            raise SubmitFailedError(f"cannot submit app {request.app_id!r}: {err}") from err
        except SchedulerError as err:
            raise SubmitOutcomeUnknownError(request.app_id, str(err)) from err
        write_once(record.directory, JOB, {"job_id": job_id})
        return True


def _is_settled(record: AppRecord) -> bool:
    return any(os.path.exists(record.path(name)) for name in (JOB, STOP, FINAL))


@contextmanager
def _alone(record: AppRecord) -> Generator[bool]:
    """Hold the app's lock, so that of several submitters one calls sbatch."""
    with open(record.path(SUBMIT_LOCK), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        present = read_record(record.directory)
        yield present is not None and present.incarnation == record.incarnation


def _find_job(record: AppRecord, queue: JobQueue) -> str | None:
    """Return the job of an earlier submitter that died before it could write its id down."""
    jobs = queue.ask().jobs.values()
    return next((job.job_id for job in jobs if job.comment.startswith(record.comment)), None)


def _sbatch(record: AppRecord, app_id: str) -> str:
    """Submit, from the record: what is submitted is what was recorded."""
    command = cast("list[str]", record.content["sbatch"])
    job_id = (
        call(command).partition(";")[0].strip()
    )  # with a cluster's name behind it, where there are several
    if not job_id.isdecimal():
        raise SubmitOutcomeUnknownError(app_id, f"sbatch says {job_id!r}")
    return job_id


def _take_back(record: AppRecord) -> None:
    gone = os.path.join(os.path.dirname(record.directory), f".undone-{os.urandom(6).hex()}")
    os.rename(record.directory, gone)
    shutil.rmtree(gone, ignore_errors=True)
