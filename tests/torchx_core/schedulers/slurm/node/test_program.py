"""One attempt of a replica."""

from __future__ import annotations

import json
import signal
from contextlib import suppress

import psutil
import pytest
from slurm_nodes import PATIENCE_S, Nodes, below

from torchx_core.schedulers.slurm.node.program import DRAIN_S
from torchx_core.testing import wait_until


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_signals_for_the_program_do_not_end_what_runs_it(nodes: Nodes, number: signal.Signals) -> None:
    """Slurm sends a signal to every process of a job; what the program makes of it is recorded."""
    nodes.prepare("trap 'echo heard; exit 3' USR1 HUP INT QUIT; echo up; while :; do sleep 0.05; done")
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    for process in [psutil.Process(task.pid), *below(task.pid)]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    assert task.wait(PATIENCE_S) == 3
    assert b"heard\n" in nodes.output("r0")
    assert nodes.end("r0")["code"] == 3


def test_a_program_that_closes_its_output_first_costs_no_time(nodes: Nodes) -> None:
    """Nothing more can come, so nothing is waited for once it has ended; of three the fastest counts."""
    went_at = nodes.app_dir / "go"
    nodes.prepare(*[f"echo up; exec >&- 2>&-; until test -e {went_at}; do sleep 0.02; done"] * 3)
    for replica in range(3):
        nodes.start(replica)
    wait_until(lambda: all(nodes.output(f"r{k}") for k in range(3)), PATIENCE_S)
    went_at.touch()
    wait_until(lambda: all(nodes.end(f"r{k}") for k in range(3)), PATIENCE_S)
    ends = [nodes.end(f"r{k}")["time"] for k in range(3)]
    assert min(ends) - went_at.stat().st_mtime < DRAIN_S


@pytest.mark.parametrize(
    ("argv", "cwd", "code", "said"),
    [
        (["/no/program"], "/", 127, "cannot run /no/program: No such file or directory"),
        (["/etc"], "/", 126, "cannot run /etc: Permission denied"),
        (["true"], "/no/place", 127, "cannot run true in /no/place: No such file or directory"),
        (["\udcff"], "/", 127, "cannot run \udcff: No such file or directory"),
    ],
)
def test_what_cannot_be_run_is_told_as_by_a_shell(
    nodes: Nodes, argv: list[str], cwd: str, code: int, said: str
) -> None:
    """With the directory, if that is what is missing."""
    nodes.prepare("")
    plan = nodes.read("plan.json")
    plan["replicas"][0].update(argv=argv, cwd=cwd)
    (nodes.app_dir / "plan.json").write_text(json.dumps(plan))
    assert nodes.start(0).wait(PATIENCE_S) == code
    assert nodes.output("r0").decode(errors="surrogateescape") == f"{said}\n"
