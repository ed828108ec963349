"""Reads the end of what a flow run's process printed."""

from __future__ import annotations

from collections import deque
from typing import Final

from prefect_torchx.masking import make_mask
from prefect_torchx.worker.job import ROLE
from torchx_core.errors import TorchXError
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle

__all__ = ["read_last_lines"]

LINES: Final = 50


def read_last_lines(runner: Runner, handle: AppHandle) -> list[str]:
    """Return the app's last lines, its secrets hidden; none when they cannot be read any more."""
    try:
        app = runner.describe(handle)
        lines = deque(runner.log_lines(handle, ROLE), maxlen=LINES) if app else ()
    except TorchXError:
        return []
    mask = make_mask(app) if app else str
    return [mask(line.rstrip("\n")) for line in lines]
