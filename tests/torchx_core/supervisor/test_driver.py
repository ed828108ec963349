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
    supervisor, timers, stopped = Supervisor.__new__(Supervisor), _Timers(), list[str]()
    vars(supervisor).update(_timers=timers, _stop=lambda _outcome, msg: stopped.append(msg))
    monkeypatch.setattr(driver, "time", lambda: 1000.0)
    supervisor._mind_the_deadline(1000.0 + 3600)  # noqa: SLF001  # the clock can be set in a test only here
    assert (timers.name, timers.seconds) == ("deadline", 10.0)
    monkeypatch.setattr(driver, "time", lambda: 1000.0 + 3601)
    timers.due()
    assert (timers.seconds, stopped) == (0.0, [])
    timers.due()
    assert stopped == ["deadline passed"]
