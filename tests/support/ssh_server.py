"""A real sshd of the tests' own on the loopback, for the user who runs them, with keys of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil
import pytest

from torchx_core.testing import wait_until

__all__ = ["SshServer", "serving_ssh", "why_no_ssh_server"]


def why_no_ssh_server(*tools: str) -> str | None:
    """Return why none can be started here, one that has these tools besides; None when it can."""
    missing = [tool for tool in ("ssh", "ssh-keygen", *tools) if shutil.which(tool) is None]
    if not _sshd():
        missing.append("sshd")
    return f"not installed: {', '.join(missing)}" if missing else None


@contextmanager
def serving_ssh(
    environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[SshServer]:
    """A server that the user's configuration knows as `login`; its users' home is empty at first."""
    if (reason := why_no_ssh_server()) is not None:
        pytest.skip(reason)
    folder, home = tmp_path / "sshd", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    with SshServer(folder, {**environment, "HOME": str(home)}) as server:
        monkeypatch.setenv("PATH", str(server.clients), prepend=os.pathsep)
        server.client_configuration.write_text(server.configuration("login"))
        yield server


class SshServer:
    """One server; a context.

    Args:
        folder: Its keys, configuration and log go there; also ``bin/ssh``, to be put first in PATH, a client
            that reads `client_configuration`: ssh itself reads that of the user's real home.
        environment: What those find in their environment who log in.
        address: Where it listens.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], address: str = "127.0.0.1") -> None:
        self.folder = folder
        self.address = address
        self._environment = environment
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.clients = folder / "bin"
        self.client_configuration = folder / "ssh_config"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What leads to it."""
        return f"ssh://{getpass.getuser()}@{self.address}:{self.port}"

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return [_sshd(), "-D", "-e", "-f", str(self.folder / "sshd_config")]

    def __enter__(self) -> Self:
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized_keys")
        _, key, *_ = (self.folder / "host.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[{self.address}]:{self.port} ssh-ed25519 {key}\n")
        self._write_client()
        self._configure()
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def forget_the_key(self) -> None:
        """Refuse every client from now on."""
        (self.folder / "authorized_keys").write_text("")

    def configuration(self, alias: str) -> str:
        """Return what a client's configuration says of the server."""
        lines = [
            f"Host {alias}",
            f"HostName {self.address}",
            f"Port {self.port}",
            f"User {getpass.getuser()}",
            f"IdentityFile {self.folder}/user",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.folder}/known_hosts",
        ]
        return "\n".join(lines) + "\n"

    def start(self) -> None:
        """Listen, perhaps again."""
        log = (self.folder / "sshd.log").open("ab")
        with log:
            self._process = subprocess.Popen(self.command, stderr=log)
        wait_until(self.answers, 600)

    def stop(self) -> None:
        """Listen no more; sessions go on."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def sessions(self) -> list[psutil.Process]:
        """Return who is logged in: the server's process for each."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children()

    def agents(self) -> list[psutil.Process]:
        """Return what was started by those who are logged in."""
        started = (child for process in self._session_processes() for child in _children(process))
        return [child for child in started if not _is_servers(child)]

    def kill_agents(self) -> None:
        """Kill what was started by those who are logged in, with all that it started."""
        _kill([p for agent in self.agents() for p in [agent, *_children(agent, recursive=True)]])

    def cut(self) -> None:
        """Kill every session, as a broken network would end it; what it has started sees its input end."""
        _kill(self._session_processes())

    def go_away(self) -> None:
        """Do both."""
        processes = self._session_processes()
        self.stop()
        _kill(processes)

    def _session_processes(self) -> list[psutil.Process]:
        sessions = self.sessions()
        children = [c for session in sessions for c in _children(session, recursive=True)]
        return [c for c in children if _is_servers(c)] + sessions

    def _write_client(self) -> None:
        self.clients.mkdir()
        client = self.clients / "ssh"
        client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.client_configuration} "$@"\n')
        client.chmod(0o755)
        self.client_configuration.write_text(self.configuration("*"))

    def _configure(self) -> None:
        lines = [
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            f"PidFile {self.folder}/sshd.pid",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "SetEnv " + " ".join(f"{name}={value}" for name, value in self._environment.items()),
        ]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where root's sshd shuts its children in

    def answers(self) -> bool:
        """Return whether it can be reached."""
        try:
            socket.create_connection((self.address, self.port), 1).close()
        except OSError:
            return False
        return True


def _is_servers(process: psutil.Process) -> bool:
    """Return whether it is one of the server's own: of OpenSSH 10 they are called ``sshd-session``."""
    with suppress(psutil.NoSuchProcess):  # it may end at any time, and so may those below
        return process.name().startswith("sshd")
    return False


def _children(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=recursive)
    return []


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _sshd() -> str:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""
