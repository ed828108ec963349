"""The task of a replica."""

from __future__ import annotations

import json
import signal
from contextlib import suppress

import psutil
import pytest
from daemons import ends
from slurm_nodes import PATIENCE_S, Nodes, below

from torchx_core.testing import wait_until


def test_a_superseded_task_decides_nothing(nodes: Nodes) -> None:
    """A failure after a later run has begun is nobody's: no end, no retry, no stop."""
    nodes.prepare(
        "echo up; until test -e $0/go; do sleep 0.02; done; exit 3".replace("$0", str(nodes.app_dir))
    )
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    nodes.begin(1)
    (nodes.app_dir / "go").touch()
    assert task.wait(PATIENCE_S) == 75
    assert nodes.read("stop.json") is None
    assert not (nodes.app_dir / "left").exists()
    assert not (nodes.logs / "r0" / "1").exists()


def test_an_app_that_is_over_leaves_nothing_running(nodes: Nodes) -> None:
    """A task on a node that was only cut off kills its program, and writes nothing more."""
    nodes.prepare("trap '' TERM; echo up; while :; do sleep 0.1; done")
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    (nodes.app_dir / "final.json").write_text("{}")
    task.wait(PATIENCE_S)
    assert nodes.end("r0") is None
    assert not (nodes.app_dir / "left").exists()


@pytest.mark.parametrize("code", [0, 5, 143])
def test_what_a_program_makes_of_slurms_signal_is_no_outcome(nodes: Nodes, code: int) -> None:
    """Preempted, it may have saved its work and call that success; the app goes on in the next run."""
    nodes.prepare(f"exec 2>/dev/null; trap 'exit {code}' TERM; echo up; while :; do sleep 0.1; done")
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    for process in [*below(task.pid), psutil.Process(task.pid)]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    task.wait(PATIENCE_S)
    assert nodes.end("r0")["told"]
    assert nodes.read("stop.json") is None


def test_a_superseded_task_ends_its_program(nodes: Nodes) -> None:
    """Its node was only cut off: what runs there must not go on beside the next attempt."""
    nodes.prepare("trap '' TERM; echo up; while :; do sleep 0.1; done")
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    program = next(process.pid for process in below(task.pid) if process.name() == "sh")
    nodes.begin(1)
    assert task.wait(PATIENCE_S) == 75
    assert ends(program, PATIENCE_S)
    assert nodes.end("r0") is None


@pytest.mark.parametrize(("order", "code"), [(None, 3), ({"indices": [0], "run": 0, "time": 0}, 0)])
def test_an_app_that_is_stopped_starts_nothing_again(
    nodes: Nodes, order: dict[str, object] | None, code: int
) -> None:
    """A replica may fail, or be ordered to start again, before it has seen the stop."""
    stop = nodes.app_dir / "stop.json"
    nodes.prepare(f"echo up; until test -e {stop}; do :; done; exit 3", max_retries=1)
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    worker = psutil.Process(task.pid).children()[0]
    worker.suspend()
    if order is not None:
        (nodes.app_dir / "restart.0.json").write_text(json.dumps(order))
    stop.write_text(json.dumps({"outcome": "CANCELLED", "msg": "", "grace_s": None, "time": 0, "index": -1}))
    wait_until(lambda: {p.status() for p in below(worker.pid)} == {psutil.STATUS_ZOMBIE}, PATIENCE_S)
    worker.resume()
    assert task.wait(PATIENCE_S) == code
    assert not (nodes.logs / "r0" / "1").exists()
    assert nodes.read("restart.0.json") == order


def test_who_starts_again_waits_for_its_peers(nodes: Nodes) -> None:
    """A peer that takes its time to end has ended when the next attempt of the replica that failed begins."""
    peer = nodes.logs / "r1/0"
    first = f"""
        [ $TORCHX_ATTEMPT = 1 ] && exec cat {peer}/end.json
        until grep -q ready {peer}/combined.log; do :; done
        exit 1"""
    second = """
        [ $TORCHX_ATTEMPT = 1 ] && exit
        trap 'sleep 1; exit 3' TERM
        echo ready
        while :; do sleep 0.01; done"""
    nodes.prepare(first, second, max_retries=1)
    tasks = [nodes.start(0), nodes.start(1)]
    assert [task.wait(PATIENCE_S) for task in tasks] == [0, 0]
    assert json.loads(nodes.output("r0", 1))["code"] == 3


def test_what_slurm_ends_does_not_start_again(nodes: Nodes) -> None:
    """Although it was ordered to, a moment before: the job ends, and a later run starts everybody."""
    go = nodes.app_dir / "go"
    nodes.prepare(
        f"exec 2>/dev/null; trap 'echo told' TERM; echo up; until test -e {go}; do sleep 0.02; done"
    )
    task = nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    order = json.dumps({"indices": [0], "run": 0, "time": 0})
    (nodes.app_dir / "restart.0.json").write_text(order)
    wait_until(lambda: b"told" in nodes.output("r0"), PATIENCE_S)
    psutil.Process(task.pid).children()[0].terminate()
    wait_until(lambda: nodes.read("told.0.json"), PATIENCE_S)
    go.touch()
    assert task.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert not (nodes.logs / "r0" / "1").exists()
