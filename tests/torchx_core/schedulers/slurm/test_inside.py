"""Commands inside the replicas of a real job, as a user meets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_terminal import in_terminal, torchx_core
from slurm_cluster import SlurmCluster

from torchx_core import AppDef, Role, get_runner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HANDLE = "slurm://torchx/x"


@pytest.fixture
def _app(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An app of two roles, the second of which has two replicas on one node; all are up."""
    del cluster
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path))
    script = ["-c", "echo up; exec sleep 600"]
    roles = [
        Role(name, "", entrypoint="sh", args=script, num_replicas=n, env={"MARK": f"{name} ${{replica_id}}"})
        for name, n in (("a", 1), ("b", 2))
    ]
    with get_runner() as runner:
        runner.run(AppDef("x", roles), "slurm", {"replicas_per_node": 2, "job_dir": "/"}, app_id="x")
        lines = (line for batch in runner.follow(HANDLE) for line in batch.lines())
        for _ in range(3):
            next(lines)
        yield
        runner.cancel(HANDLE, grace_s=0)
        runner.wait(HANDLE, timeout_s=240)


@pytest.mark.usefixtures("_app")
def test_each_replica_is_entered_where_it_runs() -> None:
    """Also where two run on one node: environment, directory, streams and exit code are the replica's own."""
    script = "cat; echo $MARK $SLURM_PROCID; pwd; exit 9"
    for replica, told in (("a/0", "a 0 0"), ("b/0", "b 0 1"), ("b/1", "b 1 2")):
        done = torchx_core("exec", HANDLE, replica, "--", "sh", "-c", script, stdin="in\n")
        assert (done.returncode, done.stdout) == (9, f"in\n{told}\n/\n")
    assert torchx_core("exec", HANDLE, "b/1", "wc", "-c", stdin="x" * 2_000_000).stdout.strip() == "2000000"


@pytest.mark.usefixtures("_app")
def test_it_has_a_terminal() -> None:
    """Size and keys, over srun."""
    with in_terminal("exec", HANDLE, "b/1", "--", "sh", columns=77, lines=20) as terminal:
        terminal.press("stty size; echo $MARK\n")
        terminal.wait_for("20 77")
        terminal.wait_for("b 1")
        terminal.press("echo be''gin; sleep 600\n")
        terminal.wait_for("begin")
        terminal.interrupt()
        terminal.wait_for("^C")
        terminal.resize(60, 15)
        terminal.press("until [ \"$(stty size)\" = '15 60' ]; do sleep 0.1; done; echo en''d; exit 5\n")
        terminal.wait_for("end")
        assert terminal.exit_code() == 5
        assert terminal.echoes()


@pytest.mark.usefixtures("_app")
def test_a_reader_that_stops_ends_it() -> None:
    """The step ends, which srun alone would let print for ever."""
    command = f"{sys.executable} -m torchx_core exec {HANDLE} b/0 yes | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)  # noqa: S602  # a pipe is what is tested
    assert done.stdout == "y\n"
