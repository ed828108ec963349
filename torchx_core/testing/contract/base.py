"""What the author of a scheduler says about it, and what all parts of the contract share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, TypeAlias

import pytest

from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent, Batch, LogLine, LogLines, StateChanged
from torchx_core.specs import AppDef, AppState, AppStatus, CfgVal, RetryPolicy, Role
from torchx_core.testing.program import python_program
from torchx_core.testing.steps import Hold, Print, Step
from torchx_core.testing.wait import wait_until

__all__ = ["UP", "ContractBase", "NewRunner", "each_event", "each_line", "in_order", "replicas_of", "texts"]

NewRunner: TypeAlias = Callable[[], Runner]

UP = "up"
"""The line by which a test's program says that it has started."""


class ContractBase:
    """Hooks to override, and helpers; holds no test."""

    __test__: ClassVar[bool] = False

    backend: ClassVar[str]
    """The scheduler's name in the runner."""
    image: ClassVar[str] = ""
    """The image of every role; it has ``/bin/sh`` and ``cat`` where the scheduler claims ``workspaces``."""
    cfg: ClassVar[Mapping[str, CfgVal]] = {}
    """Options of every submit."""
    retry_policies: ClassVar[tuple[RetryPolicy, ...]] = tuple(RetryPolicy)
    """The policies that the scheduler supports, when it claims ``retries``."""
    short_s: ClassVar[float] = 0.5
    """A short time that the scheduler can still keep: grace period, deadline, lease."""
    patience_s: ClassVar[float] = 30.0
    """How long a test waits for something that must happen."""
    reached_by: ClassVar[frozenset[str]] = frozenset()
    """Variables by which a submitter reaches the backend; they stay as they are in other surroundings."""

    not_sampled: ClassVar[frozenset[str]] = frozenset()
    """Fields of `Usage` that are not known while an app runs, where the scheduler claims ``usage``."""

    @pytest.fixture
    def new_runner(self) -> NewRunner:
        """Override: return what makes a runner, each time a new one, all on the same backend and session.

        The session is the test's own and starts empty. Where the scheduler claims ``survives_submitter`` the
        callable can be pickled.
        """
        raise NotImplementedError(f"{type(self).__name__} must define the fixture 'new_runner'")

    def program(self, *steps: Step) -> tuple[str, list[str]]:
        """Return entrypoint and arguments that carry out the steps; override where no ``python3`` is."""
        return python_program(*steps)

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Have pytest collect the class that an author derives."""
        super().__init_subclass__(**kwargs)
        cls.__test__ = bool(cls.__dict__.get("__test__", True))

    @pytest.fixture
    def runner(self, new_runner: NewRunner) -> Iterator[Runner]:
        """Yield a runner; afterwards cancel and delete every app of its session."""
        with new_runner() as runner:
            yield runner
            for app in runner.list(self.backend):
                runner.cancel(app.app_handle, grace_s=0, reason="end of the test")
            for app in runner.list(self.backend):
                runner.wait(app.app_handle, timeout_s=self.patience_s)
                runner.delete(app.app_handle)

    @pytest.fixture
    def other(self, new_runner: NewRunner) -> Iterator[Runner]:
        """Yield a second runner, as another process has one."""
        with new_runner() as runner:
            yield runner

    def needs(self, runner: Runner, capability: str) -> None:
        """Skip the test unless the scheduler claims the capability."""
        if not self.claims(runner, capability):
            pytest.skip(f"{self.backend} does not claim {capability}")

    def claims(self, runner: Runner, capability: str) -> bool:
        """Return whether the scheduler claims the capability."""
        return bool(getattr(runner.scheduler(self.backend).capabilities, capability))

    def code(self, runner: Runner, exit_code: int) -> int | None:
        """Return the exit code, as far as the scheduler tells any."""
        return exit_code if self.claims(runner, "exit_codes") else None

    def role(
        self,
        name: str,
        *steps: Step,
        num_replicas: int = 1,
        max_retries: int = 0,
        retry_policy: RetryPolicy = RetryPolicy.APPLICATION,
    ) -> Role:
        """Return a role that carries out the steps."""
        entrypoint, args = self.program(*steps)
        return Role(
            name=name,
            image=self.image,
            entrypoint=entrypoint,
            args=args,
            num_replicas=num_replicas,
            max_retries=max_retries,
            retry_policy=retry_policy,
        )

    def app(self, *steps: Step, num_replicas: int = 1) -> AppDef:
        """Return an app whose only role, ``worker``, carries out the steps."""
        return AppDef("contract", [self.role("worker", *steps, num_replicas=num_replicas)])

    def run(
        self, runner: Runner, app: AppDef, app_id: str | None = None, cfg: Mapping[str, CfgVal] | None = None
    ) -> str:
        """Submit the app and return its handle."""
        return runner.run(app, self.backend, {**self.cfg, **(cfg or {})}, app_id=app_id)

    def hold(self, runner: Runner, *, ignore_term: bool = False) -> str:
        """Submit an app that stays until it is told to end; return its handle once its program is up."""
        app = self.app(Print(UP), Hold(ignore_term=ignore_term))
        handle = self.run(runner, app)
        if runner.scheduler(self.backend).capabilities.tail:
            next(line for line in each_line(runner.follow(handle)) if line.text == UP)
        else:
            wait_until(lambda: self.state(runner, handle) == AppState.RUNNING, self.patience_s)
        return handle

    def state(self, runner: Runner, handle: str) -> AppState:
        """Return the app's state; there is such an app."""
        status = runner.status(handle)
        assert status is not None
        return status.state

    def end(self, runner: Runner, handle: str) -> AppStatus:
        """Wait for the app's end and return its status; there is such an app."""
        status = runner.wait(handle, timeout_s=self.patience_s)
        assert status is not None
        return status


def each_line(batches: Iterable[Batch]) -> Iterator[LogLine]:
    """Yield every line."""
    for batch in batches:
        yield from batch.lines()


def texts(batches: Iterable[Batch]) -> list[str]:
    """Return the text of every line."""
    return [line.text for line in each_line(batches)]


def each_event(batches: Iterable[Batch]) -> Iterator[AppEvent | LogLine]:
    """Yield every event, lines one at a time."""
    for batch in batches:
        for event in batch.events:
            if isinstance(event, LogLines):
                yield from event.each()
            else:
                yield event


def in_order(batches: Iterable[Batch]) -> dict[tuple[object, ...], list[AppEvent | LogLine]]:
    """Sort the events by what has an order of its own: the app, each replica, each of its two streams.

    Across replicas a backend may not know which came first, so two readings may differ there.
    """
    orders: dict[tuple[object, ...], list[AppEvent | LogLine]] = {}
    for event in each_event(batches):
        if isinstance(event, StateChanged):
            key: tuple[object, ...] = ()
        elif isinstance(event, LogLine):
            key = (event.role, event.replica, event.stream)
        else:
            key = (event.role, event.replica)
        orders.setdefault(key, []).append(event)
    return orders


def replicas_of(status: AppStatus) -> list[tuple[str, int, AppState, int | None]]:
    """Return role, number, state and exit code of every replica."""
    return [(role.role, r.id, r.state, r.exit_code) for role in status.roles for r in role.replicas]
