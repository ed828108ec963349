"""Hosts on this machine: each with its own processes, network, name and mounts, and a power switch.

A centre, where servers run, has a link to each of them and one to this machine. Nothing else on this machine
changes, and all of it ends with the tests, even when they are killed: a host's first process ends when its
input does, and with it the kernel ends every other process in there and removes the links.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from daemons import ends, start_daemon

from torchx_core.testing import wait_until

__all__ = ["Host", "Network", "own_folders", "why_no_hosts"]

_ENV = {**os.environ}  # a test's own marks are not in it
_TOOLS = ("unshare", "nsenter", "ip", "mount")


def why_no_hosts() -> str | None:
    """Return why there can be no hosts here, or None when there can be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts of our own need Linux and root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


def own_folders(home: Path, host: str, *parts: str) -> dict[Path, Path | str]:
    """Make folders that this host alone has under these names in `home`; return them as its mounts."""
    mounts: dict[Path, Path | str] = {}
    for part in parts:
        (home / "hosts" / host / part).mkdir(parents=True, mode=0o700)
        (home / part).mkdir(exist_ok=True, mode=0o700)
        mounts[home / part] = home / "hosts" / host / part
    return mounts


class Host:
    """One host; it runs from the moment it is made, and can be switched off and on.

    Args:
        name: Its name, which its processes see.
        mounts: What its processes see in place of files and folders of this machine, by their path;
            ``tmpfs`` is an empty folder of its own.
    """

    def __init__(self, name: str, mounts: Mapping[Path, Path | str]) -> None:
        self.name = name
        self._mounts = [f"{there}={here}" for there, here in mounts.items()]
        self._power: subprocess.Popen[str]
        self.pid = 0
        """Its first process, as this machine numbers it."""
        self.switch_on()

    def switch_on(self) -> None:
        """Start it with no process but its first."""
        token = uuid.uuid4().hex
        # Detached, so that a test which switches the host on again is not blamed for its processes.
        spaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--uts"]
        first = [sys.executable, __file__, token, self.name, *self._mounts]
        self._power = subprocess.Popen(
            ["setsid", "--fork", *spaces, *first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_ENV,
            text=True,
        )
        self._power.wait()
        assert self._power.stdout is not None
        assert self._power.stdout.readline() == "ready\n"
        (self.pid,) = [
            each.pid
            for each in psutil.process_iter(["cmdline"])
            if (each.info["cmdline"] or [])[:3] == first[:3]
        ]

    def switch_off(self) -> None:
        """End it at once with all that runs on it, as when its power fails."""
        if self._power.stdin is None or self._power.stdin.closed:  # it is off
            return
        os.kill(self.pid, signal.SIGKILL)
        self._power.communicate()
        assert ends(self.pid, 60)

    def start(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> int:
        """Start a daemon there, and return its process id on this machine."""
        entered = start_daemon([*self._enter(), *command], env, log)
        (daemon,) = wait_until(lambda: psutil.Process(entered).children(), 60)
        return int(daemon.pid)

    def run(self, *command: str, env: Mapping[str, str] | None = None, check: bool = True) -> str:
        """Run a command there to its end, which must be a good one if `check`, and return what it prints."""
        done = subprocess.run(
            [*self._enter(), *command], env=env, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--pid", "--mount", "--net", "--uts", "--"]


class Network:
    """A centre and hosts around it.

    Args:
        mounts: What the hosts see in place of this machine's files, by the host's name; `CENTRE` is one.
    """

    CENTRE = "centre"

    def __init__(self, mounts: Mapping[str, Mapping[Path, Path | str]]) -> None:
        numbers = random.SystemRandom().sample(range(256), 256)
        self._number = next(n for n in numbers if not Path(f"/sys/class/net/txh{n}").exists())
        self._mounts = mounts
        self._hosts: dict[str, Host] = {}
        self.address = self._address(1)
        """Where every host, and this machine, reaches the centre."""

    def start(self) -> None:
        """Switch everything on."""
        for name, mounts in self._mounts.items():
            self._hosts[name] = Host(name, mounts)
        link = f"txh{self._number}"
        _run(
            "ip",
            "link",
            "add",
            link,
            "type",
            "veth",
            "peer",
            "name",
            "outside",
            "netns",
            str(self.centre.pid),
        )
        _run("ip", "address", "add", self._address(2), "peer", self.address, "dev", link)
        _run("ip", "link", "set", link, "up")
        _give_address(self.centre, "outside", self.address, self._address(2))
        for name in self._hosts:
            self._connect(name)

    def stop(self) -> None:
        """Switch everything off."""
        for host in self._hosts.values():
            host.switch_off()

    @property
    def centre(self) -> Host:
        """The host where servers run."""
        return self._hosts[self.CENTRE]

    def __getitem__(self, name: str) -> Host:
        """Return the host of that name."""
        return self._hosts[name]

    def address_of(self, name: str) -> str:
        """Return where the centre and the host itself reach the host."""
        return self._address(3 + list(self._mounts).index(name))

    def switch_on(self, name: str) -> None:
        """Start a host again that was switched off."""
        self._hosts[name].switch_on()
        self._connect(name)

    def _connect(self, name: str) -> None:
        if name == self.CENTRE:
            return
        host, link = self._hosts[name], f"to-{name}"
        enter = ["nsenter", f"--target={self.centre.pid}", "--net"]
        _run(
            *enter, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid)
        )
        _give_address(self.centre, link, self.address, self.address_of(name))
        _give_address(host, "eth0", self.address_of(name), self.address)

    def _address(self, number: int) -> str:
        return f"10.214.{self._number}.{number}"


def _link(here: str, there: str, host: Host) -> list[str]:
    """Return the command that makes a link to a host; these are the names of its two ends."""
    return ["ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", str(host.pid)]


def _give_address(host: Host, link: str, address: str, peer: str) -> None:
    host.run("ip", "address", "add", address, "peer", peer, "dev", link)
    host.run("ip", "link", "set", link, "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


# --- a host's first process


def _be_first(name: str, mounts: Sequence[str]) -> None:
    """Make the host what it is, and keep it until our input ends."""
    socket.sethostname(name)
    for mount in mounts:
        there, here = mount.split("=")
        kind = ("-t", "tmpfs", "tmpfs") if here == "tmpfs" else ("--bind", here)
        _run("mount", *kind, there)
    _run("ip", "link", "set", "lo", "up")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps what daemons leave to us
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _be_first(sys.argv[2], sys.argv[3:])
