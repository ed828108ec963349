"""Makes the bridge to a scheduler of TorchX, and says what that one is capable of."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, cast

from torchx_core.compat import PREFIX, _torchx
from torchx_core.compat.backend import Backend
from torchx_core.compat.disk import DiskStore
from torchx_core.compat.memory import MemoryStore
from torchx_core.compat.processes import LOCAL_CLASS, ProcessBackend
from torchx_core.compat.records import Store
from torchx_core.compat.remote import RemoteBackend
from torchx_core.compat.scheduler import BridgeScheduler
from torchx_core.errors import SchedulerError
from torchx_core.schedulers import Capabilities
from torchx_core.schedulers.paths import state_root

__all__ = ["KNOWN", "UNKNOWN", "bridged", "factory"]

# All of them: a request to cancel is written down, so a cancelled app is CANCELLED whatever TorchX calls it.
# None of them: reports, gang, deadline and lease need something of ours beside the app. Attempts are not
# told, so retries are not claimed, which Docker, Slurm and Kubernetes do make. TorchX builds workspaces while
# it renders a request, and a dry run here builds nothing. No scheduler there tells when a line was written.

_SERVICE: Final = Capabilities(
    tail=True,
    survives_submitter=True,
    resource_limits=True,
    cancelled_state=True,
    exit_codes=False,
    log_times=False,
    grace_period=False,
)
KNOWN: Final = {
    LOCAL_CLASS: Capabilities(tail=True, cancelled_state=True, log_times=False),
    "torchx.schedulers.docker_scheduler.DockerScheduler": replace(_SERVICE, submit_once=True, mounts=True),
    # not submit_once: a job's number is unknown until sbatch has answered
    "torchx.schedulers.slurm_scheduler.SlurmScheduler": _SERVICE,
    "torchx.schedulers.kubernetes_scheduler.KubernetesScheduler": replace(
        _SERVICE, submit_once=True, mounts=True, separate_streams=False
    ),
}
"""Class of the TorchX scheduler -> its capabilities; subclasses have their base's."""

UNKNOWN: Final = Capabilities(
    cancelled_state=True, exit_codes=False, separate_streams=False, log_times=False, grace_period=False
)
"""Of a scheduler that only its plugin knows: what the bridge does by itself."""


def factory(backend: str) -> Callable[..., BridgeScheduler]:
    """Return the factory of ``torchx:<name>``.

    A call imports TorchX and makes its scheduler, which does no I/O. Parameters other than ``state_dir`` go
    to TorchX's own factory.

    Raises (the factory):
        UnknownSchedulerException: TorchX knows none of that name.
        SchedulerError: TorchX cannot make it.
    """

    def create(session_name: str, *, state_dir: str | None = None, **params: object) -> BridgeScheduler:
        made, store = _make(backend, session_name, state_root(state_dir), params)
        return _class_of(made)(backend, session_name, made, store)

    return create


def bridged(backend: str, session_name: str, made: object, state_dir: str | None) -> object:
    """Return the bridge to a scheduler that was written for TorchX; another object as it is.

    Args:
        backend: Its name here.
        session_name: Of the runner.
        made: What the scheduler's factory returned. A scheduler written for TorchX derives from
            `torchx_core.schedulers.api.Scheduler`, or from TorchX's own class.
        state_dir: Where the bridge keeps its records; None for the usual place.

    Raises:
        SchedulerError: It is TorchX's local scheduler, which knows only the apps that it started itself.
    """
    upstream = cast(_torchx.Upstream, made)
    classes = _torchx.scheduler_classes(upstream)
    if _INTERFACES.isdisjoint(classes):
        return made
    if LOCAL_CLASS in classes:
        # one for each runner: the next would not find an app, and submit it again
        raise SchedulerError(
            f"scheduler {backend!r} is TorchX's local one; name it 'torchx:local_cwd' instead"
        )
    backed = _backend(backend, upstream)
    store = DiskStore(state_root(state_dir), backend, session_name)
    return _class_of(backed)(backend, session_name, backed, store)


_INTERFACES: Final = frozenset({"torchx.schedulers.api.Scheduler", "torchx_core.schedulers.api.Scheduler"})

_KEPT: Final[dict[tuple[int, str, str, str], tuple[Backend, Store]]] = {}
"""TorchX's local schedulers, for as long as this process lives.

Each knows only the apps that it started itself, so there must be one for all runners of a session; and
closing a runner must not end them.
"""
_LOCK = threading.Lock()


def _make(backend: str, session_name: str, root: str, params: Mapping[str, object]) -> tuple[Backend, Store]:
    # by process id as well: what a fork inherits are its parent's apps, not its own
    key = (os.getpid(), backend, session_name, repr(sorted(params.items())))
    with _LOCK:
        if key in _KEPT:
            return _KEPT[key]
        upstream = _torchx.make_scheduler(backend, backend.removeprefix(PREFIX), session_name, params)
        made = _backend(backend, upstream)
        if made.survives:
            return made, DiskStore(root, backend, session_name)
        return _KEPT.setdefault(key, (made, MemoryStore()))


def _backend(backend: str, upstream: _torchx.Upstream) -> Backend:
    classes = _torchx.scheduler_classes(upstream)
    if LOCAL_CLASS in classes:
        return ProcessBackend(backend, upstream)
    apart = capabilities_of(classes).separate_streams
    return RemoteBackend(backend, upstream, streams=("stdout", "stderr") if apart else ("stdout",))


def _class_of(backend: Backend) -> type[BridgeScheduler]:
    claims = capabilities_of(_torchx.scheduler_classes(backend.upstream))

    class Bridge(BridgeScheduler):
        """A bridge that says what its backend can do."""

        capabilities: ClassVar[Capabilities] = claims

    return Bridge


def capabilities_of(classes: Sequence[str]) -> Capabilities:
    """Return the capabilities of a scheduler with these classes, its own first."""
    return next((KNOWN[name] for name in classes if name in KNOWN), UNKNOWN)
