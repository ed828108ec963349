"""Component files for tests."""

from __future__ import annotations

import textwrap
from pathlib import Path

__all__ = ["Files"]


class Files:
    """A directory to write component files into."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> Path:
        """Write a file, and the directories above it, and return its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path
