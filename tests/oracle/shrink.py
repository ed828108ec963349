"""Reduces a scenario that breaks a promise to fewer actions, followers, roles, replicas, attempts, steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict
from time import monotonic

from scenarios import RolePlan, Scenario

__all__ = ["dumped", "loaded", "shrink"]


def shrink(scenario: Scenario, breaks: Callable[[Scenario], bool], most_s: float) -> Scenario:
    """Return the smallest scenario found in that time that still breaks.

    Args:
        scenario: One that breaks.
        breaks: Runs a scenario, perhaps several times, and says whether the same promise was broken.
        most_s: For how long to look.
    """
    until = monotonic() + most_s
    while monotonic() < until:
        for smaller in _smaller(scenario):
            if monotonic() >= until:
                break
            if breaks(smaller):
                scenario = smaller
                break
        else:
            break
    return scenario


def dumped(scenario: Scenario) -> str:
    """Return the scenario as JSON."""
    return json.dumps(asdict(scenario))


def loaded(text: str) -> Scenario:
    """Read a scenario that `dumped` wrote."""
    values = json.loads(text)
    return Scenario(**{**values, "roles": [RolePlan(**role) for role in values["roles"]]})


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios that are one cut smaller, the deepest cuts first."""
    for i in range(len(scenario.roles)) if len(scenario.roles) > 1 else ():
        yield _cut(scenario, lambda s, i=i: s.roles.pop(i))  # type: ignore[misc]
    for i in range(len(scenario.actions)):
        yield _cut(scenario, lambda s, i=i: s.actions.pop(i))  # type: ignore[misc]
    if scenario.kills:
        yield _cut(scenario, lambda s: s.kills.pop())
    if scenario.by_program or scenario.batch_bytes:
        yield _cut(scenario, _simply_followed)
    for number, role in enumerate(scenario.roles):
        yield from _smaller_role(scenario, number, role)


def _simply_followed(scenario: Scenario) -> None:
    scenario.by_program, scenario.batch_bytes = False, None


def _smaller_role(scenario: Scenario, number: int, role: RolePlan) -> Iterator[Scenario]:
    def cut(act: Callable[[RolePlan], object]) -> Scenario:
        return _cut(scenario, lambda s: act(s.roles[number]))

    for k in range(len(role.scripts)) if len(role.scripts) > 1 else ():
        yield cut(lambda r, k=k: r.scripts.pop(k))  # type: ignore[misc]
    if role.max_retries:
        yield cut(_less_retries)
    for k, attempts in enumerate(role.scripts):
        for a, steps in enumerate(attempts):
            for at in range(len(steps)):
                yield cut(lambda r, k=k, a=a, at=at: r.scripts[k][a].pop(at))  # type: ignore[misc]
                if steps[at][0] == "print" and steps[at][2:5] != [1, 1, 0]:
                    yield cut(lambda r, k=k, a=a, at=at: _one_line(r.scripts[k][a][at]))  # type: ignore[misc]


def _less_retries(role: RolePlan) -> None:
    role.max_retries -= 1
    for attempts in role.scripts:
        del attempts[role.max_retries + 1 :]


def _one_line(step: list[object]) -> None:
    step[2:5] = [1, 1, 0]


def _cut(scenario: Scenario, act: Callable[[Scenario], object]) -> Scenario:
    smaller = deepcopy(scenario)
    act(smaller)
    return smaller
