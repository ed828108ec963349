from __future__ import annotations

import subprocess
import sys

import torchx_core.specs


def test_all_is_complete() -> None:
    """Every name in ``__all__`` exists, once, also those that are fetched when they are first used."""
    names = torchx_core.specs.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(torchx_core.specs, name)] == []


def test_no_other_name_is_fetched() -> None:
    """A misspelt one is an error as for any module."""
    assert not hasattr(torchx_core.specs, "nonsense")


def test_import_loads_nothing_heavy() -> None:
    """Importing the package loads no third-party module and nothing slow of the standard library."""
    code = (
        "import sys; before = set(sys.modules); import torchx_core.specs;"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {
        "argparse",
        "asyncio",
        "logging",
        "pathlib",
        "shutil",
        "subprocess",
        "threading",
        "typing_extensions",
        "yaml",
    }
    assert heavy.isdisjoint(run.stdout.split())
