"""How long a fresh interpreter takes to be ready, and to have started something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.clock import monotonic, ms_since, pause
from benchmarks.experiment import Experiment, Row, Samples, Size, at_most
from benchmarks.sides.side import J, Side


def measure(side: Side[J], folder: Path, *, repeats: int) -> Samples:
    """Time interpreters that import, and that start ``true``, less one that does nothing."""
    _python("pass", folder)
    _python(side.importing, folder)
    samples: Samples = {"bare_ms": [], "import_ms": [], "start_ms": []}
    for _ in range(repeats):
        bare = _python("pass", folder)
        samples["bare_ms"].append(bare)
        samples["import_ms"].append(_python(side.importing, folder) - bare)
        samples["start_ms"].append(_python(side.starting, folder) - bare)
        pause(0.1)  # what was started ends
    return samples


def _python(program: str, folder: Path) -> float:
    start = monotonic()
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True)
    return ms_since(start)


EXPERIMENT = Experiment(
    name="imports",
    measure=measure,
    rows=(
        Row(
            metric="import_ms",
            what="import and get a runner, over bare Python",
            unit="ms",
            target=at_most(60),
        ),
        Row(metric="start_ms", what="the same and start `true`, process included", unit="ms"),
        Row(metric="bare_ms", what="bare Python", unit="ms"),
    ),
    quick=Size(rounds=2, params={"repeats": 2}, sides=("peer", "ours")),
    full=Size(rounds=4, params={"repeats": 6}, sides=("peer", "ours")),
)
