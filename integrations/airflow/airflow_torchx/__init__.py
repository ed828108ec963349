"""Run TorchX-style AppDefs from Airflow.

Importing this package loads nothing: Airflow imports it for its provider info before Airflow itself is ready.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_torchx.hooks.torchx import TorchXHook
    from airflow_torchx.operators.torchx import TorchXRunOperator
    from airflow_torchx.sensors.torchx import TorchXSensor

__all__ = ["TorchXHook", "TorchXRunOperator", "TorchXSensor"]

_HOMES = {
    "TorchXHook": "airflow_torchx.hooks.torchx",
    "TorchXRunOperator": "airflow_torchx.operators.torchx",
    "TorchXSensor": "airflow_torchx.sensors.torchx",
}


def __getattr__(name: str) -> object:
    """Import the name's home when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'airflow_torchx' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
