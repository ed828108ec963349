"""Files stay small, pins stay free of places, and each package says that it is typed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ["torchx_core", "integrations", "tests", "dags", "demo", "benchmarks", "docs", "constraints", ".ci"]
WRITTEN_BY_HAND = {".py", ".md", ".sh", ".toml", ""}
MAX_LINES = 500


def _files() -> list[Path]:
    found = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.is_file()]
    found += [p for p in ROOT.iterdir() if p.is_file() and not p.name.startswith(".coverage")]
    return sorted(p for p in found if not {"_build", "__pycache__", "results"} & set(p.parts))


def test_no_file_is_too_long() -> None:
    """One file, one idea: five hundred lines are never one idea."""
    lengths = {
        str(p.relative_to(ROOT)): len(p.read_text().splitlines())
        for p in _files()
        if p.suffix in WRITTEN_BY_HAND
    }
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


@pytest.mark.parametrize("path", sorted((ROOT / "constraints").glob("*.txt")), ids=lambda p: p.name)
def test_pins_are_names_and_versions(path: Path) -> None:
    """A constraints file names no host, no file and no address, so that it works from any index."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+(==[A-Za-z0-9.+!]+)?", line)] == []


@pytest.mark.parametrize(
    "package",
    ["torchx_core", "integrations/airflow/airflow_torchx", "integrations/prefect/prefect_torchx"],
)
def test_each_package_is_typed(package: str) -> None:
    """Type checkers read a package's annotations only when it carries py.typed."""
    assert (ROOT / package / "py.typed").is_file()


def test_the_three_distributions_have_one_version() -> None:
    """They are released together."""
    projects = [ROOT, ROOT / "integrations/airflow", ROOT / "integrations/prefect"]
    versions = {tomllib.loads((p / "pyproject.toml").read_text())["project"]["version"] for p in projects}
    init = (ROOT / "torchx_core" / "__init__.py").read_text()
    assert versions == set(re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE))


def test_no_test_folder_shadows_an_engine() -> None:
    """A test folder named like an engine, or one with an `__init__.py`, would be imported in its place."""
    tests = ROOT / "tests"
    shadows = [p for p in tests.rglob("*") if p.name in {"__init__.py", "airflow", "prefect", "torchx"}]
    assert shadows == []
