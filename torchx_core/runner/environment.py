"""What every replica finds in its environment about its job, whatever the scheduler."""

from __future__ import annotations

import os

from torchx_core.errors import InvalidAppError, InvalidConfigError
from torchx_core.settings import (
    ENV_TORCHX_INTERNAL_SESSION_ID,
    ENV_TORCHX_JOB_ID,
    ENV_TORCHX_METRIC_SINKS,
    ENV_TORCHX_PARENT_RUN_ID,
    ENV_TORCHX_REPLICA,
    ENV_TORCHX_ROLE,
    ENV_TRACE_CONTEXT,
)
from torchx_core.specs import AppDef, macros

__all__ = ["inject_environment"]


def inject_environment(app: AppDef, *, scheduler: str, session: str, parent_run_id: str | None) -> None:
    """Set TorchX's own variables in each role; values the app set itself stay.

    Without a parent run id, that of the submitter's own environment counts: what a run submits belongs to the
    same parent. So do the submitter's metric sinks, and the span of OpenTelemetry that is current. They may
    differ between two submits of one request, and do not make them different (`request_differences`): the
    first submit's stay.

    Raises:
        InvalidAppError: A role names a metric sink that does not exist.
        InvalidConfigError: The submitter's environment does.
    """
    parent = parent_run_id or os.environ.get(ENV_TORCHX_PARENT_RUN_ID)
    for role in app.roles:
        role.env.setdefault(ENV_TORCHX_JOB_ID, f"{scheduler}://{session}/{macros.app_id}")
        role.env.setdefault(ENV_TORCHX_INTERNAL_SESSION_ID, session)
        if parent:
            role.env.setdefault(ENV_TORCHX_PARENT_RUN_ID, parent)
    _inject_metric_sinks(app)
    _inject_trace_context(app)


def _inject_metric_sinks(app: AppDef) -> None:
    """Name the sinks in each role; where there are any, also what tells them who reports."""
    inherited = os.environ.get(ENV_TORCHX_METRIC_SINKS)
    for i, role in enumerate(app.roles):
        own = role.env.get(ENV_TORCHX_METRIC_SINKS)
        named = inherited if own is None else own
        if not named:
            continue
        from torchx_core.sinks.named import parse_sinks  # imported here: few apps have any

        try:
            parse_sinks(named)
        except ValueError as err:
            if own is None:
                raise InvalidConfigError(f"${ENV_TORCHX_METRIC_SINKS}", None, str(err)) from err
            raise InvalidAppError(f"roles[{i}].env[{ENV_TORCHX_METRIC_SINKS!r}]", str(err)) from err
        role.env[ENV_TORCHX_METRIC_SINKS] = named
        role.env.setdefault(ENV_TORCHX_ROLE, role.name)
        role.env.setdefault(ENV_TORCHX_REPLICA, macros.replica_id)


def _inject_trace_context(app: AppDef) -> None:
    """Have each role's spans belong to the submitter's, unless the role has a parent of its own for them."""
    from torchx_core.runner.telemetry import trace_context  # imported here: a DAG file submits nothing

    context = trace_context()
    for role in app.roles:
        if not role.env.keys() & ENV_TRACE_CONTEXT:
            role.env.update(context)
