"""TorchX's path of the session's id, which here is the session's name."""

from __future__ import annotations

import os
from typing import Final

from torchx_core.settings import ENV_TORCHX_INTERNAL_SESSION_ID

__all__ = ["TORCHX_INTERNAL_SESSION_ID", "get_torchx_session_id"]

TORCHX_INTERNAL_SESSION_ID: Final = ENV_TORCHX_INTERNAL_SESSION_ID


def get_torchx_session_id() -> str | None:
    """Return the session of the app that this process belongs to; None in one that no app has started."""
    return os.environ.get(ENV_TORCHX_INTERNAL_SESSION_ID)
