"""Following on a real engine: what programs print, in whatever way, and what happens meanwhile."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from docker_apps import app, make_runner, new_runner
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE
from own_threads import started_since, threads_now
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from torchx_core.errors import UnknownAppException
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch, LogLine, LogsLost, ReplicaChanged, StateChanged, Stream
from torchx_core.schedulers.docker import watch
from torchx_core.schedulers.docker.polling import look
from torchx_core.schedulers.docker.request_chain import Questions
from torchx_core.schedulers.docker.view import AppView, Phase
from torchx_core.schedulers.docker.volume_state import VolumeState
from torchx_core.specs import AppDef, AppState, CfgVal, RetryPolicy, Role
from torchx_core.testing.contract.base import each_event, each_line, in_order, texts
from torchx_core.testing.steps import FailUntil, Hold, Print, PrintMany

pytestmark = pytest.mark.timeout(900)

MANY = 200_000
STALE_LOOKS = 10
SUPPORT = Path(__file__).parents[3] / "support"


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps are removed afterwards."""
    with new_runner(engine.url) as runner:
        yield runner


def run(
    runner: Runner,
    code: str,
    cfg: dict[str, CfgVal] | None = None,
    env: dict[str, str] | None = None,
) -> str:
    """Submit a Python program and return its handle."""
    role = Role(
        "worker", PYTHON_IMAGE, entrypoint="python3", args=["-c", code.replace("$", "$$")], env=env or {}
    )
    return runner.run(AppDef("app", [role]), "local_docker", cfg)


def lines_of(runner: Runner, handle: str, cursor: str | None = None) -> list[LogLine]:
    """Follow to the end and return every line."""
    return list(each_line(runner.follow(handle, cursor)))


def remove_container(client: docker.DockerClient) -> None:
    """Remove the only container that there is."""
    (container,) = client.containers.list()
    container.remove(force=True)


def test_two_hundred_thousand_lines(runner: Runner) -> None:
    """Each once and in order: live, later, and from the cursors of two batches."""
    handle = run(runner, f"for i in range({MANY}): print(i)", env={"PYTHONUNBUFFERED": ""})
    expected = [str(i) for i in range(MANY)]
    batches = list(runner.follow(handle))
    assert texts(batches) == expected
    assert texts(runner.follow(handle)) == expected
    for i in (len(batches) // 3, 2 * len(batches) // 3):
        assert texts(batches[: i + 1]) + texts(runner.follow(handle, batches[i].cursor)) == expected


PECULIAR = r"""
import sys
out = sys.stdout.buffer
out.write(b"x" * 16383 + "\u00e9".encode() + b"y" * 23_615 + b"\n")
out.write(b"\xff\xfe\x00z\n")
out.write(b"  1%\r 50%\r100%\n")
out.write(b"\n")
out.write(b"the end")
"""


def test_peculiar_lines_arrive_as_they_were_printed(runner: Runner) -> None:
    """40,000 characters, one across the engine's 16 KiB; bytes that are no text, bars, no last newline."""
    handle = run(runner, PECULIAR)
    long = "x" * 16_383 + "é" + "y" * 23_615
    lines = lines_of(runner, handle)
    assert [line.text for line in lines] == [long, "��\0z", "  1%\r 50%\r100%", "", "the end"]
    assert [line.eol for line in lines] == [True] * 4 + [False]
    assert lines_of(runner, handle) == lines


def test_lines_that_the_engine_dropped_are_told(runner: Runner) -> None:
    """Of a log that is bounded: what is left arrives in order, and that there was more is said."""
    code = "for i in range(40_000): print(i, 'x' * 100)"
    handle = run(runner, code, {"log_max_mb": 1}, env={"PYTHONUNBUFFERED": ""})
    assert runner.wait(handle) is not None
    events = list(each_event(runner.follow(handle)))
    lost = [i for i, event in enumerate(events) if isinstance(event, LogsLost)]
    lines = [(i, int(e.text.split()[0])) for i, e in enumerate(events) if isinstance(e, LogLine)]
    assert [number for _, number in lines] == list(range(40_000 - len(lines), 40_000))
    assert len(lost) == 1
    assert lost[0] < lines[0][0]


def test_a_follower_of_a_bounded_log_sees_each_line_or_that_some_are_lost(runner: Runner) -> None:
    """Every jump in the numbers comes right after an event that says so."""
    code = (
        "import time\n"
        "for i in range(40_000):\n"
        "    print(i, 'x' * 100)\n"
        "    if i % 4_000 == 0: time.sleep(0.1)"
    )
    handle = run(runner, code, {"log_max_mb": 1})
    expected, told = 0, True
    for event in each_event(runner.follow(handle)):
        if isinstance(event, LogsLost):
            told = True
        elif isinstance(event, LogLine):
            number = int(event.text.split()[0])
            assert number == expected or (told and number > expected)
            expected, told = number + 1, False
    assert expected == 40_000


@pytest.fixture
def cut(engine: DockerEngine, tmp_path: Path) -> Iterator[Runner]:
    """A runner whose followed logs end early, four times, in the midst of a frame."""
    ours = str(tmp_path / "s")
    words = [str(SUPPORT / "cutting_proxy.py"), ours, engine.url.removeprefix("unix://"), "2001", "4"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE) as proxy:
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == b"ready\n"
        with make_runner(f"unix://{ours}") as runner:
            yield runner
        proxy.kill()


@pytest.mark.parametrize("streams", [Stream.COMBINED, Stream.STDOUT])
def test_a_stream_that_ends_early_is_read_on(runner: Runner, cut: Runner, streams: Stream) -> None:
    """While the program runs and after its end: nothing repeated, nothing skipped."""
    code = "import time\nfor i in range(400):\n    print(i)\n    if i < 200: time.sleep(0.004)"
    handle = run(runner, code)
    assert texts(cut.follow(handle, streams=streams)) == [str(i) for i in range(400)]


def test_attempts_are_told_apart_for_ever(runner: Runner) -> None:
    """Each line has the attempt that printed it, live and later, when the engine starts it again."""
    steps = (PrintMany(100), Print("out"), Print("err", "stderr"), FailUntil(2, 7))
    handle = runner.run(app(*steps, max_retries=3, retry_policy=RetryPolicy.REPLICA), "local_docker")
    live = list(runner.follow(handle))
    assert [line.attempt for line in each_line(live) if line.text == "out"] == [0, 1, 2]
    assert [line.attempt for line in each_line(live) if line.text == "err"] == [0, 1, 2]
    changes = [e for e in each_event(live) if isinstance(e, ReplicaChanged)]
    assert [(e.attempt, e.exit_code) for e in changes if e.state != AppState.RUNNING] == [
        (0, 7),
        (1, 7),
        (2, 0),
    ]
    assert in_order(runner.follow(handle)) == in_order(live)


def test_a_container_that_somebody_removed(runner: Runner, client: docker.DockerClient) -> None:
    """What was read stays read, that more may be missing is said, and the app has failed."""
    handle = runner.run(app(Print("up"), Hold()), "local_docker")
    events: list[object] = []
    for event in each_event(runner.follow(handle)):
        events.append(event)
        if isinstance(event, LogLine):
            remove_container(client)
    assert [type(event) for event in events[-2:]] == [LogsLost, StateChanged]
    last = events[-1]
    assert isinstance(last, StateChanged)
    assert last.state == AppState.FAILED
    assert "container was removed" in last.msg


def test_an_app_that_is_deleted_while_it_is_followed(runner: Runner) -> None:
    """The follower is told, not left waiting."""
    handle = runner.run(app(Print("up")), "local_docker")
    runner.wait(handle)
    follower = runner.follow(handle)
    runner.delete(handle)
    with pytest.raises(UnknownAppException):
        list(follower)


FOLLOWER = """
import sys
from docker_apps import make_runner
with make_runner(sys.argv[1]) as runner:
    for batch in runner.follow(sys.argv[2], sys.argv[3] or None):
        for line in batch.lines():
            print(line.text)
        print("cursor", batch.cursor, flush=True)
"""


def test_a_follower_that_is_killed_goes_on_elsewhere(runner: Runner, engine: DockerEngine) -> None:
    """From the last cursor that it saved, in another process: nothing repeated, nothing skipped."""
    code = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.02)"
    handle = run(runner, code)
    seen: list[str] = []
    cursor, kills = "", 0
    while len(seen) < 60:
        follower = _follower(engine, handle, cursor)
        assert follower.stdout is not None
        fresh: list[str] = []
        for text in follower.stdout:
            word, _, rest = text.strip().partition(" ")
            if word != "cursor":
                fresh.append(word)
                continue
            cursor, seen, fresh = rest, seen + fresh, []
            if seen and kills < 3:
                follower.kill()
                kills += 1
                break
        follower.kill()
        follower.communicate()
    assert seen == [str(i) for i in range(60)]
    assert kills > 0


def _follower(engine: DockerEngine, handle: str, cursor: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, engine.url, handle, cursor],
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def open_descriptors() -> int:
    """Return how many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_are_followed_without_threads(runner: Runner) -> None:
    """On one event loop: a connection for each that prints, one for the events of all, and no thread."""
    handles = [runner.run(app(Print("up"), Hold()), "local_docker") for _ in range(6)]
    before, usual = threads_now(), open_descriptors()

    async def follow(handle: str, up: asyncio.Semaphore) -> None:
        async for batch in runner.afollow(handle):
            for _ in batch.lines():
                up.release()

    async def follow_all() -> tuple[int, int]:
        up = asyncio.Semaphore(0)
        followers = [asyncio.ensure_future(follow(handle, up)) for handle in handles]
        for _ in handles:
            await up.acquire()
        counts: list[tuple[int, int]] = []
        while len(counts) < 60 or (min(counts)[0] and len(counts) < 1000):
            await asyncio.sleep(0.05)  # now and then one of them asks for something
            counts.append((len(started_since(before)), open_descriptors()))
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        return min(counts)

    threads, descriptors = asyncio.run(follow_all())
    assert threads == 0
    # Two for each: its log, and a connection kept for the next question; on a slow host all ask at once.
    # A few more: the events, the loop's own three, and what somebody else in this process opens meanwhile.
    assert descriptors - usual <= 2 * len(handles) + 8


def test_an_event_loop_is_not_held_up(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while the follower stops and starts replicas, which takes the engine a second or two.

    Other threads wait for the engine's answers; the loop's own waits for none.
    """
    steps = (PrintMany(10), FailUntil(1))
    handle = runner.run(app(*steps, num_replicas=4, max_retries=1), "local_docker")
    asked: list[tuple[str, bool]] = []
    send = HTTPAdapter.send

    def noted(adapter: HTTPAdapter, request: PreparedRequest, **options: Any) -> Response:
        asked.append((f"{request.method} {request.path_url}", _on_a_loop()))
        return send(adapter, request, **options)

    async def follow() -> list[Batch]:
        following = runner.afollow(handle)
        monkeypatch.setattr(HTTPAdapter, "send", noted)
        return [batch async for batch in following]

    lines = list(each_line(asyncio.run(follow())))
    assert len([line for line in lines if line.attempt == 1]) == 40
    assert [what for what, on_a_loop in asked if on_a_loop] == []
    assert sum("/start" in what for what, _ in asked) == 4


def test_an_end_that_the_engine_shows_late_and_never_says_is_found(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an event the follower looks again and again, less and less often."""
    monkeypatch.setattr(watch, "_FIRST_AGAIN_S", 0.01)
    ended: list[AppView | None] = []
    running: list[AppView | None] = []

    def stale(key: str, nonce: str, known: VolumeState | None) -> Questions[AppView | None]:
        view = yield from look(key, nonce, known)
        views = running if view is not None and view.in_phase(Phase.CREATED, Phase.UP) else ended
        views.append(view)
        return view if len(ended) > STALE_LOOKS else running[-1]

    monkeypatch.setattr(watch, "look", stale)
    handle = run(runner, "print('hello')")
    assert [line.text for line in lines_of(runner, handle)] == ["hello"]
    assert len(ended) > STALE_LOOKS


def _on_a_loop() -> bool:
    with suppress(RuntimeError):
        return asyncio.get_running_loop().is_running()
    return False
