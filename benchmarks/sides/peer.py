"""The peer: TorchX's own `local_cwd`, used as its documentation says."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

# By name: TorchX is installed in the peer's environment only, so no type checker of ours finds it.
_runner = import_module("torchx.runner")
_specs = import_module("torchx.specs")

_CACHE_SIZE = 10_000  # by default the 101st running app is refused
_TUNED_S = 0.01
_WATCH_S = 1.0


def create(folder: Path) -> Peer:
    """Return it; logs go into the folder."""
    return Peer(folder)


class Peer:
    """TorchX's runner."""

    importing = "from torchx.runner import get_runner; get_runner()"
    starting = """
import sys
from torchx.runner import get_runner
from torchx.specs import AppDef, Role
runner = get_runner()
runner.run(AppDef("b", [Role(name="w", image="", entrypoint="true")]), "local_cwd", {"log_dir": sys.argv[1]})
"""

    def __init__(self, folder: Path) -> None:
        """Make a runner."""
        self._folder = folder
        self._names = itertools.count()
        self._runner = _runner.get_runner(cache_size=_CACHE_SIZE)

    def submit(
        self, command: Sequence[str], replicas: int = 1, *, log_mode: str = "exact", live: bool = False
    ) -> str:
        """Run an app of one role."""
        del log_mode, live
        program, *args = command
        role = _specs.Role(name="w", image="", entrypoint=program, args=args, num_replicas=replicas)
        app = _specs.AppDef(name="bench", roles=[role])
        log_dir = str(self._folder / str(next(self._names)))
        return str(self._runner.run(app, "local_cwd", {"log_dir": log_dir}))

    def wait(self, job: str, *, tuned: bool = True) -> None:
        """Wait, polling as often as makes sense or as by default."""
        if tuned:
            self._runner.wait(job, wait_interval=_TUNED_S)
        else:
            self._runner.wait(job)

    def status(self, job: str) -> object:
        """Ask."""
        return self._runner.status(job)

    def cancel(self, job: str) -> None:
        """Cancel; blocks until it is done."""
        self._runner.cancel(job)

    def read(self, job: str) -> list[str]:
        """Read the log; there is one way."""
        return list(self._runner.log_lines(job, "w", 0))

    read_each = read

    def tail(self, job: str) -> Iterator[Sequence[str]]:
        """Tail."""
        for line in self._runner.log_lines(job, "w", 0, should_tail=True):
            yield (line,)

    def tail_all(self, job: str, replicas: int) -> list[list[str]]:
        """Tail each replica in a thread of its own, as ``torchx run`` does."""
        found: list[list[str]] = [[] for _ in range(replicas)]

        def gather(k: int) -> None:
            found[k].extend(self._runner.log_lines(job, "w", k, should_tail=True))

        _in_threads([threading.Thread(target=gather, args=(k,)) for k in range(replicas)])
        return found

    def watch(self, jobs: Sequence[str]) -> None:
        """Wait and tail: two threads per app."""
        waiters = [threading.Thread(target=self._runner.wait, args=(job, _WATCH_S)) for job in jobs]
        tailers = [threading.Thread(target=lambda j=job: list(self.tail(j))) for job in jobs]
        _in_threads(waiters + tailers)

    def close(self) -> None:
        """Close: kills all apps."""
        self._runner.close()


def _in_threads(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
