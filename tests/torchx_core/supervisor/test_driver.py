from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from torchx_core.supervisor import driver, machine
from torchx_core.supervisor.driver import Supervisor
from torchx_core.supervisor.final import read_final
from torchx_core.supervisor.plan import Plan, ReplicaPlan
from torchx_core.supervisor.tree import adopt_orphans


class _Timers:
    """Keeps the last timer."""

    def set(self, name: str, seconds: float, due: Callable[[], None]) -> None:
        """Keep it."""
        self.name, self.seconds, self.due = name, seconds, due


def test_a_deadline_is_a_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that sleeps for hours, or whose clock is set, ends the app within seconds of waking."""
    supervisor, timers = Supervisor.__new__(Supervisor), _Timers()
    stopped: list[str] = []

    def stop(_outcome: str, msg: str) -> None:
        stopped.append(msg)

    vars(supervisor).update(_timers=timers, _stop=stop)
    monkeypatch.setattr(driver, "time", lambda: 1000.0)
    supervisor._mind_the_deadline(1000.0 + 3600)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert (timers.name, timers.seconds) == ("deadline", 10.0)
    monkeypatch.setattr(driver, "time", lambda: 1000.0 + 3601)
    timers.due()
    assert (timers.seconds, stopped) == (0.0, [])
    timers.due()
    assert stopped == ["deadline passed"]


def _replica(number: int, directory: Path) -> ReplicaPlan:
    says = f"echo {number}.$TORCHX_ATTEMPT >>{directory}/ran"
    return ReplicaPlan(
        "r",
        number,
        ["/bin/sh", "-c", says],
        {},
        "/",
        str(directory / "log" / str(number)),
        policy="REPLICA",
        max_retries=1,
    )


def _serve(directory: Path, plan: Plan, ctl: int, refused: list[int]) -> bool:
    """Run the app, while some of the forks are refused; return whether nothing stays open."""
    forks, fork = itertools.count(), os.fork

    def fork_unless_refused() -> int:
        if next(forks) in refused:
            raise BlockingIOError(errno.EAGAIN, "no process")
        return fork()

    os.fork = fork_unless_refused
    adopt_orphans()
    supervisor = Supervisor(str(directory), "n", plan, ctl)
    before = list(Path("/proc/self/fd").iterdir())
    supervisor.run()
    return len(list(Path("/proc/self/fd").iterdir())) <= len(before)


@pytest.mark.parametrize("refused", [[], [0], [2], [4], [0, 1, 2, 3, 4]])
def test_a_kernel_that_has_no_process_costs_nobody_else_a_start(tmp_path: Path, refused: list[int]) -> None:
    """Whoever is refused starts again, and each of the others runs once."""
    plan = Plan([_replica(number, tmp_path) for number in range(5)])
    ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _serve(tmp_path, plan, ends[0], refused) else 3)
    assert os.waitpid(pid, 0)[1] == 0
    for end in ends:
        os.close(end)
    ran = [each.split(".") for each in (tmp_path / "ran").read_text().split()]
    assert sorted(number for number, _ in ran) == ["0", "1", "2", "3", "4"]
    assert sorted(attempt for _, attempt in ran) == ["0"] * (5 - len(refused)) + ["1"] * len(refused)
    assert not [path for path in tmp_path.iterdir() if path.is_fifo()]
    final = read_final(str(tmp_path))
    assert final is not None
    assert final.outcome == machine.SUCCEEDED
