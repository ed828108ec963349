"""Following an app that TorchX looks after: by looking again and again, but not too often."""

from __future__ import annotations

import asyncio
import inspect
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchx_shelf import Shelf

from torchx_core import AppDef, Role, Runner, get_runner
from torchx_core.compat.feed import Pace
from torchx_core.compat.remote import RemoteBackend
from torchx_core.errors import InvalidInputError, SchedulerError, UnknownAppException
from torchx_core.schedulers import LogsLost, Stream
from torchx_core.schedulers.api import split_lines
from torchx_core.testing import FakeClock, wait_until

BACKEND = "torchx:shelf"
WAIT = "while [ ! -e $$BOX/go ]; do sleep 0.01; done"


@pytest.fixture
def runner(shelf: Path, tmp_path: Path) -> Runner:
    """Return a runner on the shelf."""
    del shelf
    return get_runner("following", state_dir=str(tmp_path / "state"))


def submit(runner: Runner, script: str) -> str:
    """Run a script and return its handle."""
    return runner.run(AppDef("a", [Role("r", "", entrypoint="sh", args=["-c", script])]), BACKEND)


def place_of(runner: Runner, handle: str, shelf: Path) -> Path:
    """Return where the shelf keeps the app."""
    native: Any = runner.scheduler(BACKEND).describe_native(handle.rpartition("/")[2])
    return Path(shelf, native["app_id"])


def test_a_backend_that_is_away_for_a_while_ends_nothing(
    runner: Runner, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following goes on where it was when it is back."""
    handle = submit(runner, f"echo one; {WAIT}; echo two")
    original = Shelf.describe
    looks = 0

    def describe(self: Any, app_id: str) -> object:
        nonlocal looks
        looks += 1
        if 3 <= looks < 6:
            raise ConnectionError("no route to the shelf")
        if looks == 6:
            (shelf / app_id / "r" / "0" / "go").touch()
        return original(self, app_id)

    monkeypatch.setattr(Shelf, "describe", describe)
    assert [line.text for batch in runner.follow(handle) for line in batch.lines()] == ["one", "two"]


def test_a_backend_that_is_away_is_told_to_who_asks_once(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who begins to follow is told as well: it may be the address that is wrong."""
    handle = submit(runner, "true")

    def describe(*_: object) -> object:
        raise ConnectionError("no route to the shelf")

    with monkeypatch.context() as away:
        away.setattr(Shelf, "describe", describe)
        with pytest.raises(SchedulerError, match=r"cannot describe a-.*ConnectionError: no route") as caught:
            runner.status(handle)
        assert caught.value.retryable
        with pytest.raises(SchedulerError, match="no route"):
            list(runner.follow(handle))
        assert str(runner.list(BACKEND)[0].state) == "UNKNOWN"
    runner.wait(handle)


def test_lines_that_cannot_be_read_are_told_as_lost(runner: Runner, shelf: Path) -> None:
    """With the reason; the stream ends all the same, and reading it again tells the same."""
    handle = submit(runner, r"printf '\377\n'")  # which the shelf cannot decode
    wait_until((place_of(runner, handle, shelf) / "r" / "0" / "code").exists, 240)
    events = [event for batch in runner.follow(handle) for event in batch.events]
    (lost,) = [event for event in events if isinstance(event, LogsLost)]
    assert (lost.role, lost.replica, lost.size_bytes) == ("r", 0, None)
    assert "UnicodeDecodeError" in lost.reason
    assert [event for batch in runner.follow(handle) for event in batch.events] == events


def test_a_deleted_app_is_followed_no_further(runner: Runner, shelf: Path) -> None:
    """The follower learns it at its next look."""
    handle = submit(runner, WAIT)
    following = runner.follow(handle)
    next(following)
    (place_of(runner, handle, shelf) / "r" / "0" / "go").touch()
    runner.wait(handle)
    runner.delete(handle)
    with pytest.raises(UnknownAppException):
        list(following)


@pytest.mark.parametrize("streams", [Stream.STDOUT, Stream.STDERR])
def test_a_stream_that_is_not_kept_apart_is_refused(runner: Runner, streams: Stream) -> None:
    """Instead of showing nothing, or everything."""
    handle = submit(runner, "echo hello")
    with pytest.raises(InvalidInputError, match="does not keep stdout and stderr apart"):
        runner.follow(handle, streams=streams)
    runner.wait(handle)


def test_an_event_loop_goes_on_while_torchx_is_asked(
    runner: Runner, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that takes long blocks a thread of the loop's pool, not the loop."""
    handle = submit(runner, f"{WAIT}; echo hello")
    looks: list[bool] = []
    original = Shelf.describe

    def describe(self: Any, app_id: str) -> object:
        looks.append(threading.current_thread() is threading.main_thread())
        if not looks[-1]:
            (shelf / app_id / "r" / "0" / "go").touch()
        return original(self, app_id)

    async def main() -> list[str]:
        return [line.text async for batch in runner.afollow(handle) for line in batch.lines()]

    monkeypatch.setattr(Shelf, "describe", describe)
    assert asyncio.run(main()) == ["hello"]
    assert looks[0]  # what was there when following began
    assert not any(looks[looks.index(False) :])


def test_the_pace_slows_down_and_heeds_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty looks a second down to one while nothing happens; costly ones at a twentieth of the time."""
    monkeypatch.setattr("torchx_core.compat.feed.monotonic", FakeClock())
    pace = Pace()
    assert pace.is_due
    pace.looked(cost_s=0.0, news=False)
    assert 0 < pace.left(None) <= 0.03
    for _ in range(20):
        pace.looked(cost_s=0.0, news=False)
    assert 0.9 < pace.left(None) <= 1.0
    assert pace.left(0.1) == 0.1
    pace.looked(cost_s=0.5, news=False)
    assert 9 < pace.left(None) <= 10
    pace.looked(cost_s=60.0, news=False)
    assert pace.left(None) <= 30
    pace.looked(cost_s=0.0, news=True)
    assert pace.left(None) <= 0.02
    pace.looked(cost_s=60.0, news=True, more=True)
    assert pace.is_due


@given(st.text("ab\n", max_size=30))
def test_lines_are_split_as_torchx_splits_them(text: str) -> None:
    """What stands in for TorchX's own function gives what that gives."""
    source = inspect.getsource(import_module("torchx.schedulers.api"))
    namespace: dict[str, Any] = {}
    start = source.index("def split_lines(")
    exec(source[start : source.index("def split_lines_iterator")], {"List": list}, namespace)  # noqa: S102  # TorchX's
    assert split_lines(text) == namespace["split_lines"](text)


def test_torchx_splits_logs_in_linear_time(runner: Runner) -> None:
    """Its own function, which its schedulers and plugins call, takes a minute for 20 MB."""
    runner.scheduler(BACKEND)
    for home in ("torchx.schedulers.api", "torchx_shelf"):
        assert import_module(home).split_lines is split_lines


def test_a_last_line_without_an_end_comes_once() -> None:
    """Also where the other stream cannot be read just then, and both are read again."""

    class Upstream:
        def log_iter(self, *_: object, **__: object) -> list[str]:
            return ["first\n", "last"]

    backend = RemoteBackend(BACKEND, cast("Any", Upstream()), streams=("stdout", "stderr"))
    first = backend.read("a", ("r", 0), "stdout", 0, ended=True)
    assert (first.texts, first.eol) == (("first", "last"), False)
    assert backend.read("a", ("r", 0), "stdout", first.position, ended=True).texts == ()
