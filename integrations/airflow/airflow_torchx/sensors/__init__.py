"""Sensors that wait for apps."""

from __future__ import annotations

from airflow_torchx.sensors.torchx import TorchXSensor

__all__ = ["TorchXSensor"]
