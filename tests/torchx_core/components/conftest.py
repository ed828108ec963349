"""What the tests of components share: a place for component files, and an interpreter that forgets them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from component_files import Files


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take back what loading a file leaves: modules and an entry of the path."""
    monkeypatch.delenv("TORCHX_COMPONENT_PATHS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if not name.startswith("torch") or name.startswith("torchx_component_"):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Where the test writes its component files."""
    return Files(tmp_path)
