"""Run TorchX-style AppDefs from Prefect.

Importing this package loads nothing, so that it costs a Prefect worker or server nothing either.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect_torchx.run import run_app

__all__ = ["run_app"]

_HOMES = {"run_app": "prefect_torchx.run"}


def __getattr__(name: str) -> object:
    """Import the name's home when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'prefect_torchx' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
