"""The versions that documents name are those that the tests run with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from versions_table import versions

ROOT = Path(__file__).parents[2]
TESTED = {each.what: each.tested.split(", ") for each in versions()}


@pytest.mark.parametrize(
    ("engine", "package", "parts"), [("Airflow", "apache-airflow", 2), ("Prefect", "prefect", 3)]
)
def test_the_readme_names_the_tested_versions(engine: str, package: str, parts: int) -> None:
    """All of them, and no other."""
    told = re.search(rf"tested with {engine} ([^)]+)\)", (ROOT / "README.md").read_text())
    assert told
    named = re.split(", | and ", told[1])
    assert named == [".".join(each.split(".")[:parts]) for each in TESTED[package]]


def test_each_python_of_the_classifiers_is_tried() -> None:
    """A package claims no version of Python that its wheel is not tried on."""
    for project in [ROOT, *(ROOT / "integrations").iterdir()]:
        claimed = re.findall(r"Python :: (3\.\d+)", (project / "pyproject.toml").read_text())
        assert claimed, project
        assert set(claimed) <= set(TESTED["Python"])
