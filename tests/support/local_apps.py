"""Programs that misbehave, other processes that submit, and a look at what runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from torchx_core import AppDef, Role, Runner
from torchx_core.schedulers import Batch, LogLine
from torchx_core.schedulers.local.liveness import is_served
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.specs import AppHandle
from torchx_core.testing import wait_until

# A grandchild that ignores SIGTERM, double-forks, leaves the session and wipes its environment.
ESCAPEE = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]], {})
    os._exit(0)
time.sleep(600)
"""


def escapee(token: str) -> list[str]:
    """Return a program that leaves such a grandchild, recognised by the token."""
    return ["python3", "-c", ESCAPEE, token]


def app_of(*argv: str, **role: object) -> AppDef:
    """Return an app of one role, by default one replica, that runs these words."""
    fields: dict[str, object] = {
        "name": "r",
        "image": "",
        "entrypoint": argv[0],
        "args": list(argv[1:]),
        **role,
    }
    return AppDef("app", [Role(**fields)])  # type: ignore[arg-type]  # the tests pass what Role takes


def lines_of(batches: Iterator[Batch]) -> list[LogLine]:
    """Return every line of the batches."""
    return [line for batch in batches for line in batch.lines()]


def has_no_line_after(runner: Runner, handle: AppHandle, cursor: str | None) -> bool:
    """Return whether the running app has written no line yet that comes after the cursor."""
    for batch in runner.follow(handle, cursor, tick_s=0.01):
        if any(True for _ in batch.lines()):
            return False
        if batch.answered and not batch.events:
            break
    return True


def python(state_dir: Path, code: str, *args: str) -> subprocess.Popen[str]:
    """Start another process that uses the same state directory."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        env={**os.environ, "TORCHX_STATE_DIR": str(state_dir)},
        stdout=subprocess.PIPE,
        text=True,
    )


def supervisor_of(state_dir: Path, app_id: str) -> tuple[int, int]:
    """Return the process ids of an app's guardian and supervisor."""
    app_dir = str(state_dir / "local_cwd" / "s" / app_id)

    def both() -> list[tuple[int, int]]:
        found = [pid for pid in processes() if app_dir in cmdline(pid)]
        return [(p, c) for p in found for c in found if parent_of(c) == p]

    return wait_until(both, 240)[0]


def wait_until_unserved(state_dir: Path, app_id: str) -> None:
    """Wait until supervisor and guardian of an ended app have let go of its lock."""
    record = AppRecord(str(state_dir / "local_cwd" / "s" / app_id), {})
    wait_until(lambda: not is_served(record), 240)


def processes() -> list[int]:
    """Return every process of this host."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def cmdline(pid: int) -> list[str]:
    """Return a process's words; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def parent_of(pid: int) -> int:
    """Return a process's parent; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def running(token: str) -> list[int]:
    """Return the living processes that have the token among their words."""
    return [pid for pid in processes() if pid != os.getpid() and any(token in word for word in cmdline(pid))]


def kill(*pids: int) -> None:
    """SIGKILL."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def fill(directory: Path, *, leave: int = 0) -> Path:
    """Use up the space of a file system, but for so many bytes; return the file to remove."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096) == 4096:
                pass
        except OSError:
            pass
        if leave:
            file.truncate(file.tell() - leave)
    return filler
