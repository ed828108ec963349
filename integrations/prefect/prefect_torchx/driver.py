"""Carries out what a procedure asks for: one driver blocks, the other one awaits. Knows no Prefect.

What happens to an app is told once, in a generator: it makes the quick calls itself, blocking, and yields an
effect for everything that takes its time. So only the waiting is written twice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeAlias, TypeVar, cast

from prefect_torchx.off_loop import in_daemon_thread, undisturbed
from torchx_core.errors import SchedulerError
from torchx_core.launch import Patience
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch
from torchx_core.specs import AppHandle

__all__ = [
    "ASYNC_BATCH_BYTES",
    "TICK_S",
    "Effect",
    "Follow",
    "Pause",
    "Procedure",
    "adrive",
    "drive",
    "patiently",
]

TICK_S = 0.2
"""How long a reason to stop may go unnoticed."""
ASYNC_BATCH_BYTES = 1 << 16
"""What is shown in one go, while the event loop stands still."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Follow an app to its end."""

    handle: AppHandle
    cursor: str | None = None
    logs: bool = True
    take: Callable[[Batch], bool]
    """Gets every batch, one at least every `TICK_S`, and says whether to go on. Quick, and never blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait."""

    seconds: float


Effect: TypeAlias = Follow | Pause
Procedure: TypeAlias = Generator[Effect, None, T]
"""Yields effects and returns what comes of them. What goes wrong with one is raised where it was yielded."""


def drive(procedure: Procedure[T], runner: Runner, look: Callable[[], None]) -> T:
    """Carry out the procedure while the caller's thread waits.

    The procedure's own steps, and what takes batches, run in daemon threads: an exception that strikes the
    caller's thread, as a signal's or a timeout's, leaves nothing half done.

    Args:
        procedure: What to do.
        runner: Whom to ask for batches.
        look: Called at least every `TICK_S` while something is waited for. What it raises ends the procedure.
    """
    error: Exception | None = None
    while True:
        step = undisturbed(_advance, procedure, error)
        if isinstance(step, _End):
            return step.value
        error = None
        try:
            _carry_out(step, runner, look)
        except Exception as err:  # noqa: BLE001  (the procedure knows what to make of it, or raises it again)
            error = err


async def adrive(procedure: Procedure[T], runner: Runner, look: Callable[[], None]) -> T:
    """Do what `drive` does on an event loop."""
    error: Exception | None = None
    while True:
        step = await in_daemon_thread(_advance, procedure, error)
        if isinstance(step, _End):
            return step.value
        error = None
        try:
            await _acarry_out(step, runner, look)
        except Exception as err:  # noqa: BLE001  (likewise)
            error = err


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    value: T


def _advance(procedure: Procedure[T], error: Exception | None) -> Effect | _End[T]:
    """Return the next effect; the end as a value, because no StopIteration can leave a thread."""
    try:
        return next(procedure) if error is None else procedure.throw(error)
    except StopIteration as stop:
        return _End(cast("T", stop.value))


def _carry_out(effect: Effect, runner: Runner, look: Callable[[], None]) -> None:
    if isinstance(effect, Pause):
        until = monotonic() + effect.seconds
        pause = threading.Event()
        while (left := until - monotonic()) > 0:
            look()
            pause.wait(min(left, TICK_S))
        return
    batches = runner.follow(effect.handle, effect.cursor, logs=effect.logs, tick_s=TICK_S)
    with closing(cast("Generator[Batch]", batches)):
        for batch in batches:
            if not undisturbed(effect.take, batch):
                return
            look()


async def _acarry_out(effect: Effect, runner: Runner, look: Callable[[], None]) -> None:
    if isinstance(effect, Pause):
        until = monotonic() + effect.seconds
        while (left := until - monotonic()) > 0:
            look()
            await asyncio.sleep(min(left, TICK_S))
        return
    # Opening a stream may ask the backend.
    batches = await in_daemon_thread(
        runner.afollow,
        effect.handle,
        effect.cursor,
        logs=effect.logs,
        tick_s=TICK_S,
        batch_bytes=ASYNC_BATCH_BYTES,
    )
    async with aclosing(cast("AsyncGenerator[Batch]", batches)):
        async for batch in batches:
            if not await in_daemon_thread(effect.take, batch):
                return
            look()


def patiently(
    phase: Callable[[], Procedure[T]], patience: Patience, say: Callable[[str], None]
) -> Procedure[T]:
    """Run a phase again from its start while its scheduler is away; whatever it submits it submits once.

    Raises:
        SchedulerError: The failure does not pass, or has lasted too long.
    """
    while True:
        try:
            return (yield from phase())
        except SchedulerError as err:
            delay_s = patience.delay_after(err)
            say(f"the scheduler does not answer, asking again in {delay_s:g} s: {err}")
        yield Pause(seconds=delay_s)
