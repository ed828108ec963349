"""The peer: TorchX's own `local_docker`, used as its documentation says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.sides.docker.side import IMAGE

# By name: TorchX is installed in the peer's environment only, so no type checker of ours finds it.
_runner = import_module("torchx.runner")
_specs = import_module("torchx.specs")
_docker: Any = import_module("docker")

_TUNED_S = 0.01


def create(folder: Path) -> Peer:
    """Return it."""
    del folder
    return Peer()


class Peer:
    """TorchX's runner."""

    def __init__(self) -> None:
        """Make a runner."""
        self._runner = _runner.get_runner()

    def submit(self, command: Sequence[str], replicas: int = 1, *, network: bool = False) -> str:
        """Run an app of one role, on the network that TorchX puts everything on."""
        del network
        program, *args = command
        role = _specs.Role(name="w", image=IMAGE, entrypoint=program, args=args, num_replicas=replicas)
        return str(self._runner.run(_specs.AppDef(name="bench", roles=[role]), "local_docker"))

    def wait(self, job: str) -> None:
        """Wait, polling as often as makes sense."""
        self._runner.wait(job, wait_interval=_TUNED_S)

    def cancel(self, job: str, grace_s: int) -> None:
        """Cancel; the grace period is Docker's, 10 s, and each container's turn comes after the other's."""
        del grace_s
        self._runner.cancel(job)
        self.wait(job)

    def read(self, job: str) -> list[str]:
        """Read the log; there is one way."""
        return [line.rstrip("\n") for line in self._runner.log_lines(job, "w", 0)]

    def tail(self, job: str) -> Iterator[Sequence[str]]:
        """Tail."""
        for line in self._runner.log_lines(job, "w", 0, should_tail=True):
            yield (line.rstrip("\n"),)

    def close(self) -> None:
        """Remove what TorchX leaves: its containers and its network."""
        self._runner.close()
        client = _docker.from_env()
        for container in client.containers.list(all=True, filters={"label": "torchx.pytorch.org/app-id"}):
            container.remove(force=True, v=True)
        client.networks.prune()
        client.close()
