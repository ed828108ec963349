"""An engine that ends or dies under a running app: what it kept is not lost, and nothing false is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from docker_apps import new_runner
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch, StateChanged
from torchx_core.schedulers.docker import watch
from torchx_core.specs import AppDef, AppState, Role
from torchx_core.testing.contract.base import each_event, in_order, texts

pytestmark = pytest.mark.slow

LINES = 300
TOO_MANY = 3000
"""Of which a program never prints the last before its engine ends, however busy the host."""
PROGRAM = "import time\nfor i in range({}):\n    print(i, flush=True)\n    time.sleep(0.02)"


@pytest.fixture
def runner(frail_engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps are removed afterwards."""
    with new_runner(frail_engine.url) as runner:
        yield runner


def submit(runner: Runner, lines: int = LINES) -> str:
    """Submit a program that prints fifty lines a second, each in one write.

    An unbuffered Python writes a line's end by itself; an engine that ends loses a line that has none yet.
    """
    args, env = ["-c", PROGRAM.format(lines)], {"PYTHONUNBUFFERED": ""}
    role = Role("worker", PYTHON_IMAGE, entrypoint="python3", args=args, env=env)
    return runner.run(AppDef("app", [role]), "local_docker", {"grace_s": 1})


def follow(runner: Runner, handle: str, on_line: Callable[[], None]) -> list[Batch]:
    """Follow in a thread's way; call `on_line` when some lines have come."""
    batches: list[Batch] = []
    for batch in runner.follow(handle):
        before = len(texts(batches))
        batches.append(batch)
        if before < 20 <= len(texts(batches)):
            on_line()
    return batches


def afollow(runner: Runner, handle: str, on_line: Callable[[], None]) -> list[Batch]:
    """Do the same on an event loop."""

    async def run() -> list[Batch]:
        batches: list[Batch] = []
        async for batch in runner.afollow(handle):
            before = len(texts(batches))
            batches.append(batch)
            if before < 20 <= len(texts(batches)):
                on_line()
        return batches

    return asyncio.run(run())


Follow = Callable[[Runner, str, Callable[[], None]], list[Batch]]
ways = pytest.mark.parametrize(
    ("follow", "end"), [(follow, DockerEngine.kill), (afollow, DockerEngine.terminate)]
)


@ways
def test_an_app_goes_on_without_its_engine(
    runner: Runner, frail_engine: DockerEngine, follow: Follow, end: Callable[[DockerEngine], None]
) -> None:
    """With ``--live-restore`` the follower comes back by itself and misses nothing."""
    restart(frail_engine, DockerEngine.terminate, "--live-restore")
    handle = submit(runner)
    batches = follow(runner, handle, lambda: restart(frail_engine, end, "--live-restore"))
    assert texts(batches) == [str(i) for i in range(LINES)]
    assert last(batches).state == AppState.SUCCEEDED
    assert in_order(runner.follow(handle)) == in_order(batches)


@ways
def test_an_app_ends_with_its_engine(
    runner: Runner, frail_engine: DockerEngine, follow: Follow, end: Callable[[DockerEngine], None]
) -> None:
    """Without, each line that the engine kept arrives, and the app was killed from outside."""
    restart(frail_engine, DockerEngine.terminate)
    handle = submit(runner, TOO_MANY)
    batches = follow(runner, handle, lambda: restart(frail_engine, end))
    lines = texts(batches)
    assert lines == [str(i) for i in range(len(lines))]
    assert 20 <= len(lines) < TOO_MANY
    assert last(batches).state == AppState.FAILED
    assert "from outside" in last(batches).msg
    assert in_order(runner.follow(handle)) == in_order(batches)


def test_an_engine_that_stays_away_is_told(
    runner: Runner, frail_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while, as something that may be tried again, and no state is made up."""
    monkeypatch.setattr(watch, "_AWAY_S", 1.0)
    restart(frail_engine, DockerEngine.terminate, "--live-restore")
    handle = submit(runner)
    seen: list[Batch] = []
    with pytest.raises(SchedulerError, match="cannot reach the Docker engine") as caught:
        follow_into(seen, runner, handle, frail_engine.kill)
    frail_engine.start("--live-restore")
    assert caught.value.retryable
    assert [e.state for e in each_event(seen) if isinstance(e, StateChanged)] == [AppState.RUNNING]
    rest = list(runner.follow(handle, seen[-1].cursor))
    assert texts(seen) + texts(rest) == [str(i) for i in range(LINES)]


def follow_into(seen: list[Batch], runner: Runner, handle: str, on_line: Callable[[], None]) -> None:
    """Follow, and keep what came before a failure."""
    for batch in runner.follow(handle):
        seen.append(batch)
        if any(line.text == "20" for line in batch.lines()):
            on_line()


def restart(engine: DockerEngine, end: Callable[[DockerEngine], None], *options: str) -> None:
    """End the engine and start it again."""
    end(engine)
    engine.start(*options)


def last(batches: list[Batch]) -> StateChanged:
    """Return the end of a stream."""
    event = list(each_event(batches))[-1]
    assert isinstance(event, StateChanged)
    return event
