"""Decorators of tasks."""

from airflow_torchx.decorators.torchx import torchx_task

__all__ = ["torchx_task"]
