"""The image of the built-in components, for schedulers that run images."""

from __future__ import annotations

from typing import Final

__all__ = ["IMAGE"]

IMAGE: Final = "pytorch/pytorch"
"""Has Python, PyTorch and ``torchrun``; the built-in components need nothing else in it."""
