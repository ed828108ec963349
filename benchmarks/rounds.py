"""Runs an experiment: each side in a process of its own, in turns, round after round."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.clock import monotonic
from benchmarks.experiment import Experiment, Samples, SideName, Size
from benchmarks.leftovers import MARKER, end_leftovers

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an experiment measured, and on how busy a machine."""

    name: str
    samples: Mapping[SideName, Sequence[Samples]]
    """Per side, one entry per round."""
    loads: Sequence[float]
    """The machine's load before each round."""
    took_s: float
    failures: Sequence[str] = field(default_factory=tuple)
    killed: int = 0
    """Processes that a measurement had left behind."""


def run(
    experiment: Experiment, size: Size, pythons: Mapping[SideName, Path], say: Callable[[str], None]
) -> Outcome:
    """Run all rounds; a side that fails is reported and the others go on."""
    sides: list[SideName] = [side for side in size.sides if side in pythons]
    samples: dict[SideName, list[Samples]] = {side: [] for side in sides}
    loads: list[float] = []
    failures: list[str] = []
    killed = 0
    start = monotonic()
    for i in range(size.rounds):
        loads.append(os.getloadavg()[0])
        turn = i % len(sides)
        for side in (*sides[turn:], *sides[:turn]):
            say(f"{experiment.name}: round {i + 1} of {size.rounds}, {side}")
            try:
                measured, left = _measure(experiment.name, size, side, pythons[side])
            except (subprocess.SubprocessError, ValueError) as err:
                failures.append(f"{side}: {_reason(err)}")
                measured, left = {}, 0
            samples[side].append(measured)
            killed += left
    return Outcome(
        name=experiment.name,
        samples=samples,
        loads=loads,
        took_s=monotonic() - start,
        failures=failures,
        killed=killed,
    )


def _measure(name: str, size: Size, side: SideName, python: Path) -> tuple[Samples, int]:
    """Return one worker's samples, and how many processes it left behind."""
    marker = uuid.uuid4().hex
    folder = tempfile.mkdtemp(prefix="bench-")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TORCHX")}
    environment |= {MARKER: marker, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", "benchmarks.worker", side, name, json.dumps(dict(size.params)), folder]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        return json.loads(done.stdout.splitlines()[-1]), end_leftovers(marker)
    finally:
        end_leftovers(marker)
        shutil.rmtree(folder, ignore_errors=True)


def _reason(err: Exception) -> str:
    if isinstance(err, subprocess.CalledProcessError):
        return str((err.stderr.strip().splitlines() or [err])[-1])
    return str(err)


def pythons(peer: Path | None) -> dict[SideName, Path]:
    """Return who measures what: the peer has an interpreter of its own, or is left out."""
    ours = Path(sys.executable)
    own: dict[SideName, Path] = {"floor": ours, "cli": ours, "ours": ours}
    return own if peer is None else {**own, "peer": peer}
