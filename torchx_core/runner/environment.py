"""What every replica finds in its environment about its job, whatever the scheduler."""

from __future__ import annotations

import os

from torchx_core.specs import AppDef, macros

__all__ = ["inject_environment"]

ENV_JOB_ID = "TORCHX_JOB_ID"
ENV_SESSION = "TORCHX_INTERNAL_SESSION_ID"
ENV_PARENT_RUN_ID = "TORCHX_PARENT_RUN_ID"


def inject_environment(app: AppDef, *, scheduler: str, session: str, parent_run_id: str | None) -> None:
    """Set TorchX's own variables in each role; values the app set itself stay.

    All of them are the same for every caller, so that two submits of one request stay equal. Without a parent
    run id, that of the submitter's own environment counts: what a run submits belongs to the same parent.
    """
    parent = parent_run_id or os.environ.get(ENV_PARENT_RUN_ID)
    for role in app.roles:
        role.env.setdefault(ENV_JOB_ID, f"{scheduler}://{session}/{macros.app_id}")
        role.env.setdefault(ENV_SESSION, session)
        if parent:
            role.env.setdefault(ENV_PARENT_RUN_ID, parent)
