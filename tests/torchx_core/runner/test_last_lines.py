"""A status knows what was printed last, when it is asked, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from torchx_core import AppDef, AppStatus, Role, Runner
from torchx_core.errors import SchedulerError
from torchx_core.schedulers import Scheduler
from torchx_core.specs import LastLines, ReplicaStatus
from torchx_core.testing import Exit, FakeHost, Print

LAST = "  last lines of worker/0:\n    last word"


class ReadHost(FakeHost):
    """Remembers how often last lines were read, and may fail to."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0
        self.error: Exception | None = None

    def scheduler(self, session_name: str, **params: object) -> Scheduler[object]:
        scheduler = super().scheduler(session_name, **params)
        read = scheduler.last_lines

        def last_lines(app_id: str, replica: ReplicaStatus) -> LastLines:
            self.read += 1
            if self.error:
                raise self.error
            return read(app_id, replica)

        scheduler.last_lines = last_lines  # type: ignore[method-assign]  # to look at it
        return scheduler


def submitted(runner: Runner, code: int = 3) -> str:
    """Submit an app that ends with the code, and return its handle."""
    args = [str(step) for step in (Print("last\x1b[2J word\r"), Exit(code))]
    return runner.run(AppDef("demo", [Role(name="worker", image="", entrypoint="fake", args=args)]), "fake")


def by_status(runner: Runner, handle: str) -> AppStatus | None:
    """Ask once it has ended."""
    runner.wait(handle)
    return runner.status(handle)


def by_following(runner: Runner, handle: str) -> AppStatus | None:
    """Take the stream's own word."""
    return [batch.final_status for batch in runner.follow(handle, logs=False)][-1]


def by_following_on_a_loop(runner: Runner, handle: str) -> AppStatus | None:
    """Take the same on an event loop."""

    async def follow() -> AppStatus | None:
        return [batch.final_status async for batch in runner.afollow(handle)][-1]

    return asyncio.run(follow())


Way = Callable[[Runner, str], AppStatus | None]


@pytest.mark.parametrize("way", [by_status, Runner.wait, by_following, by_following_on_a_loop])
def test_every_way_to_a_status_leads_to_last_lines(way: Way) -> None:
    """They are read when the status must say why, once, also when its runner has been closed by then."""
    host = ReadHost()
    with Runner("s", {"fake": host.scheduler}) as runner:
        status = way(runner, submitted(runner))
    assert status is not None
    assert host.read == 0
    assert status.failure_summary().endswith(LAST)
    assert status.failure_summary().endswith(LAST)
    assert host.read == 1


def test_nothing_is_read_of_an_app_that_did_not_fail() -> None:
    """Of one that has succeeded, or goes on, nobody asks why."""
    host = ReadHost()
    with Runner("s", {"fake": host.scheduler}) as runner:
        handle = submitted(runner, 0)
        for status in (runner.status(handle), runner.wait(handle), runner.status(handle)):
            assert status is not None
            assert "last lines" not in status.failure_summary()
    assert host.read == 0


@pytest.mark.parametrize("error", [SchedulerError("away", retryable=True), OSError("disk")])
def test_why_they_cannot_be_read_does_not_hide_why_the_app_failed(error: Exception) -> None:
    """The scheduler is away, say, or the disk is bad."""
    host = ReadHost()
    with Runner("s", {"fake": host.scheduler}) as runner:
        handle = submitted(runner)
        status = runner.wait(handle)
        host.error = error
    assert status is not None
    assert status.failure_summary().startswith("replica worker/0 failed with exit code 3")
    assert "last lines" not in status.failure_summary()


def test_an_app_that_was_deleted_has_none() -> None:
    """Its log is gone with it."""
    with Runner("s", {"fake": FakeHost().scheduler}) as runner:
        handle = submitted(runner)
        status = runner.wait(handle)
        runner.delete(handle)
        assert status is not None
        assert "last lines" not in status.failure_summary()
