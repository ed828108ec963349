"""ARCHITECTURE.md and the page about crashes say what the code does."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from torchx_core.supervisor import machine

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
CRASHES = (ROOT / "docs" / "explanation" / "crashes.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table whose header row begins with these words."""
    table = TEXT.split(f"\n| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_table_of_events_is_the_table_of_transitions() -> None:
    """Each event is allowed in exactly the phases that the page names."""
    written = {
        (phase.strip(), event)
        for events, phases, _ in rows("event")
        for event in re.findall(r"`(\w+)`", events)
        for phase in phases.split(",")
    }
    assert written == {(phase, event.__name__) for phase, event in machine.TRANSITIONS}


def test_every_phase_is_explained() -> None:
    """The page has a row for each phase of the machine, and no other."""
    phases = {phase for phase, _ in machine.TRANSITIONS} | {machine.ENDED}
    assert {row[0].strip("`") for row in rows("phase")} == phases


def test_every_module_named_exists() -> None:
    """The module table names modules that can be imported, each with a sentence."""
    for name, sentence in rows("module"):
        assert import_module(name.strip("`")).__doc__
        assert sentence.endswith(".")


def test_a_change_goes_to_a_file_that_exists() -> None:
    """Each file of the table is there; one without a folder lies in one that the same row names."""
    for what, where in rows("what changes"):
        files = [Path(name) for name in re.findall(r"`([\w/]+\.py)`", where)]
        assert files, what
        for file in files:
            assert (ROOT / file).exists() or any(
                path.match(f"*/{file}")
                for folder in ("torchx_core", "integrations")
                for path in (ROOT / folder).rglob("*.py")
            ), file


def test_every_test_named_exists() -> None:
    """The table of crashes points at tests that are there."""
    names = set(re.findall(r"`(test_\w+\.py)`", CRASHES))
    assert names
    assert names <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}
