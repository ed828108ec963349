"""How an app stands, as a task sees it."""

from __future__ import annotations

import json

from slurm_nodes import PATIENCE_S, Nodes


def test_a_node_whose_clock_is_ahead_ends_nothing(nodes: Nodes) -> None:
    """How long an app runs is counted on each node, whatever the clocks of the others say."""
    nodes.prepare("echo fine", cfg={"timeout_s": 60})  # the run began in 1970, by the clock of another node
    assert nodes.start(0).wait(PATIENCE_S) == 0
    assert nodes.read("stop.json") is None


def test_the_time_before_a_requeue_counts(nodes: Nodes) -> None:
    """By the clocks of those who began the runs."""
    nodes.prepare("exec sleep 600", cfg={"timeout_s": 60})
    (nodes.app_dir / "run.1.json").write_text(json.dumps({"job_id": "7", "time": 100, "nodes": "n"}))
    nodes.start(0, run=1).wait(PATIENCE_S)
    assert nodes.read("stop.json")["msg"] == "the deadline has passed: it ran for 60 s"
