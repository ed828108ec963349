"""A component whose app an engine's task runs: what a trial has written into its folder."""

from __future__ import annotations

import json
from pathlib import Path

from torchx_core import AppDef


def witness(folder: str) -> AppDef:
    """Return the app of a trial.

    Args:
        folder: The trial's.
    """
    return AppDef.from_dict(json.loads(Path(folder, "app.json").read_text()))
