from __future__ import annotations

from collections.abc import Callable

import pytest

from torchx_core.supervisor import driver
from torchx_core.supervisor.driver import Supervisor


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
