"""What goes wrong between this host and a login node: a real sshd says so."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_threads import started_since, threads_now
from ssh_server import SshServer

from torchx_core.errors import SchedulerError
from torchx_core.schedulers import Verdict, ssh
from torchx_core.schedulers.slurm.remote.login_node import find_login_node
from torchx_core.schedulers.slurm.remote.scheduler import RemoteSlurmScheduler
from torchx_core.testing import wait_until


def _scheduler(address: str = "login", python: str = sys.executable) -> RemoteSlurmScheduler:
    node = find_login_node(address, python, {})
    assert node is not None
    return RemoteSlurmScheduler("slurm", "s", node)


def _failure(scheduler: RemoteSlurmScheduler) -> SchedulerError:
    with pytest.raises(SchedulerError) as caught:
        scheduler.list()
    scheduler.close()
    return caught.value


def test_it_works(lonely_node: SshServer) -> None:
    """With the user's own configuration, key and known hosts; nothing is left when it is closed."""
    scheduler = _scheduler()
    assert scheduler.list() == []
    wait_until(lambda: len(lonely_node.sessions()) == 1, 240)
    scheduler.close()
    wait_until(lambda: not lonely_node.sessions(), 240)
    assert list((lonely_node.folder.parent / "home").iterdir()) == []


def test_an_address_in_full(lonely_node: SshServer) -> None:
    """User, host and port; the configuration says what only it can."""
    lines = lonely_node.configuration("127.0.0.1").splitlines()
    kept = [line for line in lines if not line.startswith(("Port", "User "))]
    lonely_node.client_configuration.write_text("\n".join(kept) + "\n")
    scheduler = _scheduler(lonely_node.url)
    assert scheduler.list() == []
    scheduler.close()


def test_a_jump_host(lonely_node: SshServer) -> None:
    """A login node that is reached through another host, as the configuration says."""
    lines = lonely_node.configuration("far") + "ProxyJump hop\n" + lonely_node.configuration("hop")
    lonely_node.client_configuration.write_text(lines)
    scheduler = _scheduler("far")
    assert scheduler.list() == []
    wait_until(lambda: len(lonely_node.sessions()) == 2, 240)
    scheduler.close()
    wait_until(lambda: not lonely_node.sessions(), 240)


def test_a_jump_host_that_falls_silent(lonely_node: SshServer) -> None:
    """Closing leaves no ``ssh`` behind that waits for it; the fixture `no_leaks` looks."""
    lines = lonely_node.configuration("far") + "ProxyJump hop\n" + lonely_node.configuration("hop")
    lonely_node.client_configuration.write_text(lines)
    scheduler = _scheduler("far")
    assert scheduler.list() == []
    silent = [*lonely_node.sessions(), *(c for s in lonely_node.sessions() for c in s.children())]
    for process in silent:
        process.suspend()
    scheduler.close()
    for process in silent:
        process.kill()


def test_a_configuration_for_terminals(lonely_node: SshServer) -> None:
    """What a user has set for his terminals neither fails here nor is done here."""
    taken = f"127.0.0.1:{lonely_node.port}"
    lines = ["SessionType none", "StdinNull yes", "ForkAfterAuthentication yes"]
    lines += ["RequestTTY force", "RemoteCommand top", f"LocalForward {taken} {taken}", "LogLevel DEBUG"]
    with lonely_node.client_configuration.open("a") as file:
        file.write("\n".join([*lines, "ExitOnForwardFailure yes", "ForwardAgent yes", ""]))
    scheduler = _scheduler()
    assert scheduler.list() == []
    scheduler.close()


def test_a_connection_that_the_user_shares(lonely_node: SshServer, tmp_path: Path) -> None:
    """It is used, as where each login asks for a code; it is never opened, nor ended with ours."""
    shared = tmp_path / "shared"
    with lonely_node.client_configuration.open("a") as file:
        file.write(f"ControlMaster auto\nControlPath {shared}\nControlPersist yes\n")
    scheduler = _scheduler()
    assert scheduler.list() == []
    assert not shared.exists()
    scheduler.close()
    with subprocess.Popen(["ssh", "-N", "-M", "-o", "ControlPersist=no", "login"]) as master:
        wait_until(shared.exists, 240)
        lonely_node.forget_the_key()
        scheduler = _scheduler()
        assert scheduler.list() == []
        scheduler.close()
        assert master.poll() is None
        master.terminate()


@pytest.fixture
def agent_socket(tmp_path: Path) -> Iterator[Path]:
    """An ssh agent without keys."""
    address = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", address], stdout=subprocess.DEVNULL) as agent:
        wait_until(lambda: _listens(address), 240)
        yield address
        agent.terminate()


def _listens(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(address)) == 0


def test_a_key_of_the_agent(
    lonely_node: SshServer, agent_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that no file holds any more."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent_socket))
    subprocess.run(["ssh-add", "-q", lonely_node.folder / "user"], check=True)
    (lonely_node.folder / "user").unlink()
    lines = lonely_node.configuration("login").splitlines()
    kept = [line for line in lines if not line.startswith("Identit")]
    lonely_node.client_configuration.write_text("\n".join(kept) + "\n")
    scheduler = _scheduler()
    assert scheduler.list() == []
    scheduler.close()


def test_another_host_key(lonely_node: SshServer) -> None:
    """Nothing is sent to a host that is not the one that is known."""
    known = lonely_node.folder / "known_hosts"
    other = (lonely_node.folder / "user.pub").read_text().split()[1]
    known.write_text(f"{known.read_text().rpartition(' ')[0]} {other}\n")
    error = _failure(_scheduler())
    assert str(error).startswith("cannot trust login node login: Host key verification failed")
    assert "`ssh login`" in str(error)
    assert not error.retryable


def test_a_host_that_is_not_known(lonely_node: SshServer) -> None:
    """It is not trusted either."""
    (lonely_node.folder / "known_hosts").write_text("")
    assert "cannot trust login node login" in str(_failure(_scheduler()))


def test_a_refused_key(lonely_node: SshServer) -> None:
    """Nobody is asked for a password."""
    lonely_node.forget_the_key()
    error = _failure(_scheduler())
    assert str(error).startswith("login node login refuses us: ")
    assert "`ssh login true` must work without a question" in str(error)
    assert not error.retryable


def test_no_such_host() -> None:
    """It may be back later."""
    error = _failure(_scheduler("nobody@nowhere.invalid"))
    assert str(error).startswith("cannot reach login node nobody@nowhere.invalid: ")
    assert error.retryable


def test_nobody_listens(lonely_node: SshServer) -> None:
    """The error names the login node and is worth a retry: the node may come back."""
    lonely_node.stop()
    error = _failure(_scheduler())
    assert str(error).startswith("cannot reach login node login: ")
    assert error.retryable
    lonely_node.start()


def test_a_configuration_that_is_none(lonely_node: SshServer) -> None:
    """The words of ssh are in the error."""
    lonely_node.client_configuration.write_text("Host login\nPort many\n")
    error = _failure(_scheduler())
    assert str(error).startswith("cannot reach login node login: ssh says: ")
    assert "line 2: " in str(error)
    assert not error.retryable


def test_two_that_cannot_negotiate(lonely_node: SshServer) -> None:
    """No later attempt would mend that; the error has the reason, and what the other side offers."""
    with lonely_node.client_configuration.open("a") as file:
        file.write("Ciphers 3des-cbc\n")
    error = _failure(_scheduler())
    assert "no matching cipher found" in str(error)
    assert not error.retryable


def test_a_configuration_with_an_old_option(lonely_node: SshServer) -> None:
    """It is mentioned by ssh each time, and is not the reason why a login node is away."""
    with lonely_node.client_configuration.open("a") as file:
        file.write("RSAAuthentication yes\n")
    scheduler = _scheduler()
    assert scheduler.list() == []
    scheduler.close()
    lonely_node.stop()
    assert _failure(_scheduler()).retryable
    lonely_node.start()


def test_a_jump_host_that_refuses_us(lonely_node: SshServer) -> None:
    """The error says which of the hosts it was; the last thing ssh says is about the other one."""
    hop = lonely_node.configuration("hop").replace("IdentityFile ", "IdentityFile /nowhere")
    lines = lonely_node.configuration("far") + "ProxyJump hop\n" + hop
    lonely_node.client_configuration.write_text(lines)
    error = _failure(_scheduler("far"))
    assert "Permission denied (" in str(error)
    assert not error.retryable


def test_an_old_python_there(lonely_node: SshServer, tmp_path: Path) -> None:
    """However the end of its channel comes about, it is named, and no retry is worth while."""
    del lonely_node
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"python": "3.9.1"}\'\nexec cat >/dev/null\n')
    python.chmod(0o755)
    for _ in range(20):
        error = _failure(_scheduler(python=str(python)))
        assert "is Python 3.9.1; name a Python" in str(error)
        assert not error.retryable


def test_no_python_there(lonely_node: SshServer) -> None:
    """The login node's shell says so."""
    del lonely_node
    error = _failure(_scheduler(python="python9"))
    assert "login node login: 'python9' did not run (exit code 127); it says: " in str(error)
    assert "TORCHX_SLURM_SSH_PYTHON" in str(error)


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 137"])
def test_a_python_that_is_killed_there(lonely_node: SshServer, tmp_path: Path, end: str) -> None:
    """The error may be gone with the next try, and blames no Python: the login node was short of memory."""
    del lonely_node
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{end}\n")
    python.chmod(0o755)
    error = _failure(_scheduler(python=str(python)))
    assert error.retryable
    assert "name a Python" not in str(error)


def test_a_login_node_that_falls_silent(lonely_node: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose power was cut: it is noticed, and the question is put through another connection."""
    monkeypatch.setattr(ssh, "_ALIVE_S", 1)
    scheduler = _scheduler()
    assert scheduler.list() == []
    silent = [*lonely_node.sessions(), *(c for s in lonely_node.sessions() for c in s.children())]
    for process in silent:
        process.suspend()
    assert scheduler.list() == []
    scheduler.close()
    for process in silent:
        process.kill()


def test_a_doctor_finds_it(lonely_node: SshServer) -> None:
    """First the way there, then what is there."""
    scheduler = _scheduler()
    found = scheduler.diagnose()
    assert [(finding.subject, finding.verdict) for finding in found] == [
        ("login node", Verdict.OK),
        ("slurm", Verdict.PROBLEM),
    ]
    assert found[1].advice == "`ssh login sbatch --version` must work"
    lonely_node.forget_the_key()
    lonely_node.cut()
    (problem,) = scheduler.diagnose()
    assert (problem.subject, problem.verdict) == ("login node", Verdict.PROBLEM)
    scheduler.close()


def test_a_fork_logs_in_by_itself(lonely_node: SshServer) -> None:
    """Two processes never speak through one connection."""
    scheduler = _scheduler()
    assert scheduler.list() == []
    child = os.fork()
    if not child:
        code = 1
        try:
            assert scheduler.list() == []
            wait_until(lambda: len(lonely_node.sessions()) == 2, 240)
            code = 0
            scheduler.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scheduler.list() == []
    wait_until(lambda: len(lonely_node.sessions()) == 1, 240)
    scheduler.close()


def test_the_thread_ends_with_the_last_user(lonely_node: SshServer) -> None:
    """One thread serves all users, however many there are."""
    del lonely_node
    before = threads_now()
    first, second = _scheduler(), _scheduler()
    first.list()
    second.list()
    assert [name for name in started_since(before) if "torchx" in name] == ["torchx-slurm-ssh"]
    first.close()
    assert second.list() == []
    second.close()
    wait_until(lambda: not started_since(before), 240)  # the one that has reaped `ssh` may be on its way out


_LEAVE = """
import sys
from torchx_core import get_runner
get_runner(slurm_ssh="login", slurm_ssh_python=sys.executable).list("slurm")
"""


def test_whoever_closes_nothing_leaves_nothing(lonely_node: SshServer) -> None:
    """A process that just ends has no complaint and no agent."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", _LEAVE], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    wait_until(lambda: not lonely_node.sessions(), 240)


def test_a_host_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which program is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    error = _failure(_scheduler())
    assert str(error).startswith("cannot reach login node login: cannot start `ssh`: ")
    assert not error.retryable
