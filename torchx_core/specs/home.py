"""Where programs written for TorchX keep their own files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TORCHX_HOME"]


def TORCHX_HOME(*subdir_paths: str) -> Path:  # noqa: N802  (TorchX's name)
    """Return ``$TORCHX_HOME``, else ``~/.torchx``, or a directory below it; it is made if it is not there.

    Nothing of ours lies there: records of apps are in the state directory.
    """
    from pathlib import Path  # imported here: who asks for no directory pays for no pathlib

    home = Path(os.environ.get("TORCHX_HOME") or Path.home() / ".torchx").joinpath(*subdir_paths)
    home.mkdir(parents=True, exist_ok=True)
    return home
