"""Strings that stand for "no value" where TorchX's fields are plain strings."""

from __future__ import annotations

from typing import Final

__all__ = ["ALL", "MISSING", "NONE", "UNKNOWN"]

ALL: Final = "all"
"""Every scheduler."""
MISSING: Final = "<MISSING>"
"""A required string that nobody has set yet, such as an entrypoint."""
NONE: Final = "<NONE>"
"""An optional string that is not set."""
UNKNOWN: Final = "<UNKNOWN>"
"""A string that the backend cannot tell."""
