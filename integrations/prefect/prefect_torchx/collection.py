"""What Prefect imports by itself, to find our types by name: the entry point of ``prefect.collections``.

Prefect does so when a server or a worker starts, and when a block is loaded by the name of its type. So this
module imports little; what fails in it Prefect prints at every such start.
"""

from __future__ import annotations

import sys

from prefect_torchx.blocks import TorchXJob

__all__ = ["TorchXJob"]

# Prefect's workers take longer to import than all of this package. Whatever looks for a type of worker by its
# name has imported them before it imports this; who loads a block need not pay for them.
if "prefect.workers.base" in sys.modules:
    import prefect_torchx.worker  # noqa: F401  (importing it registers it)
