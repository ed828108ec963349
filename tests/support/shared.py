"""A server that all processes of one test run share: the first that needs it starts it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

__all__ = ["SHARED_HOME", "shared"]

SHARED_HOME = "TORCHX_CORE_TESTS_HOME"
"""The variable with a folder of the whole test run; the oracle and the benchmarks have none."""


@contextmanager
def shared(folder: Path, server: AbstractContextManager[str]) -> Iterator[str]:
    """Start the server, unless another process has, and give its address.

    The process that has started it ends it, once no other is in this block any more.

    Args:
        folder: The same for all the processes, and for this server alone.
        server: Starts the server when it is entered, and ends it when it is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    address = folder / "address"
    with (folder / "lock").open("w") as lock:
        while True:
            fcntl.flock(lock, fcntl.LOCK_SH)  # waits while another process starts or ends it
            if address.exists():
                yield address.read_text()
                return
            fcntl.flock(lock, fcntl.LOCK_UN)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not address.exists():
                break
        with server as url:
            address.write_text(url)
            fcntl.flock(lock, fcntl.LOCK_UN)
            try:
                yield url
            finally:
                fcntl.flock(lock, fcntl.LOCK_EX)
                address.unlink()
