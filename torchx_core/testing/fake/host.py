"""Where fake apps live: in this process's memory, as long as this object."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import cast

from torchx_core.runner import Runner
from torchx_core.schedulers import Scheduler
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor.plan import ReplicaPlan
from torchx_core.testing.clock import FakeClock
from torchx_core.testing.fake.app import FakeApp
from torchx_core.testing.fake.scheduler import FakeScheduler
from torchx_core.testing.steps import Step, read_step

__all__ = ["FakeHost", "fake_runner"]

ENTRYPOINT = "fake"


def fake_runner(
    name: str = "torchx",
    *,
    backend: str = "fake",
    scripts: Mapping[str, Sequence[str]] | None = None,
    clock: Callable[[], float] = time.time,
) -> Runner:
    r"""Return a runner for the session `name` that has one scheduler, a fake one; see `FakeHost`.

    Example:
        >>> from torchx_core import AppDef, Role
        >>> runner = fake_runner()
        >>> role = Role(name="hello", image="", entrypoint="fake", args=["print:hi", "exit:3"])
        >>> handle = runner.run(AppDef("demo", [role]), "fake")
        >>> list(runner.log_lines(handle, "hello", should_tail=True))
        ['hi\n']
        >>> runner.wait(handle).roles[0].replicas[0].exit_code
        3
    """
    return Runner(name, {backend: FakeHost(backend=backend, scripts=scripts, clock=clock).scheduler})


class FakeHost:
    """Apps that only pretend to run, deterministically: each look at one lets it move on by one step.

    A role whose entrypoint is ``fake`` does what its arguments say, for example ``print:hello``, ``exit:3``,
    ``hold`` (see `torchx_core.testing.steps`). A role that `scripts` names does what is said there, whatever
    its entrypoint. Any other role succeeds and prints nothing.

    All runners and sessions that use the same host see the same apps:
    ``Runner("mine", {"fake": host.scheduler})``.
    """

    def __init__(
        self,
        *,
        backend: str = "fake",
        scripts: Mapping[str, Sequence[str]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Start without apps.

        Args:
            backend: The scheduler's name; ``local_cwd`` to stand in for that one.
            scripts: Role name -> its steps.
            clock: The time in seconds since the epoch, for limits and events; a `FakeClock` to move by hand.
        """
        self.backend = backend
        self.clock = clock
        self.lock: AbstractContextManager[bool | None] = RLock()
        self.apps: dict[tuple[str, str], FakeApp] = {}
        self._scripts = dict(scripts or {})
        self._listeners: list[Callable[[], None]] = []
        if isinstance(clock, FakeClock):
            clock.watch(self.ring)

    def scheduler(self, session_name: str, **_params: object) -> Scheduler[object]:
        """Return a scheduler of this host: a factory as `Runner` takes it."""
        return cast("Scheduler[object]", FakeScheduler(self, session_name))

    def create(self, record: AppRecord) -> FakeApp:
        """Return a new app, which has not begun."""
        return FakeApp(record, [self.script(replica) for replica in record.plan.replicas], self.clock)

    def script(self, replica: ReplicaPlan) -> list[Step]:
        """Return what the replica does.

        Raises:
            ValueError: A step cannot be read.
        """
        entrypoint, *args = replica.argv
        words = self._scripts.get(replica.role, args if entrypoint == ENTRYPOINT else ())
        return [read_step(word) for word in words]

    def has(self, app: FakeApp) -> bool:
        """Return whether the app has not been deleted."""
        return app in self.apps.values()

    def ring(self) -> None:
        """Wake everybody who waits: something came from outside (a cancel, a delete, the clock)."""
        with self.lock:
            for listener in self._listeners:
                listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever something happens."""
        with self.lock:
            self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Do not call it any more."""
        with self.lock:
            self._listeners.remove(listener)
