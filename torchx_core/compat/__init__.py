"""Schedulers of an installed TorchX, behind this package's own interface.

Any scheduler that TorchX knows is found here under ``torchx:<its name>``: ``torchx:slurm``,
``torchx:kubernetes``, a plugin's. TorchX renders, submits, cancels and reads logs; what it does not keep (who
owns an app, why it was cancelled, that it was submitted at all) is written down beside it.
"""

from __future__ import annotations

from torchx_core.compat.names import ENTRY_POINT_GROUP, PREFIX, find_factory, is_installed, scheduler_names

__all__ = ["ENTRY_POINT_GROUP", "PREFIX", "find_factory", "is_installed", "scheduler_names"]
