"""What every replica finds in its environment about its job, whatever the scheduler."""

from __future__ import annotations

import os

from torchx_core.schedulers.difference import PARENT_RUN_ID
from torchx_core.specs import AppDef, macros

__all__ = ["inject_environment"]

ENV_JOB_ID = "TORCHX_JOB_ID"
ENV_SESSION = "TORCHX_INTERNAL_SESSION_ID"


def inject_environment(app: AppDef, *, scheduler: str, session: str, parent_run_id: str | None) -> None:
    """Set TorchX's own variables in each role; values the app set itself stay.

    Without a parent run id, that of the submitter's own environment counts: what a run submits belongs to the
    same parent. It is the only one that may differ between two submits of one request, and does not make them
    different (`request_differences`): the first submit's stays.
    """
    parent = parent_run_id or os.environ.get(PARENT_RUN_ID)
    for role in app.roles:
        role.env.setdefault(ENV_JOB_ID, f"{scheduler}://{session}/{macros.app_id}")
        role.env.setdefault(ENV_SESSION, session)
        if parent:
            role.env.setdefault(PARENT_RUN_ID, parent)
