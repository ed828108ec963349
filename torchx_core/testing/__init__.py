"""For tests of apps, DAGs, flows and schedulers: a fake scheduler, and what every scheduler promises.

Importing this package loads nothing else; only `SchedulerContract` needs pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchx_core.testing.clock import FakeClock
    from torchx_core.testing.contract import SchedulerContract
    from torchx_core.testing.fake import FakeHost, FakeScheduler, fake_runner
    from torchx_core.testing.program import python_program
    from torchx_core.testing.steps import (
        Exit,
        FailUntil,
        Hold,
        Print,
        PrintAttempt,
        PrintMany,
        Raise,
        ReportMetric,
        ReportProgress,
        ReportResult,
        Step,
        Use,
    )
    from torchx_core.testing.wait import wait_until

__all__ = [
    "Exit",
    "FailUntil",
    "FakeClock",
    "FakeHost",
    "FakeScheduler",
    "Hold",
    "Print",
    "PrintAttempt",
    "PrintMany",
    "Raise",
    "ReportMetric",
    "ReportProgress",
    "ReportResult",
    "SchedulerContract",
    "Step",
    "Use",
    "fake_runner",
    "python_program",
    "wait_until",
]

_STEPS = (
    "Exit",
    "FailUntil",
    "Hold",
    "Print",
    "PrintAttempt",
    "PrintMany",
    "Raise",
    "ReportMetric",
    "ReportProgress",
    "ReportResult",
    "Step",
    "Use",
)
_HOMES = {
    "FakeClock": "torchx_core.testing.clock",
    "SchedulerContract": "torchx_core.testing.contract",
    **dict.fromkeys(("FakeHost", "FakeScheduler", "fake_runner"), "torchx_core.testing.fake"),
    "python_program": "torchx_core.testing.program",
    **dict.fromkeys(_STEPS, "torchx_core.testing.steps"),
    "wait_until": "torchx_core.testing.wait",
}


def __getattr__(name: str) -> object:
    """Import the name's home (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'torchx_core.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
