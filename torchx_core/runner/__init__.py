"""Run an app on any scheduler and follow it."""

from torchx_core.runner.runner import Runner, get_runner
from torchx_core.runner.workspaces import pin_workspace_images

__all__ = ["Runner", "get_runner", "pin_workspace_images"]
