"""Reads the end of what a flow run's process printed, and hides its secrets."""

from __future__ import annotations

from collections import deque
from typing import Final

from prefect_torchx.masking import Mask, make_mask
from prefect_torchx.worker.job import ROLE
from torchx_core.errors import TorchXError
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle

__all__ = ["mask_of", "read_last_lines"]

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


def mask_of(runner: Runner, handle: AppHandle) -> Mask:
    """Return what hides the app's secrets; where the app cannot be read any more, nothing of it is shown."""
    try:
        app = runner.describe(handle)
    except TorchXError:
        return lambda _: f"the app of this flow run cannot be read: {handle}"
    return make_mask(app) if app else str
