"""docs/torchx-compat.md: its tables of names come from both packages, and what is written by hand is true."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torchx_names

from torchx_core.compat.create import KNOWN, UNKNOWN
from torchx_core.schedulers import Capabilities

PAGE = Path(__file__).parents[2] / "docs" / "torchx-compat.md"
TEXT = PAGE.read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| `")
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
NAMES = {row.name: row for module in torchx_names.MODULES for row in torchx_names.rows(module)}
MOST_IMPROVEMENTS = 8


def test_every_module_has_its_table() -> None:
    """One directive has it, and each names modules that there are."""
    named = [m for line in re.findall(r"{torchx-names} (.*)", TEXT) for m in line.split()]
    assert sorted(named) == sorted(torchx_names.MODULES)
    assert len(NAMES) > 280


def test_what_is_not_here_has_a_reason() -> None:
    """A name of TorchX that is not here says why, or what to do instead."""
    assert [row.name for row in NAMES.values() if row.here is None and not row.difference] == []


def test_what_is_written_is_about_names_that_torchx_has() -> None:
    """A name that TorchX has dropped leaves the file; and where ours is, it is."""
    for module, names in torchx_names.written().items():
        assert {f"{module}.{name}" for name in names} - NAMES.keys() == set()
        for name, known in names.items():
            assert known.here is None or NAMES[f"{module}.{name}"].here == known.here


@pytest.mark.parametrize("module", torchx_names.MODULES)
def test_what_is_said_to_be_the_same_has_the_same_parts(module: str) -> None:
    """A class has the members, and a function the parameters, of TorchX's, or the row says what differs."""
    for row in torchx_names.rows(module):
        if row.here and not row.difference:
            theirs: Any = torchx_names.find(row.name)
            ours: Any = torchx_names.find(row.here)
            assert parts(theirs) - parts(ours) == set(), row.name


def parts(named: Any) -> set[str]:
    """What a class has, or what a function takes."""
    if inspect.isclass(named):
        fields = {*getattr(named, "__dataclass_fields__", ()), *getattr(named, "__annotations__", ())}
        return {name for name in {*dir(named), *fields} if not name.startswith("_")}
    if not callable(named):
        return set()
    try:
        taken = inspect.signature(named).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {p.name for p in taken if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def test_every_scheduler_and_command_is_on_the_page() -> None:
    """By the name that people type."""
    listed = {row[0].strip("`") for row in ROWS}
    assert set(import_module("torchx.schedulers").DEFAULT_SCHEDULER_MODULES) <= listed
    assert set(import_module("torchx.cli.main").get_default_sub_cmds()) <= listed


def test_every_group_of_entry_points_is_on_the_page() -> None:
    """Those for plugins, which TorchX lists, and the others, which are in its code."""
    kinds = {kind.value for kind in import_module("torchx.plugins").PluginType}
    assert kinds <= TORCHX_GROUPS <= {row[0].strip("`") for row in ROWS}


def test_what_is_said_to_be_here_is_here() -> None:
    """Each name of ours in the tables that are written by hand, and in the reasons, can be had."""
    groups = {"torchx_core.components", "torchx_core.named_resources", "torchx_core.schedulers"}
    reasons = " ".join(row.difference for row in NAMES.values())
    named = set(re.findall(r"`~?(torchx_core\.[\w.]*\w)", TEXT + reasons))
    assert len(named) > 20
    for name in named - groups - {"torchx_core.events"}:
        torchx_names.find(name)


def test_few_improvements_are_argued() -> None:
    """Each has what TorchX's pages say, what is here, and why."""
    table = TEXT.partition("## Argued improvements")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "TorchX's pages say" not in line]
    assert 0 < len(rows) <= MOST_IMPROVEMENTS
    assert all(
        len([cell for cell in row.strip("| ").split("|") if cell.strip()]) == len(("said", "here", "why"))
        for row in rows
    )


def test_the_table_of_capabilities_is_the_codes() -> None:
    """Per backend, and those that none has are not in it."""
    claims = [*KNOWN.values(), UNKNOWN]
    table = {row[0].strip("`"): [cell == "yes" for cell in row[1:]] for row in ROWS if len(row) == 6}
    expected = {
        name: [getattr(claim, name) for claim in claims] for name in Capabilities.__dataclass_fields__
    }
    assert table == {name: row for name, row in expected.items() if any(row) or name == "log_times"}
