"""Functions in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from function_files import Load, load_function, unload


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Write a text to a file and load the last function in it."""
    yield lambda text: load_function(tmp_path, text)
    unload()
