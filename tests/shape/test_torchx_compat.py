"""docs/torchx-compat.md has every public name of the installed TorchX, and what it says is here is here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchx_core.compat.create import KNOWN, UNKNOWN
from torchx_core.schedulers import Capabilities

TEXT = (Path(__file__).parents[2] / "docs" / "torchx-compat.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| `")
]
NAMES = {row[0].strip("`"): row[1] for row in ROWS if row[0].startswith("`torchx.")}
PACKAGES = [
    "torchx.components.dist",
    "torchx.components.utils",
    "torchx.plugins",
    "torchx.runner",
    "torchx.runner.config",
    "torchx.schedulers",
    "torchx.settings",
    "torchx.specs",
    "torchx.specs.overlays",
    "torchx.tracker",
    "torchx.workspace",
]
TORCHX_GROUPS = {
    "torchx.cli.cmds",
    "torchx.components",
    "torchx.event_handlers",
    "torchx.file",
    "torchx.named_resources",
    "torchx.schedulers",
    "torchx.schedulers.orchestrator",
    "torchx.tracker",
}
NO_NAMES = {"CfgVal", "TYPE_CHECKING", "annotations", "log", "logger"}  # of no interest to others
HELPERS = {"get_role_name", "parse_nnodes"}  # of the components, not for others
OUR_GROUPS = {"torchx_core.components", "torchx_core.named_resources", "torchx_core.schedulers"}


def public_names(package: str) -> Iterator[str]:
    """Yield what ``__all__`` has, or else what the package itself defines and does not hide."""
    module = import_module(package)
    if hasattr(module, "__all__"):
        yield from module.__all__
        return
    for name, value in vars(module).items():
        home = getattr(value, "__module__", package)
        own = str(home).startswith(package) and not isinstance(value, ModuleType)
        if own and not name.startswith("_") and name not in NO_NAMES:
            yield name


def find(name: str) -> object:
    """Return what the dotted name stands for: the longest module of it, then attributes."""
    module, _, attributes = name.rpartition(".")
    while True:
        try:
            found: Any = import_module(module)
        except ModuleNotFoundError:
            head, _, last = module.rpartition(".")
            module, attributes = head, f"{last}.{attributes}"
            continue
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
        return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_the_page(package: str) -> None:
    """Each has a row, whether it is here or not."""
    names = {f"{package}.{name}" for name in public_names(package) if name not in HELPERS}
    assert names - NAMES.keys() == set()


def test_every_method_of_the_runner_is_on_the_page() -> None:
    """The methods of the runner, which people call most, have a row each."""
    runner = import_module("torchx.runner").Runner
    methods = {name for name, _ in inspect.getmembers(runner, callable) if not name.startswith("_")}
    assert {f"torchx.runner.Runner.{name}" for name in methods} - NAMES.keys() == set()


def test_every_scheduler_and_command_is_on_the_page() -> None:
    """By the name that people type."""
    listed = {row[0].strip("`") for row in ROWS}
    assert set(import_module("torchx.schedulers").DEFAULT_SCHEDULER_MODULES) <= listed
    assert set(import_module("torchx.cli.main").get_default_sub_cmds()) <= listed


def test_every_group_of_entry_points_is_on_the_page() -> None:
    """Those for plugins, which TorchX lists, and the others, which are in its code."""
    kinds = {kind.value for kind in import_module("torchx.plugins").PluginType}
    assert kinds <= TORCHX_GROUPS <= {row[0].strip("`") for row in ROWS}


def test_no_row_is_about_what_torchx_does_not_have() -> None:
    """A name that TorchX has dropped leaves the page."""
    for name in NAMES.keys() - TORCHX_GROUPS:
        find(name)


def test_what_is_said_to_be_here_is_here() -> None:
    """Each name of ours on the page can be had from where it says."""
    ours = {name for row in ROWS for name in re.findall(r"`(torchx_core[\w.]*)`", row[1])}
    assert len(ours) > 80
    for name in ours - OUR_GROUPS:
        find(name)


def test_every_row_says_whether_it_is_here() -> None:
    """A name of ours, or ``no`` with the reason, or with what to do instead."""
    for row in ROWS:
        if row[0].strip("`") in NAMES.keys() - TORCHX_GROUPS:
            assert row[1].startswith("`torchx_core.") or (row[1] == "no" and row[2]), row


def test_the_table_of_capabilities_is_the_codes() -> None:
    """Per backend, and those that none has are not in it."""
    claims = [*KNOWN.values(), UNKNOWN]
    table = {row[0].strip("`"): [cell == "yes" for cell in row[1:]] for row in ROWS if len(row) == 6}
    expected = {
        name: [getattr(claim, name) for claim in claims] for name in Capabilities.__dataclass_fields__
    }
    assert table == {name: row for name, row in expected.items() if any(row) or name == "log_times"}
