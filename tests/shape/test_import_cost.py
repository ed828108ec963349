"""Importing the core is cheap. Modules are counted, not milliseconds: those depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchx_core

# Each of these costs more than all of our own modules together.
EXPENSIVE = {
    "asyncio",
    "concurrent",
    "ctypes",
    "email",
    "http",
    "importlib.metadata",
    "logging.config",
    "multiprocessing",
    "sqlite3",
    "ssl",
    "unittest",
    "urllib.request",
    "xml",
}
GET_RUNNER = "import torchx_core; torchx_core.get_runner"


def test_importing_the_core_loads_no_third_party_module() -> None:
    """`import torchx_core` and getting at the runner load the standard library and ourselves only."""
    assert _third_party(_loaded_by(GET_RUNNER)) == set()


def test_importing_the_core_loads_nothing_expensive() -> None:
    """What only some calls need is imported by those calls."""
    assert _loaded_by(GET_RUNNER) & EXPENSIVE == set()


def test_importing_the_package_alone_loads_none_of_its_modules() -> None:
    """Names are fetched when they are used, so that an app gets `torchx_core.runtime` for nothing."""
    ours = {m for m in _loaded_by("import torchx_core") if m.startswith("torchx_core.")}
    assert ours == set()


@pytest.mark.parametrize("package", ["torchx_core.supervisor", "torchx_core.runtime"])
def test_what_runs_in_other_processes_loads_only_itself(package: str) -> None:
    """The supervisor and an app's runtime pull in no other part of the core."""
    loaded = _loaded_by(f"import {', '.join(_modules(package))}")
    others = {m for m in loaded if m.startswith("torchx_core.") and not m.startswith(package)}
    assert others | _third_party(loaded) == set()


def _modules(package: str) -> list[str]:
    root = Path(torchx_core.__file__).parents[1]
    files = (root / package.replace(".", "/")).glob("*.py")
    return [package, *(f"{package}.{file.stem}" for file in files if not file.stem.startswith("__"))]


def _loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after the statement, but not before."""
    program = f"import sys; known = set(sys.modules); {statement}; print(*set(sys.modules) - known)"
    return set(subprocess.check_output([sys.executable, "-I", "-c", program], text=True).split())


def _third_party(modules: set[str]) -> set[str]:
    tops = {module.partition(".")[0] for module in modules}
    return tops - sys.stdlib_module_names - {"torchx_core"}
