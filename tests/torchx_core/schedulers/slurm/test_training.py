"""What the scheduler is for: training on several nodes, with PyTorch's own launcher."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from daemons import free_port
from slurm_cluster import SlurmCluster

from torchx_core.components.dist import torchrun
from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]

SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
print(f"rank {rank} of {world} on {os.environ['SLURMD_NODENAME']}: {total.item():g}", flush=True)
dist.destroy_process_group()
"""
FAIL = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 3:
    raise ValueError("bad batch")
dist.barrier()
"""
DIE = """
import os, signal, time
if os.environ["TORCHX_ATTEMPT"] != "0":
    print("rank", os.environ["RANK"], "again")
elif os.environ["RANK"] == "3":
    print("dying on", os.environ["SLURMD_NODENAME"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
else:
    time.sleep(600)
"""


@pytest.fixture
def runner(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner on the cluster; `torchrun` is that of this Python."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{cluster.environment['PATH']}")
    with Runner(
        "training", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}
    ) as runner:
        yield runner


def _app(folder: Path, program: str, *, max_retries: int = 0) -> AppDef:
    """Return the app of two nodes with two processes each, which are all on this host."""
    script = folder / "program.py"
    script.write_text(program)
    return torchrun(
        script=str(script),
        j="2x2",
        cpu=1,
        memMB=500,
        env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},
        rdzv_port=free_port(),
        max_retries=max_retries,
        tee=1,
    )


def _run(runner: Runner, app: AppDef) -> tuple[AppState, str, list[ReplicaStatus], list[str]]:
    """Return how the app ended, its replicas, and its lines without torchrun's prefix."""
    status, lines = _ended(runner, app)
    return status.state, status.msg, status.roles[0].replicas, lines


def _ended(runner: Runner, app: AppDef) -> tuple[AppStatus, list[str]]:
    handle = runner.run(app, "slurm")
    lines = [line.text.partition("]:")[2] for batch in runner.follow(handle) for line in batch.lines()]
    status = runner.wait(handle)
    assert status is not None
    return status, lines


def test_processes_on_two_nodes_train_together(runner: Runner, tmp_path: Path) -> None:
    """Each of the four has the sum of all; two of them are on each node."""
    state, msg, replicas, lines = _run(runner, _app(tmp_path, SUM))
    assert state is AppState.SUCCEEDED, (msg, lines)
    told = sorted(line.split() for line in lines if line.startswith("rank "))
    assert [(words[1], words[-1]) for words in told] == [(str(rank), "10") for rank in range(4)]
    hosts = {replica.hostname for replica in replicas}
    assert len(hosts) == 2
    assert Counter(words[-2] for words in told) == dict.fromkeys((f"{host}:" for host in hosts), 2)


def test_a_process_that_dies_fails_the_app_by_its_node(runner: Runner, tmp_path: Path) -> None:
    """The message leads with the rank and the replica that ran it; the other one ends with it."""
    status, lines = _ended(runner, _app(tmp_path, DIE))
    replicas = status.roles[0].replicas
    assert status.state is AppState.FAILED
    [culprit] = [replica for replica in replicas if f"dying on {replica.hostname}" in lines]
    assert status.msg == f"program/{culprit.id} failed: exit code 1"
    assert AppState.SUCCEEDED not in {replica.state for replica in replicas}
    assert status.failure_summary().startswith(
        f"rank 3 of replica program/{culprit.id} was killed by SIGKILL (on {culprit.hostname}); app is FAILED"
    )


def test_an_exception_of_one_rank_leads(runner: Runner, tmp_path: Path) -> None:
    """Not that others have lost their peer, on whatever node; its traceback is in no log here (tee=1)."""
    status, _ = _ended(runner, _app(tmp_path, FAIL))
    assert status.state is AppState.FAILED
    headline, *rest = status.failure_summary().split("\n")
    assert headline.startswith("rank 3 of replica program/"), status.failure_summary()
    assert f": ValueError: bad batch ({tmp_path}/program.py:5); app is FAILED" in headline
    assert rest[0] == "  error: Traceback (most recent call last):"


def test_a_process_that_dies_starts_all_again(runner: Runner, tmp_path: Path) -> None:
    """With a retry left, every node begins its next attempt, and they meet again."""
    state, msg, replicas, lines = _run(runner, _app(tmp_path, DIE, max_retries=1))
    assert state is AppState.SUCCEEDED, (msg, lines)
    assert [replica.attempt for replica in replicas] == [1, 1]
    assert sorted(line for line in lines if line.endswith("again")) == [f"rank {r} again" for r in range(4)]
