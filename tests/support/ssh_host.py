"""Another host that is reached by ssh: its network, processes, name and state directory are its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from hosts import Host, Network, own_folders, why_no_hosts
from ssh_server import SshServer, why_no_ssh_server

from torchx_core.testing import wait_until

__all__ = ["SshHost", "far_host"]

NAME = "box"
_PATIENCE_S = 240.0


class SshHost(SshServer):
    """A server that runs on the host `box` of a network of the tests' own.

    Args:
        folder: As for `SshServer`.
        home: Where those are who log in; only the host itself sees what is in its ``state``.
        network: The network.
    """

    def __init__(self, folder: Path, home: Path, network: Network) -> None:
        environment = {"HOME": str(home), "TORCHX_STATE_DIR": str(home / "state"), "PATH": os.environ["PATH"]}
        super().__init__(folder, environment, network.address_of(NAME))
        self._network = network
        self._pid = 0

    @property
    def host(self) -> Host:
        """The host."""
        return self._network[NAME]

    def start(self) -> None:
        """Have the host's network and its server answer, perhaps again."""
        centre = self._network.centre
        centre.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        self.host.run("ip", "route", "replace", "default", "via", self._network.address)
        route = ["ip", "route", "replace", self.address, "via", self._network.address]
        subprocess.run(route, check=True)
        self._pid = self.host.start(self.command, dict(os.environ), self.folder / "sshd.log")
        wait_until(self.answers, _PATIENCE_S)

    def stop(self) -> None:
        """Do nothing: the server ends with its host."""

    def sessions(self) -> list[psutil.Process]:
        """Return who is logged in: the server's process for each."""
        return psutil.Process(self._pid).children()

    def cut_cable(self) -> None:
        """Let no packet through any more, and answer none."""
        self._network.centre.run("ip", "link", "set", f"to-{NAME}", "down")

    def mend_cable(self) -> None:
        """Let them through again."""
        self._network.centre.run("ip", "link", "set", f"to-{NAME}", "up")
        address = self._network.address
        self._network.centre.run("ip", "route", "replace", self.address, "dev", f"to-{NAME}", "src", address)
        wait_until(self.answers, _PATIENCE_S)

    def reboot(self) -> None:
        """End all that runs there at once, and start the host with nothing but its server."""
        self.host.switch_off()
        self._network.switch_on(NAME)
        self.start()


@contextmanager
def far_host(root: Path) -> Generator[SshHost]:
    """A host that runs, whose server the client in its `clients` reaches by any name; skip where none can."""
    if reason := why_no_hosts() or why_no_ssh_server("sysctl"):
        pytest.skip(reason)
    folder, home = root / "sshd", root / "home"
    folder.mkdir()
    home.mkdir()
    network = Network({Network.CENTRE: {}, NAME: own_folders(home, NAME, "state")})
    network.start()
    try:
        with SshHost(folder, home, network) as server:
            yield server
    finally:
        network.stop()
