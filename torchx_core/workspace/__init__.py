"""TorchX's path of what a scheduler that was written for TorchX builds workspaces with."""

from __future__ import annotations

from torchx_core.workspace.api import WorkspaceMixin

__all__ = ["WorkspaceMixin"]
