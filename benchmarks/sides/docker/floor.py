"""The floor: the Docker SDK and a pool of threads, with nothing recorded and nothing promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.sides.docker.side import IMAGE

_docker: Any = import_module("docker")  # it has no types

_THREADS = 16


def create(folder: Path) -> Floor:
    """Return it."""
    del folder
    return Floor()


class Floor:
    """``docker.DockerClient`` in many threads."""

    def __init__(self) -> None:
        """Connect."""
        self._client = _docker.from_env(max_pool_size=_THREADS)
        self._pool = ThreadPoolExecutor(_THREADS)
        self._containers: list[Any] = []
        self._networks: list[Any] = []

    def submit(self, command: Sequence[str], replicas: int = 1, *, network: bool = False) -> list[Any]:
        """Create and start in parallel."""
        place: dict[str, str] = {}
        if network:
            self._networks.append(self._client.networks.create(f"floor-{len(self._networks)}"))
            place["network"] = self._networks[-1].name

        def run(_: int) -> object:
            return self._client.containers.run(IMAGE, list(command), detach=True, init=True, **place)

        job = list(self._pool.map(run, range(replicas)))
        self._containers += job
        return job

    def wait(self, job: list[Any]) -> None:
        """Wait in parallel."""
        list(self._pool.map(lambda container: container.wait(), job))

    def cancel(self, job: list[Any], grace_s: int) -> None:
        """Stop in parallel."""
        list(self._pool.map(lambda container: container.stop(timeout=grace_s), job))

    def read(self, job: list[Any]) -> list[str]:
        """Fetch it as a whole."""
        return list(job[0].logs().decode().splitlines())

    def tail(self, job: list[Any]) -> Iterator[Sequence[str]]:
        """Put the pieces together."""
        rest = ""
        for piece in job[0].logs(stream=True, follow=True):
            *lines, rest = (rest + piece.decode()).split("\n")
            yield lines

    def close(self) -> None:
        """Remove in parallel."""
        list(self._pool.map(lambda container: container.remove(force=True, v=True), self._containers))
        for network in self._networks:
            network.remove()
        self._pool.shutdown()
        self._client.close()
