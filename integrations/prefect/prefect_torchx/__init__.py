"""Run TorchX-style AppDefs from Prefect.

Importing this package loads nothing, so that it costs a Prefect worker or server nothing either.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect_torchx.blocks import TorchXJob
    from prefect_torchx.decorators import torchx_task
    from prefect_torchx.job_run import TorchXJobRun
    from prefect_torchx.reap import reap_apps, with_reaper
    from prefect_torchx.run import arun_app, run_app
    from prefect_torchx.tasks import run_app_task

__all__ = [
    "TorchXJob",
    "TorchXJobRun",
    "arun_app",
    "reap_apps",
    "run_app",
    "run_app_task",
    "torchx_task",
    "with_reaper",
]

_HOMES = {
    "TorchXJob": "prefect_torchx.blocks",
    "TorchXJobRun": "prefect_torchx.job_run",
    "arun_app": "prefect_torchx.run",
    "reap_apps": "prefect_torchx.reap",
    "run_app": "prefect_torchx.run",
    "run_app_task": "prefect_torchx.tasks",
    "torchx_task": "prefect_torchx.decorators",
    "with_reaper": "prefect_torchx.reap",
}


def __getattr__(name: str) -> object:
    """Import the name's home when it is first used (PEP 562), also in the process of a flow."""
    if name not in _HOMES:
        raise AttributeError(f"module 'prefect_torchx' has no attribute {name!r}")
    from prefect_torchx._engine.flow_end import finish_cancels
    from prefect_torchx._engine.pool import pass_on_signals

    pass_on_signals()
    finish_cancels(lambda flow_run_id: import_module("prefect_torchx.reap").reap_leftovers(flow_run_id))
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Name what there is, also before it is used: ``prefect block register -m prefect_torchx`` looks here."""
    return sorted({*globals(), *__all__})
