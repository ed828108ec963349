"""Operators."""

from airflow_torchx.operators.torchx import TorchXRunOperator

__all__ = ["TorchXRunOperator"]
