"""Trials of the fake scheduler keep every promise, and a scenario is reduced to what matters."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path

import pytest
from fake_trial import FAKE_FAULTS, HOLDS, draw_actions
from run import judged
from scenarios import Bounds, Scenario, draw
from shrink import dumped, loaded, shrink

BOUNDS = {holds: Bounds(policies=("APPLICATION", "REPLICA", "ROLE"), holds=holds) for holds in (False, True)}


def scenario(fault: str, seed: int) -> Scenario:
    """Return the scenario of a seed."""
    drawn = draw("fake", fault, seed, BOUNDS[fault in HOLDS])
    drawn.actions = draw_actions(fault, seed)
    return drawn


@pytest.mark.parametrize("fault", sorted(FAKE_FAULTS))
def test_promises_hold(fault: str, tmp_path: Path) -> None:
    """No promise is broken, whatever is done between two looks."""
    for seed in range(5):
        root = tmp_path / str(seed)
        root.mkdir()
        assert judged(scenario(fault, seed), root) == []


def test_what_breaks_is_reduced_to_what_breaks_it() -> None:
    """One role, one replica, one attempt and one step are left of an app of which one step matters."""

    def breaks(some: Scenario) -> bool:
        return "result" in dumped(some)

    drawn = (scenario("all-together", seed) for seed in range(1000))
    smallest = shrink(next(s for s in drawn if breaks(s) and len(s.roles) > 1), breaks, inf)
    assert (smallest.actions, smallest.kills, len(smallest.roles)) == ([], [], 1)
    (attempts,) = smallest.roles[0].scripts
    assert [name for steps in attempts for name, _ in steps] == ["result"]


def test_a_scenario_can_be_written_down() -> None:
    """What is printed of a bad trial makes it again."""
    one = scenario("all-together", random.Random(1).randrange(1000))
    assert loaded(dumped(one)) == one
