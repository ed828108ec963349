"""Links from a task's page to its app."""

from __future__ import annotations

from airflow_torchx.links.torchx import TorchXPageLink, TorchXRunLink, TorchXServiceLink

__all__ = ["TorchXPageLink", "TorchXRunLink", "TorchXServiceLink"]
