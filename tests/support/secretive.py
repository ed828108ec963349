"""A scheduler that runs local processes and tells nobody their secrets, as Docker; called ``secretive``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from plugged import plugged_in

from torchx_core.schedulers import DescribeAppResponse, Scheduler
from torchx_core.schedulers.local import CWDImageProvider, LocalRequest, LocalScheduler
from torchx_core.schedulers.secrets import mask_env

__all__ = ["create_scheduler", "secretive"]


class _SecretiveScheduler(LocalScheduler):
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        found = super().describe(app_id)
        if found is None:
            return None
        return replace(found, roles=[replace(role, env=mask_env(role.env)) for role in found.roles])


def create_scheduler(session_name: str, **_params: object) -> Scheduler[LocalRequest]:
    """Return the scheduler of a session: what the entry point names."""
    return _SecretiveScheduler(session_name, CWDImageProvider, backend="secretive")


@contextmanager
def secretive(folder: Path) -> Iterator[None]:
    """Install the scheduler for a while."""
    with plugged_in(folder, "secretive", "secretive:create_scheduler"):
        yield
