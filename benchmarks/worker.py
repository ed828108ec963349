"""Runs one workload on one side and prints its samples.

``python -m benchmarks.worker SIDE EXPERIMENT PARAMS FOLDER``.
A process of its own for each, so that neither side's threads, caches or imports touch the other's figures.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import cast

from benchmarks.experiment import Experiment, Params, SideName
from benchmarks.sides.side import Side
from benchmarks.workloads import EXPERIMENTS


def main(side_name: SideName, name: str, params: Params, folder: Path) -> None:
    """Warm up, measure, print."""
    experiment = _find(name)
    package = "" if experiment.backend == "local" else f".{experiment.backend}"
    module = import_module(f"benchmarks.sides{package}.{side_name}")
    side = cast("Side[object]", module.create(folder))
    try:
        side.wait(side.submit(["true"]))
        samples = experiment.measure(side, folder, **params)
    finally:
        side.close()
    print(json.dumps(samples))


def _find(name: str) -> Experiment:
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name)


if __name__ == "__main__":
    main(cast("SideName", sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4]))
