"""A real Docker Engine of the tests' own, apart from any other, and gone without a trace afterwards.

It has a folder, a socket and a network namespace of its own, so bridges and firewall rules of this host stay
as they are. A keeper process, which is this file, holds the namespace and the reading end of a pipe: when the
pipe closes, because the tests are over or because they were killed, it removes the engine and what is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["DockerEngine", "free_number", "why_no_engine"]

_START_TIMEOUT_S = 600.0
_STOP_TIMEOUT_S = 30.0
_TOOLS = ("dockerd", "containerd", "runc", "iptables", "ip", "busybox")
_PR_SET_CHILD_SUBREAPER = 36
_MARKER = "TORCHX_CORE_TEST"


def why_no_engine() -> str | None:
    """Return why no engine can be started here, or None when one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a Docker Engine of our own needs Linux and root"
    missing = [tool for tool in _TOOLS if shutil.which(tool, path=_path()) is None]
    if missing:
        return f"not installed: {', '.join(missing)}; `make docker-engine` installs them on Debian"
    return None


def free_number() -> int:
    """Return a number that no engine of these tests on this host has, and none is likely to take just now."""
    numbers = random.SystemRandom().sample(range(256), 256)
    return next(n for n in numbers if not Path(f"/sys/class/net/txd{n}").exists())


class DockerEngine:
    """One engine; `stop` is final, `terminate`, `kill` and `start` are what a test may do to it.

    Args:
        root: Folder for everything of the engine; short, because sockets lie in it.
        number: From 0 to 255, unlike that of any other engine on this host: chooses its address.
    """

    def __init__(self, root: Path, number: int) -> None:
        self.root = root
        self._link = f"txd{number}"
        self._subnet = f"10.213.{number}"
        self.address = f"{self._subnet}.1"
        """Where this host reaches the engine's published ports."""
        self.host_address = f"{self._subnet}.2"
        """Where the engine reaches this host."""
        self._keeper: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """What ``DOCKER_HOST`` is for it."""
        return f"unix://{self.root}/engine.sock"

    @property
    def log(self) -> str:
        """What the engine has logged."""
        return (self.root / "engine.log").read_text()

    def start(self, *options: str) -> None:
        """Start the engine, the first time or again, and wait until it answers."""
        if self._keeper is None:
            self._keeper = self._start_keeper()
        self._tell(self._keeper, " ".join(["dockerd", *self._options(), *options]))
        self._wait_until_it_answers()

    def _start_keeper(self) -> subprocess.Popen[str]:
        self.root.mkdir(parents=True)
        # Detached, so that a test which restarts the engine is not blamed for the new process.
        command = ["setsid", "--fork", "unshare", "--net", sys.executable, __file__, str(self.root)]
        env = {**_env(), "TMPDIR": str(self.root)}  # a containerd that ends slowly leaves its stacks there
        keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True, bufsize=1
        )
        keeper.wait()
        pid = self._tell(keeper, "ip link set lo up")
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _run("ip", "address", "add", f"{self.host_address}/24", "dev", self._link)
        _run("ip", "link", "set", self._link, "up")
        self._tell(keeper, f"ip address add {self.address}/24 dev eth0")
        self._tell(keeper, "ip link set eth0 up")
        return keeper

    @staticmethod
    def _tell(keeper: subprocess.Popen[str], command: str) -> str:
        """Have the keeper start the command, and wait for its end unless it is the engine.

        Returns:
            The keeper's process id.
        """
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.write(command + "\n")
        return keeper.stdout.readline().strip()

    def _options(self) -> list[str]:
        return [
            f"--host={self.url}",
            f"--data-root={self.root}/data",
            f"--exec-root={self.root}/exec",
            f"--pidfile={self.root}/engine.pid",
            f"--insecure-registry={self._subnet}.0/24",
        ]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            assert time.monotonic() < deadline, f"the engine does not start: {self.log[-2000:]}"
            select.select([], [], [], 0.02)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(f"{self.root}/engine.sock")
                client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 OK" in client.recv(1024)
            except OSError:  # not there yet, or not any more
                return False

    @property
    def pid(self) -> int:
        """The engine's process."""
        return int((self.root / "engine.pid").read_text())

    def terminate(self) -> None:
        """Ask the engine to end and wait; without ``--live-restore`` it ends its containers."""
        _end(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the engine's process, with which containerd dies; the containers live on."""
        pids = [self.pid, int((self.root / "exec/containerd/containerd.pid").read_text())]
        for pid in pids:
            _end(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End everything and remove it; may be called more than once."""
        if self._keeper is not None:
            self._keeper.communicate(timeout=2 * _STOP_TIMEOUT_S)  # the keeper closes its end when it is done
            self._keeper = None


# --- the keeper


def _keep(root: Path) -> None:
    """Start what we are told to, until nobody is there any more to tell."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, lambda *_: _reap())  # an engine takes a zombie for a living containerd
    log = os.open(root / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for line in sys.stdin:
        command = line.split()
        _reap()
        if command[0] == "dockerd":
            files = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
            os.posix_spawnp("dockerd", command, os.environ, file_actions=files, setsid=True)
        else:
            subprocess.run(command, check=False, stdout=log, stderr=log)
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
    _clean(root)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _clean(root: Path) -> None:
    """End every process of the engine and remove its mounts and files; its network ends with the keeper."""
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while (pids := _processes_of(root)) and time.monotonic() < deadline:
        for pid in pids:
            _end(pid, signal.SIGKILL)
    while root.exists() and time.monotonic() < deadline:  # a mount point may be busy for a moment
        for mount in reversed(_mounts_below(root)):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(root, ignore_errors=True)


def _processes_of(root: Path) -> list[int]:
    """Return the engine, containerd, the shims and what runs in the containers, in this order."""
    shims = [pid for pid in _pids() if str(root).encode() in _read(f"/proc/{pid}/cmdline")]
    inside = [
        pid for pid in _pids() if f"{root}/".encode() in _read(f"/proc/{pid}/mountinfo").split(b"\n")[0]
    ]
    return list(dict.fromkeys([pid for pid in shims + inside if pid != os.getpid()]))


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # the process is gone
        return b""


def _mounts_below(root: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted(point for point in points if point.startswith(f"{root}/"))


def _end(pid: int, number: signal.Signals) -> None:
    """Send the signal and wait until the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(fd, number)
            select.select([fd], [], [], _STOP_TIMEOUT_S)
        finally:
            os.close(fd)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, env=_env(), capture_output=True)


def _env() -> dict[str, str]:
    """Return an environment that finds the tools and does not carry a test's marker."""
    return {**{name: value for name, value in os.environ.items() if name != _MARKER}, "PATH": _path()}


def _path() -> str:
    return f"/usr/sbin:/sbin:{os.environ['PATH']}"


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
