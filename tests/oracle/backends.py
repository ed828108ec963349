"""A driver per backend: what the oracle must know of it, and no promise can say."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError
from docker_engine import DockerEngine, free_number
from docker_images import PYTHON_IMAGE, import_images
from slurm_cluster import running_cluster
from truth import Copy

from torchx_core import Resource, Runner, get_runner
from torchx_core.schedulers import Capabilities
from torchx_core.specs import BindMount
from torchx_core.testing import FakeScheduler

__all__ = ["BACKENDS", "Backend", "DockerBackend"]


class Backend:
    """One backend, started for the whole run where it needs to be."""

    name: str
    scheduler: str
    policies: tuple[str, ...] = ("APPLICATION",)
    exact = False
    """Whether stdout and stderr keep their order."""
    restarts_at_once = False
    """Whether replicas that start again together do so in one moment."""
    doubt_s = 0.0
    """How long it doubts whether a program that died of SIGTERM was told to end."""
    ends_daemons = True
    """Whether it finds what left its replica's session."""
    is_small = False
    """Whether starting a replica takes so long that apps should be small."""
    limit_s = 60.0
    """After how long a call, or an end that must come, counts as hung; on a busy host."""
    settle_s = 0.0
    """How long what an app left behind may live on after its end was told."""
    workers: int | None = None
    """How many trials to run side by side; None for two per core."""

    def start(self, stack: ExitStack, root: Path) -> None:
        """Start what all trials share; it ends with the stack."""

    def environment(self, root: Path) -> dict[str, str]:
        """Return what the trial's processes find in their environment."""
        return {"TORCHX_STATE_DIR": str(root / "state")}

    def runner(self, session: str, root: Path) -> Runner:
        """Return a runner that sees the trial's apps."""
        return get_runner(session, state_dir=str(root / "state"))

    def role(self, truth_dir: Path) -> dict[str, Any]:
        """Return the fields of a role that the backend needs."""
        del truth_dir
        return {"image": ""}

    def cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        """Return the scenario's options as this backend takes them."""
        return cfg

    @property
    def survives_submitter(self) -> bool:
        """Whether the app can be submitted and followed by processes of their own."""
        return self.capabilities().survives_submitter

    def capabilities(self) -> Capabilities:
        """Return what the scheduler promises."""
        return _capabilities(self.scheduler)

    def pid_of(self, copy: Copy, root: Path) -> int:
        """Return the number of a witness's process on this host; 0 when it is gone."""
        del root
        return copy.pid

    def left(self, root: Path, app_id: str) -> list[str]:
        """Return what is still there of a deleted app."""
        return [str(path) for path in (root / "state").rglob("*") if app_id in path.name]

    def clean(self, root: Path, app_id: str, truth: Iterable[Copy]) -> None:
        """End and remove whatever is left of a trial."""
        del app_id, truth
        for pid in _naming(root):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class LocalBackend(Backend):
    """Processes of this host."""

    name = "local_cwd"
    scheduler = "local_cwd"
    policies = ("APPLICATION", "REPLICA", "ROLE")
    exact = True
    restarts_at_once = True


class DockerBackend(Backend):
    """Containers of an engine that is started for the oracle alone."""

    name = "local_docker"
    scheduler = "local_docker"
    policies = ("APPLICATION", "REPLICA", "ROLE")
    is_small = True
    limit_s = 150.0
    workers = 4

    def start(self, stack: ExitStack, root: Path) -> None:
        """Start an engine whose containers outlive it."""
        self.engine = DockerEngine(root / "engine", free_number())
        stack.callback(self.engine.stop)
        self.engine.start("--live-restore")
        self.url = self.engine.url
        with closing(self.client()) as client:
            import_images(client)

    def restart(self, *, kill: bool) -> None:
        """Have the engine end or die, and start it again; what runs goes on."""
        (self.engine.kill if kill else self.engine.terminate)()
        self.engine.start("--live-restore")

    def behind(self, url: str) -> DockerBackend:
        """Return this backend as it is reached by another address."""
        other = copy(self)
        other.url = url
        return other

    def client(self) -> docker.DockerClient:
        """Return a client of the engine, by its own address."""
        return docker.DockerClient(base_url=self.engine.url)

    def environment(self, root: Path) -> dict[str, str]:
        """Name the engine."""
        return {**super().environment(root), "DOCKER_HOST": self.url}

    def runner(self, session: str, root: Path) -> Runner:
        """Name the engine."""
        del root
        return get_runner(session, docker_host=self.url)

    def role(self, truth_dir: Path) -> dict[str, Any]:
        """Let the witness see its script, and write its notes."""
        mount = BindMount(src_path=str(truth_dir), dst_path=str(truth_dir), read_only=False)
        return {"image": PYTHON_IMAGE, "mounts": [mount]}

    def pid_of(self, copy: Copy, root: Path) -> int:
        """Find the process whose number within its container is known."""
        for pid in _naming(root):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                own = words[-3:-1] == [copy.role.encode(), str(copy.replica).encode()]
                inside = next(line for line in status.splitlines() if line.startswith("NSpid")).split()[-1]
                if own and inside == str(copy.pid):
                    return pid
        return 0

    def left(self, root: Path, app_id: str) -> list[str]:
        """Look for containers, volumes and networks."""
        del root
        with closing(self.client()) as client:
            things = [
                *client.containers.list(all=True, ignore_removed=True),
                *client.volumes.list(),
                *client.networks.list(),
            ]
            return [str(thing.name) for thing in things if app_id in str(thing.attrs)]

    def clean(self, root: Path, app_id: str, truth: Iterable[Copy]) -> None:
        """Remove the app's containers first: what uses a volume keeps it."""
        super().clean(root, app_id, truth)
        with closing(self.client()) as client:
            for container in client.containers.list(all=True, ignore_removed=True):
                if app_id in str(container.attrs):
                    container.remove(force=True)
            for thing in [*client.volumes.list(), *client.networks.list()]:
                if app_id in str(thing.attrs):
                    with suppress(APIError):  # an engine that was killed may keep an endpoint of a network
                        thing.remove()


class SlurmBackend(Backend):
    """Jobs of a cluster of four nodes that is started for the oracle alone."""

    name = "slurm"
    scheduler = "slurm"
    doubt_s = 2.0
    ends_daemons = False  # proctrack/linuxproc, which needs no control groups, loses sight of them
    is_small = True
    limit_s = 150.0
    settle_s = 10.0
    workers = 4

    def start(self, stack: ExitStack, root: Path) -> None:
        """Start the cluster; every Slurm command of this process means it."""
        del root
        self.cluster = stack.enter_context(running_cluster())
        stack.enter_context(self.cluster.here())

    def role(self, truth_dir: Path) -> dict[str, Any]:
        """Ask for little, so that many fit."""
        del truth_dir
        return {"image": "", "resource": Resource(cpu=1, gpu=0, memMB=50)}

    def cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        """Let replicas of a role share a node."""
        return {**cfg, "replicas_per_node": 4}


class BridgeBackend(Backend):
    """TorchX's own local scheduler behind the bridge."""

    name = "torchx:local_cwd"
    scheduler = "torchx:local_cwd"
    ends_daemons = False

    def cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        """It has no options for how an app ends."""
        del cfg
        return {}

    def left(self, root: Path, app_id: str) -> list[str]:
        """Its logs are TorchX's."""
        del root, app_id
        return []


class FakeBackend(Backend):
    """The fake scheduler: `fake_trial` runs its trials within the process that asks for them."""

    name = "fake"
    scheduler = "fake"
    policies = ("APPLICATION", "REPLICA", "ROLE")
    exact = True
    restarts_at_once = True
    ends_daemons = False
    workers = 8

    def capabilities(self) -> Capabilities:
        """Return what the fake scheduler promises."""
        return FakeScheduler.capabilities


@cache
def _capabilities(scheduler: str) -> Capabilities:
    with get_runner("oracle") as runner:
        return runner.scheduler(scheduler).capabilities


def _naming(root: Path) -> list[int]:
    """Return the processes that have the trial's folder among their words, but for ourselves."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(root).encode() in (path / "cmdline").read_bytes() and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


BACKENDS: dict[str, type[Backend]] = {
    backend.name: backend
    for backend in (LocalBackend, DockerBackend, SlurmBackend, BridgeBackend, FakeBackend)
}
