"""What the documents say is true: links lead somewhere, commands exist, and every example runs."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("integrations/*/*.md"), *ROOT.glob("docs/**/*.md")]
    if "_build" not in page.parts
)
HOMES = [ROOT, ROOT / "integrations" / "airflow", ROOT / "integrations" / "prefect"]
MODULES = sorted(
    ".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__")
    for home in HOMES
    for package in home.glob("*torchx*/__init__.py")
    for path in package.parent.rglob("*.py")
    if ">>>" in path.read_text()
)
"""Those whose docstrings have examples: to look for some in each module takes half a minute."""
EXCUSE = re.compile(r"<!-- not run: .+ -->")


def _name(page: object) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else str(page)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file names one that is there."""
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```|`[^`]*`", "", page.read_text()))
    local = [link for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in local if not (page.parent / link.partition("#")[0]).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_make_targets_exist(page: Path) -> None:
    """Each `make target` that a document names is one of the Makefile's."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE))
    assert named <= targets


@pytest.mark.slow  # all together: half of the pages start an engine or a server
@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=_name)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """The Python blocks of a page, put together in their order, are a program that works."""
    program = tmp_path / "page.py"
    program.write_text(_program(page.read_text()))
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, f"{_name(page)}: {done.stderr[-3000:]}"


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module: str) -> None:
    """The examples in a module's docstrings print what they say."""
    result = doctest.testmod(import_module(module))
    assert result.attempted
    assert not result.failed


def _program(text: str) -> str:
    """Return the page with everything blanked but its Python blocks, so that errors name the page's lines.

    The comment ``<!-- not run: why -->`` before a block excuses it.
    """
    lines: list[str] = []
    running = excused = False
    for line in text.splitlines():
        fence = line.startswith("```")
        if fence:
            running = line == "```python" and not excused
        excused = bool(EXCUSE.match(line)) or (excused and not line.strip())
        lines.append(line if running and not fence else "")
    return "\n".join(lines)
