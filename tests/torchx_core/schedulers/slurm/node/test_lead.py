"""The batch script."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slurm_nodes import Nodes

from torchx_core.schedulers.slurm.node import lead as batch_script
from torchx_core.schedulers.slurm.node.lead import launch, mind_deaths
from torchx_core.testing import wait_until


@pytest.fixture
def lead(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """A function that runs the batch script beside programs that stand in for Slurm's; returns its output."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def run(*, srun: str = "", scontrol: str = "", **env: str) -> bytes:
        for name, script in (("srun", srun), ("scontrol", scontrol)):
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        command = [sys.executable, str(nodes.app_dir / "shim.pyz"), "lead", str(nodes.app_dir)]
        return subprocess.run(
            command, env={**os.environ, "SLURM_JOB_ID": "7", **env}, check=True, stdout=subprocess.PIPE
        ).stdout

    return run


def test_a_requeue_before_the_first_run_began_is_a_run_all_the_same(
    nodes: Nodes, lead: Callable[..., bytes]
) -> None:
    """A node may be lost before its batch script has done anything; who follows still sees the app begin."""
    nodes.prepare("true")
    (nodes.app_dir / "run.0.json").unlink()
    lead(SLURM_RESTART_COUNT="1")
    assert nodes.read("run.0.json") is not None
    assert nodes.read("run.1.json") is not None


@pytest.mark.parametrize(
    ("scontrol", "address"),
    [
        ("test $1 = show && echo gpu7 || echo NodeName=gpu7 NodeAddr=10.0.0.7 State=IDLE", "10.0.0.7"),
        ("test $1 = show && echo gpu7 || exit 1", "gpu7"),
        ("exit 1", "localhost"),
    ],
    ids=["known", "controller away", "no Slurm"],
)
def test_the_replicas_are_told_where_the_first_is(
    nodes: Nodes, lead: Callable[..., bytes], scontrol: str, address: str
) -> None:
    """By the address that Slurm has; a controller that is away costs the address, not the name."""
    nodes.prepare("true")
    told = lead(srun="echo $TORCHX_RANK0_HOST", scontrol=scontrol, SLURM_JOB_NODELIST="gpu[7-9]")
    assert told.decode() == f"{address}\n"


@pytest.mark.parametrize(("latest", "told"), [(0, ""), (1, "started\n")])
def test_a_job_that_runs_again_although_all_has_succeeded(
    nodes: Nodes, lead: Callable[..., bytes], latest: int, told: str
) -> None:
    """Does nothing, if its latest run has said so: what is left of an earlier one may say so too late."""
    nodes.prepare("true")
    nodes.begin(latest)
    (nodes.app_dir / "done.0").touch()
    assert lead(srun="echo started", SLURM_RESTART_COUNT=str(latest + 1)).decode() == told
    assert (nodes.read(f"run.{latest + 1}.json") is not None) == bool(told)


@pytest.fixture
def deaths(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[bytes], Any]:
    """A function that shows the batch script what srun says of an app of four tasks; returns why it ends."""
    monkeypatch.setattr(batch_script, "NOTE_S", 0.0)
    nodes.prepare("true")
    plan = nodes.read("plan.json")
    plan["roles"] = [
        {**plan["roles"][0], "replicas": replicas} for replicas in getattr(request, "param", [4])
    ]
    (nodes.app_dir / "left").mkdir()
    (nodes.app_dir / "left" / "0.0").touch()

    def tell(line: bytes) -> Any:  # JSON
        mind_deaths(line, plan, str(nodes.app_dir))
        return nodes.read("stop.json")

    return tell


@pytest.mark.parametrize(
    ("line", "index"),
    [
        (b"srun: error: n2: task 1: Exited with exit code 127\n", 1),
        (b"srun: error: n[1-2]: tasks 0,2-3: Killed\n", 2),
    ],
)
def test_a_task_that_ended_without_a_word_ends_the_app(
    deaths: Callable[[bytes], Any], line: bytes, index: int
) -> None:
    """On a node without Python, say: the others would wait for it until Slurm's time limit."""
    stop = deaths(line)
    assert (stop["outcome"], stop["index"]) == ("FAILED", index)
    assert stop["msg"] == f"a task ended on its node without a word: {line.decode().strip()}"


@pytest.mark.parametrize("deaths", [[1, 3]], indirect=True)
def test_of_several_roles_srun_does_not_say_which_it_means(deaths: Callable[[bytes], Any]) -> None:
    """The first task of a role may be that which has left its note; the second one there is only once."""
    assert deaths(b"srun: error: n1: task 0: Exited with exit code 3\n") is None
    assert deaths(b"srun: error: n1: task 1: Killed\n")["index"] == 2


@pytest.mark.parametrize("deaths", [[2, 2]], indirect=True)
def test_a_death_in_one_of_several_roles_ends_the_app(deaths: Callable[[bytes], Any]) -> None:
    """Of nobody in particular, where it may be one or the other."""
    assert deaths(b"srun: error: n1: task 1: Killed\n")["index"] == -1


@pytest.mark.parametrize(
    "line",
    [
        b"srun: error: n1: task 0: Exited with exit code 3\n",
        b"srun: job 7 queued and waiting for resources\n",
        b"Traceback: task 1: no such thing\n",
    ],
)
def test_what_srun_says_besides_ends_nothing(deaths: Callable[[bytes], Any], line: bytes) -> None:
    """A task that has left its note has said how it ended; and a program may print anything."""
    assert deaths(line) is None


def test_a_task_of_an_earlier_run_ends_nothing(nodes: Nodes, deaths: Callable[[bytes], Any]) -> None:
    """Slurm kills the tasks of a job that it starts again."""
    nodes.begin(1)
    assert deaths(b"srun: error: n2: task 1: Killed\n") is None


def test_srun_does_not_wait_while_a_death_is_looked_into() -> None:
    """A thousand tasks may end at once; what srun says goes on into the log, and its exit code comes back."""
    may_end, seen = threading.Event(), list[bytes]()

    def mind(line: bytes) -> None:
        may_end.wait(240)
        seen.append(line)

    said = "srun: error: n1: task 0: Killed"
    assert launch(["sh", "-c", f"echo '{said}' >&2; echo other >&2; exit 3"], mind) == (3, True)
    assert seen == []
    may_end.set()
    wait_until(lambda: seen == [f"{said}\n".encode()], 240)
