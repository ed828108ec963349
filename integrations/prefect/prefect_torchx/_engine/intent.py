"""What Prefect's runner wants of this process when it sends a SIGTERM."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["is_cancelled", "will_run_again"]

_BEHAVIOR = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"


def is_cancelled() -> bool:
    """Return whether Prefect's runner has told this process that its flow run is cancelled."""
    return _intent() == "cancel"


def will_run_again() -> bool:
    """Return whether the flow run is to be run again elsewhere once this process is gone.

    ``prefect flow-run execute`` has a mode in which a SIGTERM reschedules the run, and newer versions one in
    which it hands the run back; both are set by a variable.
    """
    return bool(os.environ.get(_BEHAVIOR)) or _intent() not in (None, "cancel")


def _intent() -> str | None:
    try:
        from prefect._internal.control_listener import get_intent
    except ImportError:
        return None
    ask: Callable[[], str | None] = get_intent
    return ask()
