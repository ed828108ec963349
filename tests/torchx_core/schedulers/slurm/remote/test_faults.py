"""What happens between this host and the cluster: connections break, agents die, login nodes restart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import psutil
import pytest
from own_threads import started_since, threads_now
from slurm_cluster import SlurmCluster
from ssh_harm import HARMS, Harm, check_no_line_is_lost
from ssh_server import SshServer

from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, Resource, Role
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def runner(login_node: SshServer) -> Iterator[Runner]:
    """A runner that reaches the cluster through the login node; ends what it started."""
    del login_node
    factory = partial(create_scheduler, slurm_ssh="login", slurm_ssh_python=sys.executable)
    with Runner("remote", {"slurm": factory}) as runner:
        yield runner
        for app in runner.list("slurm"):
            runner.cancel(app.app_handle, grace_s=0)


def _app(script: str) -> AppDef:
    role = Role("w", "", entrypoint="sh", args=["-c", script], resource=Resource(1, 0, 100))
    return AppDef("app", [role])


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("way", ["follow", "afollow"])
def test_no_line_is_lost_or_repeated(
    way: Literal["follow", "afollow"], harm: Harm, runner: Runner, login_node: SshServer, tmp_path: Path
) -> None:
    """However often the connection or the agent dies while an app prints; jobs notice nothing."""
    check_no_line_is_lost(way, harm, login_node, runner, "slurm", _app, tmp_path / "go")


def test_a_login_node_that_is_away(
    runner: Runner, login_node: SshServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Followers wait and say so once, questions fail and may be put again, the job goes on."""
    go = tmp_path / "go"
    handle = runner.run(_app(f"echo one; until test -e {go}; do sleep 0.1; done; echo two"), "slurm")
    follow = runner.follow(handle, tick_s=0.2)
    texts: list[str] = []
    while texts != ["one"]:
        texts += [line.text for line in next(follow).lines()]
    login_node.go_away()
    for _ in range(10):
        texts += [line.text for line in next(follow).lines()]
    with pytest.raises(SchedulerError, match="cannot reach login node login") as caught:
        runner.status(handle)
    assert caught.value.retryable
    go.touch()
    login_node.start()
    texts += [line.text for batch in follow for line in batch.lines()]
    assert texts == ["one", "two"]
    assert caplog.text.count("followers wait until it is back") == 1


_SBATCH = """#!/bin/sh
said=$({sbatch} "$@") || exit
test -e {folder}/told || {{ touch {folder}/told; until test -e {folder}/go; do sleep 0.05; done; }}
echo "$said"
"""


@pytest.fixture
def slow_sbatch(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an sbatch there that has submitted when `told` is there, and returns at `go`."""
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "sbatch").write_text(_SBATCH.format(sbatch="/usr/bin/sbatch", folder=folder))
    (folder / "sbatch").chmod(0o755)
    monkeypatch.setattr(
        type(cluster),
        "environment",
        {**cluster.environment, "PATH": f"{folder}:{cluster.environment['PATH']}"},
    )
    return folder


@pytest.mark.parametrize("harm", ["cut", "kill"])
def test_a_submit_without_an_answer_is_one_job(
    harm: str, slow_sbatch: Path, runner: Runner, login_node: SshServer, cluster: SlurmCluster
) -> None:
    """The connection breaks, or the agent is killed, when sbatch has submitted and before that is told."""
    handles: list[str] = []
    submit = threading.Thread(
        target=lambda: handles.append(runner.run(_app("echo once"), "slurm", app_id=harm))
    )
    submit.start()
    wait_until((slow_sbatch / "told").exists, 240)
    if harm == "kill":
        login_node.kill_agents()
    else:
        login_node.cut()
    (slow_sbatch / "go").touch()
    submit.join(120)
    (handle,) = handles
    assert [line.text for batch in runner.follow(handle) for line in batch.lines()] == ["once"]
    jobs = cluster.call("squeue", "--noheader", "--states=all", "--format=%k")
    assert jobs.count(f"torchx:remote/{harm}:") == 1


def test_many_apps_share_a_connection(runner: Runner, login_node: SshServer) -> None:
    """Ten are followed at once by one process: one session, one agent, no thread for any of them."""
    handles = [runner.run(_app(f"echo {i}; sleep 1; echo {i}"), "slurm") for i in range(10)]
    before = threads_now()

    async def texts(handle: str) -> list[str]:
        return [line.text async for batch in runner.afollow(handle) for line in batch.lines()]

    async def together() -> list[list[str]]:
        return list(await asyncio.gather(*map(texts, handles)))

    assert asyncio.run(together()) == [[str(i)] * 2 for i in range(10)]
    assert started_since(before) == []
    assert len(login_node.sessions()) == len(login_node.agents()) == 1


def test_the_command_line_reaches_it(
    login_node: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two variables; the program runs in the home directory there, with the environment there."""
    monkeypatch.setenv("TORCHX_SLURM_SSH", "login")
    monkeypatch.setenv("TORCHX_SLURM_SSH_PYTHON", sys.executable)
    monkeypatch.setenv("ONLY_HERE", "yes")
    del login_node
    script = "pwd; echo $HOME ${ONLY_HERE-not there}"
    command = [
        sys.executable,
        "-m",
        "torchx_core",
        "run",
        "--log",
        "-s",
        "slurm",
        "utils.sh",
        "sh",
        "-c",
        script,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    home = str(tmp_path / "home")
    assert done.stdout.splitlines()[1:] == [f"sh/0 {home}", f"sh/0 {home} not there"]


def test_nothing_is_left_on_the_login_node(runner: Runner, login_node: SshServer, tmp_path: Path) -> None:
    """Only the records of the apps stay there; a job goes on without any agent."""
    handle = runner.run(_app("echo up; exec sleep 600"), "slurm")
    next(batch for batch in runner.follow(handle) if any(batch.lines()))
    agents = login_node.agents()
    runner.close()
    assert psutil.wait_procs(agents, timeout=60)[1] == []
    wait_until(lambda: not login_node.sessions(), 240)
    home = tmp_path / "home"
    files = {path.relative_to(home).parts[:5] for path in home.rglob("*") if path.is_file()}
    assert files <= {(".local", "state", "torchx", "slurm", "remote")}
    status = runner.status(handle)
    assert status is not None
    assert status.state is AppState.RUNNING


def test_a_lease_is_kept_by_who_follows(runner: Runner, login_node: SshServer) -> None:
    """For as long as he does, and no longer."""
    runner.run(_app("exec sleep 600"), "slurm", {"lease_s": 5.0}, app_id="leased")
    handle = f"slurm://{runner.name}/leased"
    follow = runner.follow(handle, tick_s=0.2)
    for _ in range(50):  # twice the lease
        next(follow)
    status = runner.status(handle)
    assert status is not None
    assert status.state is AppState.RUNNING
    login_node.kill_agents()
    follow.close()  # type: ignore[attr-defined]  # a generator
    last = wait_until(lambda: (now := runner.status(handle)) and now.is_terminal() and now, 240)
    assert "lease" in last.msg
