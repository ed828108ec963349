"""The one loop behind follow, wait and log_lines, with a feed that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from time import monotonic

import pytest

from torchx_core.schedulers import Batch, EventFeed, StateChanged, UsageSample
from torchx_core.schedulers.feed import drive, drive_async
from torchx_core.schedulers.sampling import Sampler
from torchx_core.specs import AppState, Usage
from torchx_core.testing import FakeClock

EVENT = StateChanged(state=AppState.RUNNING, time=0.0)


class ScriptedFeed(EventFeed):
    """Returns what the script says: a batch's cursor, or None when there is nothing right now."""

    def __init__(self, script: Sequence[str | None]) -> None:
        self._script = list(script)
        self._cursor = "start"
        self.waits: list[float | None] = []
        self.closed = 0

    @property
    def cursor(self) -> str:
        return self._cursor

    @property
    def done(self) -> bool:
        return not self._script

    def poll(self) -> Batch | None:
        cursor = self._script.pop(0)
        if cursor is None:
            return None
        self._cursor = cursor
        return Batch(events=(EVENT,), cursor=cursor)

    def wait(self, timeout_s: float | None) -> None:
        self.waits.append(timeout_s)

    async def wait_async(self, timeout_s: float | None) -> None:
        self.waits.append(timeout_s)

    def close(self) -> None:
        self.closed += 1


class IdleFeed(ScriptedFeed):
    """Never has anything, and lets the time pass while one waits."""

    def __init__(self, *, caught_up: bool = True) -> None:
        super().__init__([None])
        self._caught_up = caught_up

    @property
    def caught_up(self) -> bool:
        return self._caught_up

    def poll(self) -> Batch | None:
        return None

    def wait(self, timeout_s: float | None) -> None:
        super().wait(timeout_s)
        until = monotonic() + (timeout_s or 0.0)
        while monotonic() < until:
            pass

    async def wait_async(self, timeout_s: float | None) -> None:
        self.wait(timeout_s)


class RestlessFeed(IdleFeed):
    """Wakes up at once, for nothing."""

    def wait(self, timeout_s: float | None) -> None:
        self.waits.append(timeout_s)


def both(feed: ScriptedFeed, tick_s: float | None, deadline: float | None, *, loop: bool) -> list[str]:
    """Return the cursors that one of the two loops yields."""

    async def collect(batches: AsyncIterator[Batch]) -> list[str]:
        return [batch.cursor async for batch in batches]

    if loop:
        return asyncio.run(collect(drive_async(feed, tick_s, deadline)))
    return [batch.cursor for batch in drive(feed, tick_s, deadline)]


@pytest.mark.parametrize("loop", [False, True])
def test_it_waits_only_when_there_is_nothing(*, loop: bool) -> None:
    """Every batch comes through, and between them one waits without a limit."""
    feed = ScriptedFeed(["a", "b", None, None, "c"])
    assert both(feed, None, None, loop=loop) == ["a", "b", "c"]
    assert feed.waits == [None, None]
    assert feed.closed == 1


@pytest.mark.parametrize("caught_up", [False, True])
def test_a_tick_says_whether_the_scheduler_has_answered(*, caught_up: bool) -> None:
    """Whoever is patient with a scheduler that is away must tell silence from an answer."""
    batches = drive(IdleFeed(caught_up=caught_up), tick_s=0.0)
    assert next(batches) == Batch(events=(), cursor="start", answered=caught_up)


@pytest.mark.parametrize("loop", [False, True])
def test_a_deadline_that_has_passed_still_reads_what_is_there(*, loop: bool) -> None:
    """It ends at the first moment without anything new, and never waits."""
    feed = ScriptedFeed(["a", "b", None, "c"])
    assert both(feed, None, monotonic(), loop=loop) == ["a", "b"]
    assert feed.waits == []
    assert feed.closed == 1


@pytest.mark.parametrize("loop", [False, True])
def test_a_deadline_ends_the_waiting(*, loop: bool) -> None:
    """No longer than that, however quiet it is."""
    for patience_s in (0.01, 0.1, 1.0, 10.0):  # a busy host may be too slow for the first ones to wait at all
        feed = IdleFeed()
        assert both(feed, None, monotonic() + patience_s, loop=loop) == []
        assert all(wait is not None and wait <= patience_s for wait in feed.waits)
        if feed.waits:
            return
    pytest.fail("it never waited")


def test_ticks_come_while_nothing_happens() -> None:
    """Each is an empty batch with the cursor of the last one."""
    feed = IdleFeed()
    ticks = drive(feed, tick_s=0.001)
    assert [next(ticks) for _ in range(3)] == [Batch(events=(), cursor="start")] * 3


def test_ticks_come_although_the_feed_wakes_up_for_nothing() -> None:
    """A feed that returns early from waiting does not keep the caller from its tick."""
    assert next(drive(RestlessFeed(), tick_s=0.001)) == Batch(events=(), cursor="start")


def test_leaving_the_loop_closes_the_feed() -> None:
    """Whoever stops in the middle holds nothing."""
    feed = ScriptedFeed(["a", "b"])
    batches = drive(feed)
    next(batches)
    assert isinstance(batches, Iterator)
    batches.close()  # type: ignore[attr-defined]  # what leaving a for loop does
    assert feed.closed == 1


def test_an_event_loop_goes_round_before_each_batch() -> None:
    """A feed that never has to wait, as with a long log, leaves everything else on the loop its turns."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def follow() -> list[int]:
        turning = asyncio.create_task(turn())
        seen = [turns async for _ in drive_async(ScriptedFeed("abc"))]
        turning.cancel()
        return seen

    assert asyncio.run(follow()) == [1, 2, 3]


def sampled(script: Sequence[str | None], looks: Sequence[bool], *, loop: bool) -> list[tuple[int, str]]:
    """Return how many samples and events each batch has, and its cursor, of a feed that is sampled.

    ``looks``: whether each look shows anything.
    """
    left = list(looks)
    one = UsageSample(role="r", replica=0, attempt=0, usage=Usage(cpu_s=1.0), time=0.0)
    sampler = Sampler(lambda: [one] if left and left.pop(0) else [], every_s=0.0, clock=FakeClock())
    feed = ScriptedFeed(script)

    async def collect() -> list[Batch]:
        return [batch async for batch in drive_async(feed, sampler=sampler)]

    batches = asyncio.run(collect()) if loop else list(drive(feed, sampler=sampler))
    for batch in batches:
        kinds = [type(event) for event in batch.events]
        assert kinds == sorted(kinds, key=lambda kind: kind is StateChanged)  # the app's end stays the last
    return [(len(batch.events), batch.cursor) for batch in batches]


@pytest.mark.parametrize("loop", [False, True])
def test_samples_come_between_events_and_move_no_cursor(*, loop: bool) -> None:
    """While there is nothing else to tell they are a batch of their own, whose place is that of the last."""
    assert sampled([None, "a", None, None, "b"], [True, True, False, True, True], loop=loop) == [
        (1, "start"),
        (2, "a"),
        (1, "a"),
        (2, "b"),
    ]


@pytest.mark.parametrize("loop", [False, True])
def test_waiting_ends_when_a_look_is_due(*, loop: bool) -> None:
    """However long the feed has nothing."""
    feed = ScriptedFeed([None, "a"])
    sampler = Sampler(list, every_s=40.0)

    async def collect() -> list[Batch]:
        return [batch async for batch in drive_async(feed, sampler=sampler)]

    batches = asyncio.run(collect()) if loop else list(drive(feed, sampler=sampler))
    assert [batch.cursor for batch in batches] == ["a"]
    assert [wait is not None and 0 < wait <= 1.0 for wait in feed.waits] == [True]
