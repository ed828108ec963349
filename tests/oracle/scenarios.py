"""Which apps the oracle runs: topologies and what their replicas do, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Action", "Attempt", "Bounds", "RolePlan", "Scenario", "draw"]

Step = list[Any]
Attempt = list[Step]
"""Steps of the witness."""
Action = list[Any]
"""After how many looks, what, and a number between 0 and 1 that says how."""

POLICIES = ("APPLICATION", "REPLICA", "ROLE")
ENDS: tuple[Step, ...] = (
    ["exit", 1],
    ["exit", 7],
    ["exit", 255],
    ["die", "SIGKILL"],
    ["die", "SIGTERM"],
    ["die", "SIGSEGV"],
    ["die", "SIGUSR1"],
    ["die", "SIGRTMIN+1"],
)


@dataclass(kw_only=True)
class RolePlan:
    """One role: a script per replica, each a list of attempts of which the last is repeated."""

    name: str
    policy: str
    max_retries: int
    scripts: list[list[Attempt]]


@dataclass(kw_only=True)
class Scenario:
    """One trial, made again by its backend, fault and seed alone."""

    backend: str
    fault: str
    seed: int
    roles: list[RolePlan]
    cfg: dict[str, Any]
    kills: list[float] = field(default_factory=list)
    """Seconds after which the first followers are killed; the next goes on from its cursor."""
    batch_bytes: int | None = None
    by_program: bool = False
    """Look at the ended app by the command line too."""
    holds: bool = False
    """The app runs until something ends it."""
    actions: list[Action] = field(default_factory=list)
    """What is done to an app of the fake scheduler; for the others the fault's own code does it."""

    @property
    def script(self) -> dict[str, list[Attempt]]:
        """What the witnesses read."""
        return {f"{role.name}/{k}": script for role in self.roles for k, script in enumerate(role.scripts)}


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a backend and a fault allow an app to be."""

    policies: tuple[str, ...]
    retries: tuple[int, ...] = (0, 0, 1, 2, 3)
    replicas: tuple[int, ...] = (1, 1, 2, 3)
    daemons: bool = True
    holds: bool = False
    """The app runs until the fault, or what follows from it, ends it."""


def draw(backend: str, fault: str, seed: int, bounds: Bounds) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(f"{backend} {fault} {seed}")
    policy = rng.choice(bounds.policies)
    roles = [_role(rng, name, policy, bounds) for name in ("head", "work")[: rng.choice((1, 1, 2))]]
    grace_s = rng.choice((1, 2, 5))
    return Scenario(
        backend=backend,
        fault=fault,
        seed=seed,
        roles=roles,
        cfg={"grace_s": float(grace_s)},
        kills=[rng.uniform(0.1, 0.8) for _ in range(rng.choice((0, 0, 1, 2)))],
        batch_bytes=rng.choice((None, None, 1000, 100_000)),
        by_program=rng.random() < 0.3,
        holds=bounds.holds,
    )


def _role(rng: random.Random, name: str, policy: str, bounds: Bounds) -> RolePlan:
    retries, replicas = rng.choice(bounds.retries), rng.choice(bounds.replicas)
    fails = rng.random() < 0.6
    weak = rng.randrange(replicas)
    scripts = [
        [
            _attempt(rng, bounds, fails=fails and k == weak and number < rng.choice((retries, retries + 1)))
            for number in range(retries + 1)
        ]
        for k in range(replicas)
    ]
    return RolePlan(name=name, policy=policy, max_retries=retries, scripts=scripts)


def _attempt(rng: random.Random, bounds: Bounds, *, fails: bool) -> Attempt:
    steps: Attempt = []
    manner = rng.choice(("plain", "plain", "goodbye", "deaf"))
    if manner == "goodbye":
        steps.append(["goodbye", rng.choice((1, 5, 40)), rng.choice((0, 0, 3))])
    elif manner == "deaf" and bounds.holds:
        steps.append(["deaf"])
    for _ in range(rng.choice((1, 2, 3, 4))):
        steps.append(_pattern(rng))
    if rng.random() < 0.25 and bounds.daemons:
        steps.append(["child", rng.choice(("group", "session", "daemon", "deaf"))])
    if rng.random() < 0.3:
        steps += [["progress", round(rng.random(), 3)], ["metric", rng.randrange(100)]]
    if rng.random() < 0.3:
        steps.append(["result", rng.randrange(1000)])
    if rng.random() < 0.2:
        steps.append(["open", rng.choice(("stdout", "stderr"))])
    if fails:
        return [*steps, rng.choice(ENDS)]
    return [*steps, ["hold"]] if bounds.holds else steps


def _pattern(rng: random.Random) -> Step:
    stream = rng.choice(("stdout", "stdout", "stderr"))
    patterns: tuple[Step, ...] = (
        ["print", stream, rng.choice((1, 10, 200)), 1, rng.choice((0, 20, 200))],
        ["print", stream, 500, rng.choice((7, 100)), 30],
        ["print", stream, 3, 1, 30, "bar"],
        ["print", stream, 5, 1, rng.choice((9, 30, 100)), "wide"],
        ["print", stream, 5, 1, 20, "broken"],
        ["print", stream, 1, 1, rng.choice((5000, 70_000, 1 << 20))],
        ["both", rng.choice((2, 20, 100))],
        ["cut", stream, 60, rng.randrange(60), rng.choice(("plain", "wide", "broken"))],
        ["pause", round(rng.uniform(0, 0.3), 3)],
    )
    return rng.choice(patterns)
