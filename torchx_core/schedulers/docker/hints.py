"""Tells what to do about what the engine refused."""

from __future__ import annotations

import re

from torchx_core.schedulers.docker.client import Refused

__all__ = ["explain"]

_HINTS = (
    (r"no such image", "the engine does not have it and pull=never"),
    (r"port is already allocated|address already in use", "choose another port in port_map, or network=none"),
    (r"network .*not found", "create it, or set network=app"),
    (r"address pool", "too many networks on this engine: remove some, or set network=bridge"),
    (r"could not select device driver", "the engine has no GPUs or no driver for them"),
    (r"bind source path does not exist", "paths are those of the engine's host"),
)


def explain(refused: Refused) -> str:
    """Return what the engine said and what to do about it."""
    said = str(refused)
    for pattern, hint in _HINTS:
        if re.search(pattern, said, re.IGNORECASE | re.DOTALL):
            return f"{said}; {hint}"
    return said
