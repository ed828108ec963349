from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchx_core.entry_points import entry_points

Install = Callable[[str, str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what puts a distribution into a folder that Python imports from, and returns where it lies."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def put(name: str, text: str) -> Path:
        place = tmp_path / f"{name}-1.0.dist-info"
        place.mkdir()
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (place / "entry_points.txt").write_text(text)
        return place

    return put


def names(*groups: str) -> list[str]:
    """Return the names in these groups, in order."""
    return [entry.name for entry in entry_points(*groups)]


def test_the_groups_come_in_their_order(install: Install) -> None:
    """Entry points of the first group come first, whichever package has them; other groups are left out."""
    install("one", "[txc.second]\nb = m\n[txc.other]\nc = m\n")
    install("two", "[txc.first]\na = m\n")
    assert names("txc.first", "txc.second") == ["a", "b"]
    assert names("txc.nobody") == []


def test_packages_are_read_once_until_one_is_installed_or_removed(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another question is answered from memory; a folder that has changed has all packages read again."""
    readings = 0
    real = importlib.metadata.entry_points

    def read() -> object:
        nonlocal readings
        readings += 1
        return real()

    monkeypatch.setattr("importlib.metadata.entry_points", read)
    install("one", "[txc.group]\na = m\n")
    assert names("txc.group") == names("txc.group", "txc.other") == ["a"]
    assert readings == 1
    two = install("two", "[txc.group]\nb = m\n")
    assert sorted(names("txc.group")) == ["a", "b"]
    shutil.rmtree(two)
    assert names("txc.group") == ["a"]
    assert readings == 3


def test_a_folder_that_is_not_there_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sys.path` may name what nobody has made, or the current folder by an empty text."""
    monkeypatch.setattr(sys, "path", ["", "/txc/nowhere", *sys.path])
    assert "pytest11" in {entry.group for entry in entry_points("pytest11")}
