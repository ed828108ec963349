"""The final record: how an app ended, written once, even on a full disk and whoever writes it."""

from __future__ import annotations

import os
from itertools import zip_longest
from typing import cast

from torchx_core.supervisor.machine import ENDED, OUTCOMES, REPLICA_PHASES, Replica, State
from torchx_core.supervisor.reading import DamagedFile, read_object
from torchx_core.supervisor.records import FINAL, VERSION, Json, dumps, open_or_create
from torchx_core.supervisor.shape import Misshapen, build, rows
from torchx_core.supervisor.usage import Used

RESERVED = ".final.reserved"


def encode_final(state: State) -> Json:
    """Return the record of an ended app; what the release before this one does not know stands apart."""
    replicas = [r._asdict() for r in state.replicas]
    used = [row.pop("used") for row in replicas]
    return {
        "version": VERSION,
        "state": {**state._asdict(), "replicas": replicas},
        "used": [row and row._asdict() for row in used],
    }


def decode_final(record: Json) -> State:
    """Return the state from its record.

    Raises:
        Misshapen: It is none of an ended app.
    """
    fields = record.get("state")
    used = rows(record, "used") if "used" in record else []
    replicas = tuple(
        build(Replica, row)._replace(used=None if figures is None else build(Used, figures))
        for row, figures in zip_longest(rows(fields, "replicas"), used)
    )
    state = build(State, {**cast("Json", fields), "replicas": replicas})
    if state.phase != ENDED or state.outcome not in OUTCOMES:
        raise Misshapen(f"it ended as {state.outcome!r} in phase {state.phase!r}")
    for replica in replicas:
        if replica.phase not in REPLICA_PHASES:
            raise Misshapen(f"replica {replica.replica_id} is {replica.phase!r}")
    return state


def without_texts(state: State) -> State:
    """Return the state without what programs wrote: it fits where room was reserved."""
    replicas = tuple(r._replace(error="") for r in state.replicas)
    note = "the disk was full: result and errors of the program were dropped"
    return state._replace(replicas=replicas, result=None, msg=f"{state.msg}; {note}" if state.msg else note)


def read_final(app_dir: str) -> State | None:
    """Return the terminal state, or None while the app has none.

    Raises:
        DamagedFile: There is a record, and it does not say how the app ended.
    """
    path = os.path.join(app_dir, FINAL)
    record = read_object(path)
    try:
        return None if record is None else decode_final(record)
    except Misshapen as err:
        raise DamagedFile(path, str(err)) from err


class FinalRecord:
    """Space for the final record, taken while there is some: a full disk must not hide an exit code.

    One process at a time deals with it: the supervisor; after its death the guardian; after that a reader
    that holds the app's reap lock. Each finds the space that the one before has reserved.
    """

    def __init__(self, app_dir: str, replicas: int) -> None:
        """Reserve room for that many replicas; on a disk that is full already, hope for later.

        Raises:
            DamagedFile: Something else lies in the place of the reserved space.
        """
        self._written = False
        self._name = RESERVED
        # A path would lead elsewhere when the app is deleted and another one takes its id.
        self._dir = os.open(app_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fd = open_or_create(RESERVED, dir_fd=self._dir)
        except (OSError, DamagedFile) as err:
            os.close(self._dir)
            if isinstance(err, DamagedFile):
                raise DamagedFile(os.path.join(app_dir, RESERVED), err.problem) from err
            raise
        size = 4096 + 1024 * replicas
        try:
            os.posix_fallocate(self._fd, 0, size)
        except (OSError, AttributeError):  # macOS has no posix_fallocate
            return

    def is_at(self, app_dir: str) -> bool:
        """Return whether the directory of that path is still the one that the record goes to."""
        try:
            return self._written or os.path.samestat(os.stat(app_dir), os.fstat(self._dir))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Let go of a record that could not be written; the space stays reserved."""
        if not self._written:
            self._written = True
            os.close(self._fd)
            os.close(self._dir)

    def write(self, state: State) -> bool:
        """Make this the app's end, unless it has one; false when there is no room yet.

        Whatever end the app has after a true answer is on disk for good, or was deleted already: readers
        see the end in the journal a moment before it is here.
        """
        if self._written:
            return True
        data = dumps(encode_final(state))
        try:
            self._keep_place()
            if os.pwrite(self._fd, data, 0) < len(data):
                return False
            os.ftruncate(self._fd, len(data))
            os.fsync(self._fd)
            self._give_name()
        except FileNotFoundError:
            pass  # somebody deleted the app
        except (OSError, DamagedFile):
            return False
        self.close()
        return True

    def _keep_place(self) -> None:
        """Take another place, as far as there is room, where somebody has put something else into ours."""
        try:
            there = os.stat(self._name, dir_fd=self._dir, follow_symlinks=False)
        except FileNotFoundError:  # the app was deleted, or whoever was first has ended it
            return
        if os.path.samestat(there, os.fstat(self._fd)):
            return
        self._name = f"{RESERVED}.{os.getpid()}"
        taken = open_or_create(self._name, dir_fd=self._dir)
        os.close(self._fd)
        self._fd = taken

    def _give_name(self) -> None:
        try:  # noqa: SIM105  # the supervisor starts faster without contextlib
            os.link(self._name, FINAL, src_dir_fd=self._dir, dst_dir_fd=self._dir)
        except FileExistsError:
            pass  # whoever was first has ended it
        os.unlink(self._name, dir_fd=self._dir)
        os.fsync(self._dir)
