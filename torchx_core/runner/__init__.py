"""Run an app on any scheduler and follow it."""

from torchx_core.runner.runner import Runner, get_runner

__all__ = ["Runner", "get_runner"]
