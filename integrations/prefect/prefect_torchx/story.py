"""Carries out what a story wishes for: one driver blocks, the other one awaits. Knows no Prefect.

What happens to an app is told once, in a generator: it makes the quick calls itself, blocking, and yields a
wish for everything that takes its time. So only the waiting is written twice.
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

__all__ = ["ASYNC_BATCH_BYTES", "TICK_S", "Follow", "Pause", "Story", "Wish", "atell", "patiently", "tell"]

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


Wish: TypeAlias = Follow | Pause
Story: TypeAlias = Generator[Wish, None, T]
"""Yields wishes and returns what comes of them. What goes wrong with a wish is raised where it was made."""


def tell(story: Story[T], runner: Runner, look: Callable[[], None]) -> T:
    """Carry out the story while the caller's thread waits.

    The story's own steps, and what takes batches, run in daemon threads: an exception that strikes the
    caller's thread, as a signal's or a timeout's, leaves nothing half done.

    Args:
        story: What to do.
        runner: Whom to ask for batches.
        look: Called at least every `TICK_S` while something is waited for. What it raises ends the story.
    """
    error: Exception | None = None
    while True:
        step = undisturbed(_advance, story, error)
        if isinstance(step, _End):
            return step.value
        error = None
        try:
            _fulfil(step, runner, look)
        except Exception as err:  # noqa: BLE001  (the story knows what to make of it, or raises it again)
            error = err


async def atell(story: Story[T], runner: Runner, look: Callable[[], None]) -> T:
    """Do what `tell` does on an event loop."""
    error: Exception | None = None
    while True:
        step = await in_daemon_thread(_advance, story, error)
        if isinstance(step, _End):
            return step.value
        error = None
        try:
            await _afulfil(step, runner, look)
        except Exception as err:  # noqa: BLE001  (likewise)
            error = err


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    value: T


def _advance(story: Story[T], error: Exception | None) -> Wish | _End[T]:
    """Return the next wish; the end as a value, because no StopIteration can leave a thread."""
    try:
        return next(story) if error is None else story.throw(error)
    except StopIteration as stop:
        return _End(cast("T", stop.value))


def _fulfil(wish: Wish, runner: Runner, look: Callable[[], None]) -> None:
    if isinstance(wish, Pause):
        until = monotonic() + wish.seconds
        pause = threading.Event()
        while (left := until - monotonic()) > 0:
            look()
            pause.wait(min(left, TICK_S))
        return
    batches = runner.follow(wish.handle, wish.cursor, logs=wish.logs, tick_s=TICK_S)
    with closing(cast("Generator[Batch]", batches)):
        for batch in batches:
            if not undisturbed(wish.take, batch):
                return
            look()


async def _afulfil(wish: Wish, runner: Runner, look: Callable[[], None]) -> None:
    if isinstance(wish, Pause):
        until = monotonic() + wish.seconds
        while (left := until - monotonic()) > 0:
            look()
            await asyncio.sleep(min(left, TICK_S))
        return
    # Opening a stream may ask the backend.
    batches = await in_daemon_thread(
        runner.afollow,
        wish.handle,
        wish.cursor,
        logs=wish.logs,
        tick_s=TICK_S,
        batch_bytes=ASYNC_BATCH_BYTES,
    )
    async with aclosing(cast("AsyncGenerator[Batch]", batches)):
        async for batch in batches:
            if not await in_daemon_thread(wish.take, batch):
                return
            look()


def patiently(phase: Callable[[], Story[T]], patience: Patience, say: Callable[[str], None]) -> Story[T]:
    """Tell a phase again from its start while its scheduler is away; whatever it submits it submits once.

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
