"""How an app stands, as a task sees it."""

from __future__ import annotations

import json
import time

import pytest
from slurm_nodes import PATIENCE_S, Nodes

from torchx_core.schedulers.slurm.node.attempts import Attempts
from torchx_core.schedulers.slurm.node.replica import Replica, Superseded
from torchx_core.specs import CfgVal
from torchx_core.testing import wait_until


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
    assert nodes.read("stop.json")["msg"] == "deadline passed: it ran for 60 s"


@pytest.mark.parametrize("limits", [(), ("timeout_s",), ("deadline",), ("timeout_s", "deadline")], ids=str)
def test_a_program_knows_when_its_time_is_over(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, limits: tuple[str, ...]
) -> None:
    """By this node's clock and whichever limit comes first, and never by that of an app around this one."""
    monkeypatch.setenv("TORCHX_DEADLINE", "1")
    began = time.time()
    known: dict[str, CfgVal] = {"timeout_s": 900, "deadline": began + 600}
    nodes.prepare("echo $$TORCHX_DEADLINE", cfg={name: known[name] for name in limits})
    assert nodes.start(0).wait(PATIENCE_S) == 0
    told = nodes.output("r0").decode().strip()
    if "deadline" in limits:
        assert float(told) == pytest.approx(began + 600, abs=0.01)
    elif limits:
        assert began + 900 - 1 <= float(told) <= time.time() + 900 + 1
    else:
        assert told == ""


def begun(nodes: Nodes, index: int, monkeypatch: pytest.MonkeyPatch, *, run: int = 0) -> Replica:
    """Return a replica as its task has it, which begins no program."""
    monkeypatch.setenv("SLURM_PROCID", str(index))
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(run))
    return Replica(str(nodes.app_dir), nodes.read("plan.json"))


def end(replica: Replica, code: int) -> None:
    """Have it begin an attempt, and end it."""
    replica.attempts.close(replica.begin(), {"code": code, "told": False})


def test_a_task_that_was_frozen_begins_nothing(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it claims after a later run has begun starts no program."""
    nodes.prepare("true")
    replica = begun(nodes, 0, monkeypatch)
    nodes.begin(1)
    with pytest.raises(Superseded):
        replica.begin()


def test_what_succeeded_before_a_requeue_has_not_succeeded_yet(nodes: Nodes) -> None:
    """It runs again, and may then fail and take the others with it: they wait for it."""
    fails = 'test "$TORCHX_ATTEMPT" != 1'
    nodes.prepare("true", fails, max_retries=1)
    attempts = Attempts(str(nodes.logs / "r1"))
    attempts.close(attempts.claim({"run": 0, "orders": 0}), {"code": 0, "told": False})
    nodes.begin(1)
    first = nodes.start(0, run=1)
    wait_until(lambda: nodes.end("r0"), PATIENCE_S)
    second = nodes.start(1, run=1)
    assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0)
    assert [nodes.end("r1", attempt)["code"] for attempt in range(3)] == [0, 1, 0]
    assert [nodes.end("r0", attempt)["code"] for attempt in range(2)] == [0, 0]


def test_who_is_to_start_again_has_not_succeeded(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it was started again alone before."""
    nodes.prepare("true", "true", max_retries=1)
    first, second = (begun(nodes, index, monkeypatch) for index in (0, 1))
    end(second, 3)
    end(second, 0)
    end(first, 3)
    assert first.may_restart()
    end(first, 0)
    assert not first.all_succeeded()
    assert second.restarted()
    end(second, 0)
    assert first.all_succeeded()
