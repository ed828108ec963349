"""TorchX's path of the runner; what lies here is defined in `torchx_core.runner`."""

from torchx_core.runner.runner import Runner, get_runner

__all__ = ["Runner", "get_runner"]
