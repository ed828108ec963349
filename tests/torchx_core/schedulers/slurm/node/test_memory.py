"""Memory on the nodes: how much a program had, and whether it was killed for want of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_nodes import PATIENCE_S, Nodes

from torchx_core.schedulers.slurm.node.memory import oom_kills
from torchx_core.supervisor.limits import Group, confine

ENTER = 'echo $$ > "$1" && shift && exec "$@"'


@pytest.fixture
def group() -> Iterator[Group]:
    """A control group with 100 MB, as Slurm makes one for a task."""
    group = confine(f"torchx-test-{os.getpid()}", cpu=0, mem_mb=100)
    if group.missing:
        pytest.skip(f"this host gives no group for a limit: {group.missing}")
    yield group
    group.remove()


def _hog(mb: int) -> str:
    """Return a script whose program has so much memory, and then burns a quarter of a second."""
    code = f"import os; x = bytearray({mb} << 20)\nwhile sum(os.times()[:2]) < 0.25: pass"
    return f"exec {sys.executable} -S -c '{code}'"


def test_an_attempt_says_what_it_has_used(nodes: Nodes) -> None:
    """CPU time and the most memory that one of its processes had."""
    nodes.prepare(_hog(60))
    assert nodes.start(0).wait(PATIENCE_S) == 0
    end = nodes.end("r0")
    assert 0.25 <= end["cpu_s"] < 5
    assert 60 <= end["peak_mb"] < 150
    assert not end["oom"]


def test_a_program_that_is_killed_for_want_of_memory_says_so(nodes: Nodes, group: Group) -> None:
    """And how much it had; the next attempt, in the same group, is not blamed for the first."""
    hog = _hog(400).removeprefix("exec ")
    nodes.prepare(f"if [ $TORCHX_ATTEMPT = 0 ]; then {hog}; exit $?; fi; exit 3", max_retries=1)
    task = nodes.start(0, by=["sh", "-c", ENTER, "sh", *group.entrances])
    assert task.wait(PATIENCE_S) == 3
    first, second = nodes.end("r0"), nodes.end("r0", 1)
    assert (first["code"], first["oom"]) == (128 + signal.SIGKILL, True)
    assert 50 <= first["peak_mb"] <= 100
    assert (second["code"], second["oom"]) == (3, False)


def test_where_nobody_counts_there_is_none(tmp_path: Path) -> None:
    """No control groups, or a kernel that does not count, is no kill."""
    assert oom_kills(str(tmp_path)) == 0
    (tmp_path / "cgroup").write_text("0::/job\n4:memory:/job\n")
    (tmp_path / "mountinfo").write_text(f"31 23 0:28 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    assert oom_kills(str(tmp_path)) == 0
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    assert oom_kills(str(tmp_path)) == 2


@pytest.mark.parametrize("kind", ["cgroup cgroup rw,memory", "cgroup2 cgroup2 rw"])
def test_a_group_is_found_below_what_is_mounted(tmp_path: Path, kind: str) -> None:
    """Inside a container a part of the hierarchy is mounted, whose root the kernel tells."""
    path = "4:memory:/box/task" if "memory" in kind else "0::/box/task"
    (tmp_path / "cgroup").write_text(f"{path}\n")
    (tmp_path / "mountinfo").write_text(f"31 23 0:28 /box {tmp_path} rw,nosuid shared:1 - {kind}\n")
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 1\n")
    assert oom_kills(str(tmp_path)) == 1
