"""The process beside the one that runs a replica."""

from __future__ import annotations

import signal

import psutil
from slurm_nodes import PATIENCE_S, Nodes

from torchx_core.testing import wait_until


def test_a_task_that_is_killed_is_a_failure_of_its_replica(nodes: Nodes) -> None:
    """Its program dies with it, the end is on record, and the others are stopped."""
    nodes.prepare("sleep 600 & echo $!; wait", "echo up; exec sleep 600")
    victim, other = nodes.start(0), nodes.start(1)
    wait_until(lambda: nodes.output("r0") and nodes.output("r1"), PATIENCE_S)
    orphan = int(nodes.output("r0"))
    psutil.Process(victim.pid).children()[0].kill()
    assert (victim.wait(PATIENCE_S), other.wait(PATIENCE_S)) == (128 + signal.SIGKILL, 0)
    wait_until(lambda: not psutil.pid_exists(orphan), PATIENCE_S)
    assert (nodes.end("r0")["code"], nodes.end("r0")["told"]) == (128 + signal.SIGKILL, False)
    assert (nodes.end("r1")["code"], nodes.end("r1")["told"]) == (128 + signal.SIGTERM, True)
    stop = nodes.read("stop.json")
    assert (stop["outcome"], stop["index"]) == ("FAILED", 0)
    assert "what ran it on the node died" in stop["msg"]


def test_an_error_of_our_own_ends_the_app(nodes: Nodes) -> None:
    """A task that cannot write where it should does not leave the others waiting."""
    nodes.prepare("true", "echo up; exec sleep 600")
    nodes.logs.mkdir()
    (nodes.logs / "r0").write_text("no directory")
    victim, other = nodes.start(0), nodes.start(1)
    assert (victim.wait(PATIENCE_S), other.wait(PATIENCE_S)) == (70, 0)
    stop = nodes.read("stop.json")
    assert (stop["outcome"], stop["index"]) == ("FAILED", 0)
