"""TorchX's path of small functions, for components and schedulers that were written for it."""

from __future__ import annotations

__all__: list[str] = []
