"""Timeouts of Prefect that pass soon on an idle host, and not before the app runs on a busy one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torchx_core.runner import Runner
from torchx_core.specs import AppStatus

__all__ = ["LIMITS_S", "timed_out"]

LIMITS_S = (2, 8, 32)
"""One after the other, until the app was there in time."""

T = TypeVar("T")


def timed_out(run: Callable[[int], T], runner: Runner) -> tuple[T, AppStatus]:
    """Return what comes of a run whose app was submitted before its timeout, and how that one app ended."""
    for limit_s in LIMITS_S:
        outcome = run(limit_s)
        apps = runner.list("local_cwd")
        if apps:
            [app] = apps
            status = runner.wait(app.app_handle, timeout_s=240)
            assert status, "the app was not cancelled"
            return outcome, status
    raise AssertionError(f"no app within {LIMITS_S[-1]} s")
