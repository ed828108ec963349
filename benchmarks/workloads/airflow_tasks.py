"""Tasks of Airflow: what a short one costs, how fast a log grows, and what parsing and deferring take."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.experiment import Experiment, Row, Samples, SideName, Size, at_least_times, at_most, none
from benchmarks.sides.airflow.side import AirflowSide
from benchmarks.workloads.usage import own_memory_mb

_EVERYBODY: tuple[SideName, ...] = ("floor", "cli", "ours")
_PARSE = """
import time
from airflow.sdk import DAG
with DAG("t", schedule=None):
    start = time.monotonic()
    {importing}
    {task}
print((time.monotonic() - start) * 1e3)
"""


def measure(side: AirflowSide, folder: Path, *, repeats: int, lines: int) -> Samples:
    """Run `true`, then print lines, deferred as well where that is possible; parse DAG files."""
    del folder
    samples: Samples = {"true_s": [side.submit(["true"]) for _ in range(repeats)]}
    talk = ["awk", f'BEGIN {{ for (i = 0; i < {lines}; i++) printf "%099d\\n", i }}']
    took_s = side.submit(talk) - median(samples["true_s"])
    samples |= {"kps": [lines / took_s / 1e3], "wrong": [_wrong_lines(side, lines)]}
    if side.can_defer:
        took_s = side.submit(talk, deferrable=True)
        samples["deferred_kps"] = [lines / took_s / 1e3]
        samples["wrong"].append(_wrong_lines(side, lines))
    samples["parse_ms"] = [_parse_ms(side) for _ in range(repeats)]
    return samples


def measure_deferred(side: AirflowSide, folder: Path, *, apps: int) -> Samples:
    """Watch apps that are silent and idle, with a trigger for each on one event loop."""
    del side, folder
    from airflow_torchx._deferral import Deferral
    from airflow_torchx.triggers import TorchXTrigger
    from torchx_core import AppDef, Role, get_runner

    def trigger(handle: str) -> TorchXTrigger:
        deferral = Deferral(handle=handle, token="", cursor=None, not_before=0.0)
        return TorchXTrigger(**deferral.to_json())

    async def fire(trigger: TorchXTrigger) -> None:
        async for _ in trigger.run():
            pass

    async def watch(handles: list[str]) -> float:
        await asyncio.sleep(1)
        before = own_memory_mb()
        watches = [asyncio.create_task(fire(trigger(handle))) for handle in handles]
        await asyncio.sleep(5)
        grown = own_memory_mb() - before
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        return grown

    app = AppDef("idle", [Role("w", image="", entrypoint="sleep", args=["600"])])
    with get_runner() as runner:
        handles = [runner.run(app, "local_cwd") for _ in range(apps)]
        asyncio.run(watch(handles[:1]))  # what the first one imports is not the others'
        grown = asyncio.run(watch(handles))
    return {"kb_per_app": [grown * 1024 / apps]}


def _wrong_lines(side: AirflowSide, lines: int) -> float:
    """Return how many lines the log lacks, has twice, or has in another order."""
    found = [int(number) for number in re.findall(rb"\d{99}", side.log.read_bytes())]
    return abs(len(found) - lines) + sum(a != b for a, b in zip(found, range(lines), strict=False))


def _parse_ms(side: AirflowSide) -> float:
    program = _PARSE.format(importing=side.importing, task=side.task(["true"]))
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


EXPERIMENTS = (
    Experiment(
        name="airflow-task",
        measure=measure,
        rows=(
            Row(metric="true_s", what="Airflow task: `true`", unit="s"),
            Row(
                metric="kps",
                what="… that prints 100-byte lines into its log, over `true`",
                unit="k lines/s",
                target=at_least_times(10, "floor"),
            ),
            Row(metric="deferred_kps", what="… the same, deferred at once", unit="k lines/s"),
            Row(metric="wrong", what="… lines lost, repeated or out of order", unit="lines", target=none()),
            Row(
                metric="parse_ms",
                what="DAG file: import the operator and make one, over DAG itself",
                unit="ms",
            ),
        ),
        quick=Size(rounds=1, params={"repeats": 3, "lines": 100_000}, sides=_EVERYBODY),
        full=Size(rounds=3, params={"repeats": 5, "lines": 100_000}, sides=_EVERYBODY),
        backend="airflow",
    ),
    Experiment(
        name="airflow-deferred",
        measure=measure_deferred,
        rows=(
            Row(
                metric="kb_per_app",
                what="deferred app: memory of the triggerer's event loop",
                unit="KB",
                target=at_most(50),
            ),
        ),
        quick=Size(rounds=1, params={"apps": 30}, sides=("ours",)),
        full=Size(rounds=3, params={"apps": 100}, sides=("ours",)),
        backend="airflow",
    ),
)
