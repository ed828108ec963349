"""A package's public names are what its ``__all__`` says; a new one is a decision that shows in the diff."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = Path(__file__).with_name("public_names.txt")
HOMES = {
    "torchx_core": ROOT,
    "airflow_torchx": ROOT / "integrations" / "airflow",
    "prefect_torchx": ROOT / "integrations" / "prefect",
}
PACKAGES = {
    ".".join(init.parent.relative_to(home).parts): init
    for name, home in HOMES.items()
    for init in sorted((home / name).rglob("__init__.py"))
}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_every_public_name(package: str) -> None:
    """`__all__` has each name the package defines, or imports for others, and none that it does not bind.

    An imported name that the package itself uses may be in it or not.
    """
    declared = set(import_module(package).__all__)
    module = ast.parse(PACKAGES[package].read_text())
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    defined, imported = set(_defined(module)), set(_imported(module))
    assert (defined | imported - used) - declared == set()
    assert declared - defined - imported == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    """Each name in `__all__` can be had, also where it is fetched only when it is first used."""
    module = import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_public_names_are_the_pinned_ones() -> None:
    """Adding or removing a public name means editing public_names.txt, where a reviewer sees it."""
    actual = {f"{package}.{name}" for package in PACKAGES for name in import_module(package).__all__}
    pinned = set(PINNED.read_text().split())
    assert {"new": sorted(actual - pinned), "gone": sorted(pinned - actual)} == {"new": [], "gone": []}


def _imported(module: ast.Module) -> Iterator[str]:
    """Yield the public names that the top level takes from this repository."""
    for statement in _top_level(module.body):
        if isinstance(statement, ast.ImportFrom) and str(statement.module).split(".")[0] in HOMES:
            yield from (alias.asname or alias.name for alias in statement.names)


def _defined(module: ast.Module) -> Iterator[str]:
    """Yield the public names that the top level makes."""
    for statement in _top_level(module.body):
        for name in _bound(statement):
            if not name.startswith("_") or name == "__version__":
                yield name


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):  # TYPE_CHECKING: the names of a lazy package
            yield from _top_level(statement.body)
        else:
            yield statement


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass
