"""Run TorchX-style apps durably, from anywhere.

Importing this package loads nothing else: each public name is fetched when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchx_core.runner import Runner, get_runner
    from torchx_core.specs import AppDef, AppState, AppStatus, Resource, Role

__all__ = ["AppDef", "AppState", "AppStatus", "Resource", "Role", "Runner", "__version__", "get_runner"]

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("Runner", "get_runner"), "torchx_core.runner"),
    **dict.fromkeys(("AppDef", "AppState", "AppStatus", "Resource", "Role"), "torchx_core.specs"),
}


def __getattr__(name: str) -> object:
    """Import the name's home (PEP 562); the supervisor relies on this staying lazy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'torchx_core' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
