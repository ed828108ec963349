"""Keys of an app's metadata that other programs look for; their spelling is TorchX's."""

from __future__ import annotations

from typing import Final

__all__ = ["NA", "TORCHX_CONTEXT_NAME", "app_metadata"]

TORCHX_CONTEXT_NAME: Final = "TORCHX_CONTEXT_NAME"
"""Environment variable that says what submits, such as ``cli_run`` or a pipeline's name."""
NA: Final = "<<NA>>"
"""The value of a key whose value nobody knows."""


class app_metadata:  # noqa: N801  (TorchX's name)
    """Keys that a scheduler puts into the metadata of the job it submits."""

    CONTEXT: Final = "torchx/context"
    VERSION: Final = "torchx/version"
    SCHEDULER: Final = "torchx/scheduler"
    ROLES_PREFIX: Final = "torchx/roles."
    """Followed by a role's name, a dot and a key of that role's."""
