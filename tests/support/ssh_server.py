"""A real sshd of the tests' own on the loopback, for the user who runs them, with keys of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Self

from torchx_core.testing import wait_until

__all__ = ["SshServer", "why_no_ssh_server"]


def why_no_ssh_server() -> str | None:
    """Return why none can be started here, or None when one can."""
    missing = [tool for tool in ("ssh", "ssh-keygen", "docker") if shutil.which(tool) is None]
    if not _sshd():
        missing.append("sshd")
    return f"not installed: {', '.join(missing)}" if missing else None


class SshServer:
    """One server; a context.

    Args:
        folder: Its keys, configuration and log go there; also ``bin/ssh``, a client that knows the server and
            has the right key, to be put first in PATH: ssh reads the configuration of the user's real home.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.clients = folder / "bin"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What leads to it."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized_keys")
        _, key, *_ = (self.folder / "host.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} ssh-ed25519 {key}\n")
        self._write_client()
        self._start()
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def forget_the_key(self) -> None:
        """Refuse every client from now on."""
        (self.folder / "authorized_keys").write_text("")

    def _write_client(self) -> None:
        self.clients.mkdir()
        client = self.clients / "ssh"
        client.write_text(
            f"#!/bin/sh\nexec {shutil.which('ssh')} -F none -i {self.folder}/user -o IdentitiesOnly=yes"
            f' -o IdentityAgent=none -o UserKnownHostsFile={self.folder}/known_hosts "$@"\n'
        )
        client.chmod(0o755)

    def _start(self) -> None:
        docker = Path(shutil.which("docker") or "docker").parent
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            f"PidFile {self.folder}/sshd.pid",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            f"SetEnv PATH={docker}:/usr/bin:/bin",
        ]
        config = self.folder / "sshd_config"
        config.write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where root's sshd shuts its children in
        log = (self.folder / "sshd.log").open("wb")
        with log:
            self._process = subprocess.Popen([_sshd(), "-D", "-e", "-f", config], stderr=log)
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except ConnectionRefusedError:
            return False
        return True


def _sshd() -> str:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""
