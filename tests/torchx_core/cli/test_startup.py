"""Starting costs little. Modules are counted, not milliseconds: those depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_apps import submitted

from torchx_core.cli.program import COMMANDS
from torchx_core.testing import Exit

# Each takes longer to import than `status` takes to do its work.
EXPENSIVE = {
    "asyncio",
    "email",
    "importlib.metadata",
    "logging",
    "rich",
    "torchx_core.components",
    "torchx_core.config",
    "yaml",
}
MOST_MODULES = 250
"""`status` has 247 in the end: 33 of any Python, 11 of click, 110 of ours, and what those use."""

PROGRAM = """
import sys
sys.argv[0] = "torchx-core"
from torchx_core.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


WITHOUT_DOCKERS_PACKAGES = """
import sys
sys.modules["PACKAGE"] = None
from torchx_core.cli import main
main()
"""


def modules_of(*args: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded when the command has ended."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *args], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_status_loads_little() -> None:
    """One command's module of ours, click, and nothing that is expensive."""
    loaded = modules_of("status", submitted(Exit(0)))
    commands = {f"torchx_core.cli.{name}" for name in COMMANDS}
    assert loaded & commands == {"torchx_core.cli.status"}
    assert loaded & EXPENSIVE == set()
    assert len(loaded) <= MOST_MODULES


def test_running_a_script_reads_no_entry_points(tmp_path: Path) -> None:
    """A run of a script looks through no installed package: the default scheduler is known without them."""
    script = tmp_path / "train.py"
    script.touch()
    assert "importlib.metadata" not in modules_of("run", "--dryrun", str(script))


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_asking_for_help_loads_no_runner(option: str) -> None:
    """No scheduler is loaded either."""
    assert {m for m in modules_of(option) if m.startswith("torchx_core.schedulers.local")} == set()


def test_importing_the_core_loads_no_click() -> None:
    """The command line is an extra."""
    program = "import sys, torchx_core.cli; sys.exit('click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_click_there_is_a_line_that_says_what_to_install() -> None:
    """No traceback is shown."""
    program = "import sys; sys.modules['click'] = None; from torchx_core.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "torchx-core: the command line needs click, which is missing; pip install 'torchx-core[cli]'\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list",), "no apps\n"),
        (("list", "-s", "local_docker"), "error: scheduler 'local_docker' needs the package {}: "),
        (("doctor",), "cannot be used: scheduler 'local_docker' needs the package {}: "),
    ],
)
@pytest.mark.parametrize("package", ["requests", "docker"])
def test_an_extra_that_is_not_installed_is_named_to_who_asks_for_it(
    words: tuple[str, ...], said: str, package: str
) -> None:
    """With what installs it; a list of all apps does without the scheduler and says nothing.

    Airflow brings all that the extra does but the package of Docker itself.
    """
    command = [sys.executable, "-c", WITHOUT_DOCKERS_PACKAGES.replace("PACKAGE", package), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = done.stdout + done.stderr
    assert said.format(package) in shown
    assert ("pip install 'torchx-core[docker]'" in shown) == (words != ("list",))
    # TorchX's own, where that is installed, are named.
    ours = [line for line in shown.splitlines() if not line.startswith("torchx:")]
    assert any("local_docker" in line for line in ours) == (words != ("list",))
