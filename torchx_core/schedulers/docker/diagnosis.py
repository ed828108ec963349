"""Looks at the engine: whether it answers, and what of this scheduler's promises it cannot keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchx_core.errors import TorchXError
from torchx_core.schedulers import Finding, Verdict
from torchx_core.schedulers.docker.answers import Json
from torchx_core.schedulers.docker.client import Engine

__all__ = ["diagnose"]


def diagnose(connect: Callable[[], Engine]) -> list[Finding]:
    """Return what was found; see `Scheduler.diagnose`."""
    try:
        engine = connect()
        info = engine.info()
    except TorchXError as err:
        advice = "start the engine, or name another by DOCKER_HOST or a Docker context"
        return [Finding(subject="engine", verdict=Verdict.WARNING, text=str(err), advice=advice)]
    text = f"{info.get('ServerVersion')} at {engine.endpoint}"
    return [Finding(subject="engine", verdict=Verdict.OK, text=text), *_abilities(info)]


def _abilities(info: Json) -> Iterator[Finding]:
    limits = bool(info.get("MemoryLimit")) and bool(info.get("CpuCfsQuota"))
    yield Finding(
        subject="limits",
        verdict=Verdict.OK if limits else Verdict.WARNING,
        text="memory and cores" if limits else "the host's kernel cannot limit memory or cores",
    )
    live = bool(info.get("LiveRestoreEnabled"))
    yield Finding(
        subject="live restore",
        verdict=Verdict.OK if live else Verdict.ABSENT,
        text="apps survive a restart of the engine" if live else "a restart of the engine ends its apps",
        advice="" if live else "set live-restore in the engine's daemon.json",
    )
