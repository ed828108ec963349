"""One attempt of a replica."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from slurm_nodes import PATIENCE_S, Nodes, below

from torchx_core.schedulers.slurm.node.program import DRAIN_S
from torchx_core.testing import wait_until

FIRST = {**os.environ, "SLURM_PROCID": "0"}
TOLD_BEFORE = """
import json, os, signal, sys
from torchx_core.schedulers.slurm.node.guard import Guard
from torchx_core.schedulers.slurm.node.task import run_attempts
from torchx_core.schedulers.slurm.node.replica import Replica
from torchx_core.schedulers.slurm.node.signals import Signals
with open(os.path.join(sys.argv[1], "plan.json")) as file:
    replica = Replica(sys.argv[1], json.load(file))
signals = Signals(os.getppid())
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(run_attempts(replica, signals, Guard()))
"""
"""A task that Slurm tells to end just before its program is there."""
TELLS_THE_TASK_LAST = """
import os, subprocess, sys, time
import psutil
task = subprocess.Popen(sys.argv[3:])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
program, worker = map(int, open(sys.argv[1]).read().split())
os.kill(program, 15)
while psutil.pid_exists(program):
    pass
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    pass
os.kill(worker, 15)
sys.exit(task.wait())
"""
"""A slurmstepd which others keep from the processor when it has told the program, and not yet its task."""


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


def test_what_slurm_has_told_is_not_told_again(nodes: Nodes) -> None:
    """Slurm signals every process of a job: a program may take a second SIGTERM for impatience."""
    go = nodes.app_dir / "go"
    nodes.prepare(
        f"exec 2>/dev/null; trap 'echo told' TERM; echo up; until test -e {go}; do sleep 0.02; done"
    )
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    *tree, worker = reversed(below(task.pid))
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    wait_until(lambda: b"told" in nodes.output("r0"), PATIENCE_S)
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: nodes.read("told.0.json"), PATIENCE_S)
    go.touch()
    assert task.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert nodes.output("r0") == b"up\ntold\n"


@pytest.mark.parametrize("code", [0, 1])
def test_a_program_that_ends_before_its_task_is_told(nodes: Nodes, code: int) -> None:
    """Has ended because of that signal all the same: it has neither succeeded nor failed."""
    pids = nodes.app_dir / "pids"
    nodes.prepare(
        f"exec 2>/dev/null; trap 'exit {code}' TERM; echo $$$$ $PPID >{pids}.new; mv {pids}.new {pids};"
        " while :; do sleep 0.01; done"
    )
    task = nodes.start(0, by=[sys.executable, "-c", TELLS_THE_TASK_LAST, str(pids), "0.5"])
    assert task.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert nodes.end("r0")["told"]
    assert nodes.read("stop.json") is None


def test_a_program_that_comes_after_slurms_signal_is_told(nodes: Nodes) -> None:
    """Untold it would go on until it is killed, with no chance to save its work."""
    nodes.prepare("echo up; exec sleep 600", cfg={"grace_s": 600})
    task = subprocess.run([sys.executable, "-c", TOLD_BEFORE, str(nodes.app_dir)], check=False, env=FIRST)
    assert task.returncode == 128 + signal.SIGTERM
    assert nodes.end("r0")["told"]


def test_a_failure_after_an_order_to_start_again(nodes: Nodes) -> None:
    """Is no failure of its own: the others, started again a moment ago, have left it alone."""
    order = nodes.app_dir / "restart.0.json"
    nodes.prepare(f'test "$TORCHX_ATTEMPT" = 1 && exit; echo up; until test -e {order}; do :; done; exit 3')
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    worker = psutil.Process(task.pid).children()[0]
    worker.suspend()  # or it may see the order first
    order.write_text(json.dumps({"indices": [0], "run": 0, "time": 0}))
    wait_until(lambda: {p.status() for p in below(worker.pid)} == {psutil.STATUS_ZOMBIE}, PATIENCE_S)
    worker.resume()
    assert task.wait(PATIENCE_S) == 0
    assert (nodes.end("r0")["code"], nodes.end("r0")["told"]) == (3, True)
    assert nodes.end("r0", attempt=1)["code"] == 0
    assert nodes.read("stop.json") is None
