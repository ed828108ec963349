"""The hook that knows where apps run."""

from __future__ import annotations

from airflow_torchx.hooks.torchx import TorchXHook

__all__ = ["TorchXHook"]
