"""Triggers that watch apps while their tasks are deferred."""

from __future__ import annotations

from airflow_torchx.triggers.torchx import TorchXTrigger

__all__ = ["TorchXTrigger"]
