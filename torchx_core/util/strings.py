"""TorchX's path of names for backends that are strict about them."""

from __future__ import annotations

import re

__all__ = ["normalize_str"]


def normalize_str(data: str) -> str:
    """Return the text in lower case, with ``a-z``, ``0-9`` and dashes alone, and no dash at its beginning."""
    return re.sub("[^a-z0-9-]", "", data.lower()).lstrip("-")
