"""A work pool whose flow runs execute as apps, on any scheduler."""

from prefect_torchx.worker.job import TorchXJobConfiguration, TorchXVariables
from prefect_torchx.worker.worker import TorchXWorker, TorchXWorkerResult

__all__ = ["TorchXJobConfiguration", "TorchXVariables", "TorchXWorker", "TorchXWorkerResult"]
