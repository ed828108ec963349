"""The security page points at tests that exist, and what it says no code does, no code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()
PRODUCT = [
    ROOT / "torchx_core",
    ROOT / "integrations/airflow/airflow_torchx",
    ROOT / "integrations/prefect/prefect_torchx",
]
RUNS_CODE = {
    "torchx_core/components/programs/rank.py",  # the user's own program, in a rank of torchrun's
    "torchx_core/functions/replica.py",  # the user's own function, in the replica
    "torchx_core/schedulers/remote/bundle.py",  # this library, sent to another host over ssh
}
WRITES_CODE = {
    ("torchx_core/schedulers/slurm/submit.py", "marshal"),  # this library, compiled for the nodes of a job
}
PICKLES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Return each module of the three packages but the test kit: its path and its syntax tree."""
    paths = [path for package in PRODUCT for path in sorted(package.rglob("*.py"))]
    named = [(path.relative_to(ROOT).as_posix(), path) for path in paths]
    return [
        (name, ast.parse(path.read_text()))
        for name, path in named
        if not name.startswith("torchx_core/testing/")
    ]


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield every call in a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_every_test_that_the_page_names_exists() -> None:
    """Each claim of the page names the tests that keep it."""
    named = set(re.findall(r"`(test_\w+\.py)`", PAGE))
    assert named
    assert named <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}


def test_nothing_is_pickled() -> None:
    """No module reads or writes a format that can run code, but that which writes our own for Slurm."""
    imported = {
        (name, module.partition(".")[0])
        for name, tree in sources()
        for node in ast.walk(tree)
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert len(imported) > 100
    assert {found for found in imported if found[1] in PICKLES} == WRITES_CODE


def test_text_becomes_code_in_three_places_only() -> None:
    """Only the user's own function or program and the library on a login node are run from text."""
    found = {
        name
        for name, tree in sources()
        for call in calls(tree)
        if isinstance(call.func, ast.Name) and call.func.id in {"eval", "exec"}
    }
    assert found <= RUNS_CODE


def test_no_command_goes_through_a_shell() -> None:
    """What the user gives is a list of words wherever a program is started."""
    found = [
        name
        for name, tree in sources()
        for call in calls(tree)
        for keyword in call.keywords
        if keyword.arg == "shell"
        and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    ]
    assert found == []
