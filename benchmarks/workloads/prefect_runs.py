"""Runs of Prefect: what a short one costs, how fast its log reaches the API and a cancel its app."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from benchmarks.clock import monotonic, ms_since, pause
from benchmarks.experiment import (
    Experiment,
    Row,
    Samples,
    SideName,
    Size,
    at_least_times,
    at_most_times,
    none,
)
from benchmarks.sides.prefect.side import PrefectSide, run

_BOTH: tuple[SideName, ...] = ("floor", "ours")
_PAGE = 200
"""How many records Prefect's server returns at most."""
_PATIENCE_S = 240.0
_SERVE = Path(__file__).parents[1] / "programs" / "serve_attached.py"


def measure(side: PrefectSide, folder: Path, *, repeats: int, lines: int) -> Samples:
    """Run `true`, an empty task beside it; then print lines, until the API has the last one."""
    del folder
    samples: Samples = {"over_empty_ms": []}
    for _ in range(repeats):
        empty = _took_ms(lambda: None)
        samples["over_empty_ms"].append(_took_ms(lambda: side.work(["true"])) - empty)
    talk = ["awk", f'BEGIN {{ for (i = 0; i < {lines}; i++) printf "%099d\\n", i }}']
    samples |= _talk(lambda: side.work(talk), lines, "")
    if side.name == "floor":
        samples |= _talk(lambda: side.work_line_by_line(talk), lines, "by_line_")
    return samples


def measure_cancel(side: PrefectSide, folder: Path, *, repeats: int) -> Samples:
    """Cancel flow runs of a served deployment: from the request to the end of the command's process."""
    samples: Samples = {"cancel_ms": []}
    with _serving(side, folder) as ask:
        for number in range(repeats):
            samples["cancel_ms"].append(_cancel_ms(ask, folder / f"pid{number}"))
    return samples


def _took_ms(work: Callable[[], None]) -> float:
    _, begin = run(work)
    return ms_since(begin)


def _talk(work: Callable[[], None], lines: int, prefix: str) -> Samples:
    flow_run, begin = run(work)
    _await(lambda: any(f"{lines - 1:099}" in text for text in _records(flow_run, newest=True)))
    took_s = monotonic() - begin
    found = [int(number) for text in _records(flow_run) for number in re.findall(r"\d{99}", text)]
    wrong = abs(len(found) - lines) + sum(a != b for a, b in zip(found, range(lines), strict=False))
    return {f"{prefix}kps": [lines / took_s / 1e3], f"{prefix}wrong": [wrong]}


def _records(flow_run: UUID, *, newest: bool = False) -> Iterator[str]:
    """Yield the texts of the flow run's log by time; of the newest a page."""
    from prefect import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
    from prefect.client.schemas.sorting import LogSort

    only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run]))
    order = LogSort.TIMESTAMP_DESC if newest else LogSort.TIMESTAMP_ASC
    with get_client(sync_client=True) as client:
        offset = 0
        while page := client.read_logs(only, limit=_PAGE, offset=offset, sort=order):
            yield from (record.message for record in page)
            offset += len(page)
            if newest:
                return


@contextmanager
def _serving(side: PrefectSide, folder: Path) -> Iterator[Callable[[list[str]], UUID]]:
    """Serve the side in a process of its own; yield what asks for a run of a command."""
    from prefect import get_client

    environment = {**os.environ, "SIDE": side.name, "SIDE_FOLDER": str(folder)}

    def ask(command: list[str]) -> UUID:
        with get_client(sync_client=True) as client:
            deployment = client.read_deployment_by_name("held/bench").id
            run = client.create_flow_run_from_deployment(deployment, parameters={"command": command})
        return run.id

    with (folder / "serve.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, str(_SERVE)], env=environment, stdout=log, stderr=log)
        try:
            _await(lambda: _is_there(server))
            yield ask
        finally:
            server.kill()  # its runs have ended, or are found by the mark that they carry
            server.wait()


def _is_there(server: subprocess.Popen[bytes]) -> bool:
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound

    if server.poll() is not None:
        raise RuntimeError(f"the served flow ended with {server.returncode}")
    try:
        with get_client(sync_client=True) as client:
            client.read_deployment_by_name("held/bench")
    except ObjectNotFound:
        return False
    return True


def _cancel_ms(ask: Callable[[list[str]], UUID], note: Path) -> float:
    from prefect import get_client
    from prefect.states import Cancelling

    # Not `$$`, which in an app's arguments stands for one dollar.
    program = f"read pid rest < /proc/self/stat; echo $pid > {note}.new; mv {note}.new {note}; exec sleep 600"
    flow_run = ask(["sh", "-c", program])
    _await(note.exists)
    ended = os.pidfd_open(int(note.read_text()))
    with get_client(sync_client=True) as client:
        begin = monotonic()
        client.set_flow_run_state(flow_run, Cancelling())
        _await(lambda: _has_ended(ended))
        took_ms = ms_since(begin)
        os.close(ended)
        _await(lambda: _is_final(client, flow_run))
    return took_ms


def _has_ended(pidfd: int) -> bool:
    import select

    return bool(select.select([pidfd], [], [], 0.0)[0])


def _is_final(client: Any, flow_run: UUID) -> bool:  # noqa: ANN401  (Prefect's own)
    state = client.read_flow_run(flow_run).state
    return bool(state and state.is_final())


def _await(true: Callable[[], object]) -> None:
    """Look until it holds."""
    until = monotonic() + _PATIENCE_S
    while not true():
        if monotonic() > until:
            raise TimeoutError
        pause(0.01)


EXPERIMENTS = (
    Experiment(
        name="prefect-run",
        measure=measure,
        rows=(
            Row(metric="over_empty_ms", what="Prefect task: `true`, over an empty task", unit="ms"),
            Row(
                metric="kps",
                what="… that prints 100-byte lines, until the API has the last",
                unit="k lines/s",
                target=at_least_times(10, "floor"),
            ),
            Row(
                metric="by_line_kps", what="… the same by hand, `logger.info` for each line", unit="k lines/s"
            ),
            Row(metric="wrong", what="… lines lost, repeated or out of order", unit="lines", target=none()),
        ),
        quick=Size(rounds=1, params={"repeats": 3, "lines": 10_000}, sides=_BOTH),
        full=Size(rounds=2, params={"repeats": 5, "lines": 50_000}, sides=_BOTH),
        backend="prefect",
    ),
    Experiment(
        name="prefect-cancel",
        measure=measure_cancel,
        rows=(
            Row(
                metric="cancel_ms",
                what="Prefect flow run: cancel -> the command has ended",
                unit="ms",
                target=at_most_times(1.2, "floor"),
            ),
        ),
        quick=Size(rounds=1, params={"repeats": 2}, sides=_BOTH),
        full=Size(rounds=3, params={"repeats": 3}, sides=_BOTH),
        backend="prefect",
    ),
)
