"""The database that an engine's servers begin with: made once in a test run, and copied for the others."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from shared import SHARED_HOME

__all__ = ["made_once"]


@contextmanager
def made_once(database: Path | None) -> Iterator[bool]:
    """Put the database there, unless this is the first of its name in the test run: then keep what is made.

    An engine takes up to eight seconds of CPU time to make its tables. Whoever asks for a database that
    another process is making waits for it. Where there is no folder of a test run, each is made anew.

    Args:
        database: The file of SQLite; None where the engine has a database of another kind.

    Yields:
        Whether it is there. If not, it is to be made, or its server to be started, before this block is left.
    """
    folder = os.environ.get(SHARED_HOME)
    if folder is None or database is None or database.exists():
        yield database is not None and database.exists()
        return
    kept = Path(folder) / database.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            yield False
            _copy(database, kept)
            return
    shutil.copyfile(kept, database)
    yield True


def _copy(database: Path, kept: Path) -> None:
    """Copy a database whose server may run: what it has written may still lie in another file."""
    whole = kept.with_suffix(".new")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(whole)) as copy:
        source.backup(copy)
    whole.replace(kept)
