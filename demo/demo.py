"""Run ``train_digits`` once and say what came of it: ``make demo``.

Usage: ``demo.py [FOLDER]``. Model and logs stay in FOLDER, by default one of its own per run under
``build/demo``; the files of the workflow engine do not. With ``ENGINE=prefect`` in the environment it is a
flow in a throw-away Prefect instead of a DAG in a throw-away Airflow. With ``SCHEDULER=local_docker`` it runs
in containers, of the Docker engine that ``docker`` would use or of one that is started for it; with
``SCHEDULER=slurm`` on the cluster that Slurm's commands reach, or on one of two nodes that is started for it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from torchx_core.errors import SchedulerError

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("airflow", "prefect")
SCHEDULERS = ("local_cwd", "local_docker", "slurm")
BLOCKS = " ▁▂▃▄▅▆▇█"
PLOT_ROWS = 5


def main() -> int:
    """Run the demo; return the exit code of the first step that failed, or 0."""
    engine = os.environ.get("ENGINE", "airflow")
    if engine not in ENGINES:
        print(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}", file=sys.stderr)
        return 2
    scheduler = os.environ.get("SCHEDULER", "local_cwd")
    if scheduler not in SCHEDULERS:
        print(f"unknown scheduler {scheduler!r}; known: {', '.join(SCHEDULERS)}", file=sys.stderr)
        return 2
    folder = _folder()
    try:
        exit_code = _run(engine, scheduler, folder)
    except SchedulerError as err:
        print(f"no {scheduler} to run the demo on: {err}", file=sys.stderr)
        return 1
    if exit_code == 0:
        _show(next(folder.glob("*/report.json")))
    else:
        print(f"\nthe demo failed; logs are in {folder}", file=sys.stderr)
    return exit_code


def _folder() -> Path:
    stamp = f"{datetime.now():%Y%m%d-%H%M%S}"  # noqa: DTZ005  (a name for people)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "demo" / stamp
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run(engine: str, scheduler: str, folder: Path) -> int:
    with tempfile.TemporaryDirectory(prefix=f"demo-{engine}-") as home, _backend(scheduler) as environment:
        run = import_module(f"demo_{engine}").run  # beside this script
        exit_code: int = run(folder, {**environment, "TORCHX_STATE_DIR": str(folder / "state")}, Path(home))
    return exit_code


@contextmanager
def _backend(scheduler: str) -> Iterator[dict[str, str]]:
    """Prepare what the scheduler needs; yield the environment that it is found by."""
    if scheduler == "slurm":
        with import_module("demo_slurm").slurm_cluster() as environment:  # beside this script
            yield environment
    elif scheduler == "local_docker":
        docker = import_module("demo_docker")  # beside this script; it needs the Docker SDK
        with docker.docker_engine("torchx-demo") as url:
            yield {"DOCKER_HOST": url}
    else:
        yield {}


def _show(report_file: Path) -> None:
    """Print accuracy, loss curve and where things are."""
    report: dict[str, Any] = json.loads(report_file.read_text())
    losses: list[float] = report["loss"]
    print(
        f"\naccuracy  {report['accuracy']:.1%} ({report['right']} of {report['total']} held-out digits right)"
    )
    print(f"loss      {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} epochs")
    print("\n".join(f"          {row}" for row in plot(losses)))
    print(f"model     {report['model']}")
    if "logs" in report:
        print(f"logs      {report['logs']}")


def plot(values: Sequence[float], rows: int = PLOT_ROWS) -> list[str]:
    """Return a bar chart, one column per value, the highest as high as the chart.

    Example:
        >>> plot([2.0, 1.0, 0.5], rows=2)
        ['█', '██▄']
    """
    steps = len(BLOCKS) - 1
    heights = [round(value / max(values) * rows * steps) for value in values]
    return [
        "".join(BLOCKS[min(max(height - row * steps, 0), steps)] for height in heights).rstrip()
        for row in reversed(range(rows))
    ]


if __name__ == "__main__":
    sys.exit(main())
