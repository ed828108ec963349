"""Names the app of a flow run: after the flow run and its dispatch. The core runs an app id once."""

from __future__ import annotations

from uuid import UUID

from torchx_core.errors import MalformedAppHandleException
from torchx_core.specs import AppHandle, parse_app_handle

__all__ = ["app_id", "is_app", "is_app_of"]

_PREFIX = "flow-run"


def app_id(flow_run_id: UUID, dispatch: int) -> str:
    """Return the id of the flow run's app.

    Args:
        flow_run_id: The flow run.
        dispatch: Which dispatch, counted from 1.

    Example:
        >>> app_id(UUID(int=7), 2)
        'flow-run-00000000-0000-0000-0000-000000000007-2'
    """
    return f"{_PREFIX}-{flow_run_id}" + (f"-{dispatch}" if dispatch > 1 else "")


def is_app(handle: str | None, wanted: str) -> bool:
    """Return whether the handle, or whatever a flow run has in its place, is of the app with that id."""
    return _id_in(handle) == wanted


def is_app_of(flow_run_id: UUID, handle: AppHandle | None) -> bool:
    """Return whether the handle is of any app of that flow run."""
    found = _id_in(handle)
    return found == app_id(flow_run_id, 1) or found.startswith(f"{app_id(flow_run_id, 1)}-")


def _id_in(handle: str | None) -> str:
    try:
        return parse_app_handle(handle or "").app_id
    except MalformedAppHandleException:
        return ""
