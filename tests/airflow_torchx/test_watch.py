from __future__ import annotations

import asyncio
import json
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from stumbles import stumble_twice

from airflow_torchx import _watch
from airflow_torchx._deferral import Deferral, Fired
from airflow_torchx._watch import Pace, Paces, Watch
from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner, get_runner
from torchx_core.schedulers import AppEvent, LogLines
from torchx_core.specs import AppDef, AppState, AppStatus, Role
from torchx_core.testing import wait_until

FREE = Pace(1e9, 1e9)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner whose apps are local processes."""
    with get_runner("watch", state_dir=str(tmp_path / "state")) as runner:
        yield runner
        for app in runner.list("local_cwd"):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=240)


class Seen:
    """What a watch showed and saved."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.saved: list[str] = []
        self.hidden: dict[str, str] = {}

    def write(self, event: AppEvent) -> None:
        """Keep the lines."""
        if isinstance(event, LogLines):
            self.lines += event.lines

    def tick(self) -> None:
        """Have nothing to show later."""

    async def saved_position(self, cursor: str) -> None:
        """Keep the cursor."""
        self.saved.append(cursor)

    async def hide(self, env: Mapping[str, str]) -> None:
        """Keep what is to be hidden."""
        self.hidden |= env


def _submit(runner: Runner, script: str) -> str:
    return runner.run(AppDef("a", [Role("r", "", entrypoint="sh", args=["-c", script])]), "local_cwd")


def _make_watch(
    runner: Runner,
    handle: str,
    *paces: Pace,
    standstills: Pace = FREE,
    saved_positions: Pace = FREE,
    noted: str | None = None,
    cursor: str | None = None,
    unread: Callable[[], int] = lambda: 0,
    seen: Seen | None = None,
    **fields: object,
) -> tuple[Watch, Seen]:
    seen = seen or Seen()
    deferral = Deferral(handle=handle, token="me", cursor=cursor, not_before=0.0, **fields)  # type: ignore[arg-type]  # noqa: S106
    pace = Paces(lines=paces or [FREE], standstills=standstills, saved_positions=saved_positions)
    watch = Watch(runner, deferral, seen, seen.saved_position, pace, seen.hide, noted, unread)
    return watch, seen


def test_every_line_is_shown_and_the_end_is_seen(runner: Runner) -> None:
    """The cursor it ends with has nothing after it."""
    watch, seen = _make_watch(runner, handle := _submit(runner, "echo a; echo b"))
    fired = asyncio.run(watch.until_over())
    assert (seen.lines, watch.drained) == (["a", "b"], True)
    assert list(runner.follow(handle, fired.cursor)) == []
    assert seen.saved == [fired.cursor]


def test_the_end_waits_for_who_reads_the_log(runner: Runner) -> None:
    """Airflow shows nothing more of a trigger that has ended, whatever it has yet to read."""
    left = [3, 2, 1]
    watch, seen = _make_watch(runner, _submit(runner, "echo a"), unread=lambda: left.pop() if left else 0)
    fired = asyncio.run(watch.until_over())
    assert (left, seen.lines, seen.saved) == ([], ["a"], [fired.cursor])


def test_only_what_was_read_is_saved(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A triggerer that is killed takes along what it has not read, and the next one goes on from there."""
    monkeypatch.setattr(_watch, "SAVE_EVERY_S", -1.0)
    script = f"echo a; until [ -e '{tmp_path}/go' ]; do sleep 0.05; done; echo b"
    handle = _submit(runner, script)

    class Reader(Seen):
        def write(self, event: AppEvent) -> None:
            super().write(event)
            if self.lines:
                (tmp_path / "go").touch()

    seen = Reader()
    watch, _ = _make_watch(runner, handle, unread=lambda: int("b" not in seen.lines), seen=seen)
    fired = asyncio.run(watch.until_over())
    assert (seen.lines, seen.saved[-1]) == (["a", "b"], fired.cursor)
    after_first_save = [line for batch in runner.follow(handle, seen.saved[0]) for line in batch.lines()]
    assert after_first_save == []


def test_a_cursor_of_another_app_is_not_followed(runner: Runner) -> None:
    """The watch goes on from the deferral's own: what the worker has shown does not come again."""
    other, handle = (_submit(runner, f"echo {each}") for each in ("other", "mine"))
    *_, elsewhere = (batch.cursor for batch in runner.follow(other))
    *_, shown = (batch.cursor for batch in runner.follow(handle))
    watch, seen = _make_watch(runner, handle, noted=elsewhere, cursor=shown)
    assert asyncio.run(watch.until_over()).error is None
    assert seen.lines == []


def test_what_comes_too_fast_is_left_to_the_worker(runner: Runner) -> None:
    """The watch ends when the app does, and the rest follows from its cursor, each line once."""
    handle = _submit(runner, "seq 60000; exec sleep 600")
    next(line for batch in runner.follow(handle) for line in batch.lines() if line.text == "60000")
    runner.cancel(handle, grace_s=0)
    watch, seen = _make_watch(runner, handle, Pace(1.0, 10.0))
    fired = asyncio.run(watch.until_over())
    assert not watch.drained
    assert 0 < len(seen.lines) < 60000
    rest = [line.text for batch in runner.follow(handle, fired.cursor) for line in batch.lines()]
    assert seen.lines + rest == [str(i) for i in range(1, 60001)]


def _ended(runner: Runner, script: str) -> str:
    """Return the handle of an app that has run the script and was then cancelled."""
    handle = _submit(runner, f"{script}; echo end; exec sleep 600")
    next(line for batch in runner.follow(handle) for line in batch.lines() if line.text == "end")
    runner.cancel(handle, grace_s=0)
    return handle


class SlowPipe:
    """A log that is read in small pieces with pauses, as Airflow's is when its database is slow."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while os.read(self._read_end, 1 << 12):
            self._closed.wait(0.05)

    def write(self, text: str) -> None:
        """Wait until there is room, and write."""
        os.write(self._write_end, text.encode())

    def close(self) -> None:
        """Read what is left at once."""
        self._closed.set()
        os.close(self._write_end)
        self._reader.join()
        os.close(self._read_end)


@pytest.fixture
def slow_pipe() -> Iterator[SlowPipe]:
    """Return such a log."""
    pipe = SlowPipe()
    yield pipe
    pipe.close()


def test_a_slow_log_is_left_to_the_worker(
    runner: Runner, slow_pipe: SlowPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the app is noticed long before its last line could be shown, and each line is shown once."""
    handle = _ended(runner, "seq 60000")
    watch, seen = _make_watch(runner, handle, standstills=Pace(0.5, 0.01))
    show = seen.write

    def show_slowly(event: AppEvent) -> None:
        show(event)
        slow_pipe.write(
            "".join(f"{line:>200}" for line in event.lines) if isinstance(event, LogLines) else ""
        )

    monkeypatch.setattr(seen, "write", show_slowly)
    fired = asyncio.run(watch.until_over())
    assert not watch.drained
    assert 0 < len(seen.lines) < 60000
    rest = [line.text for batch in runner.follow(handle, fired.cursor) for line in batch.lines()]
    assert seen.lines + rest == [*(str(i) for i in range(1, 60001)), "end"]


def test_everything_else_has_its_turn_between_two_records(runner: Runner) -> None:
    """However much an app has written, the event loop stands still for one record at most."""
    watch, seen = _make_watch(runner, _ended(runner, "seq 20000"))
    shown = [0]

    async def look() -> None:
        while True:
            shown.append(len(seen.lines))
            await asyncio.sleep(0)

    async def follow() -> None:
        looking = asyncio.create_task(look())
        await watch.until_over()
        looking.cancel()

    asyncio.run(follow())
    assert watch.drained
    assert max(after - before for before, after in pairwise(shown)) <= _watch.PIECE_LINES


def test_a_very_long_line_is_left_to_the_worker(runner: Runner) -> None:
    """Showing it would stop every trigger of the process; the worker goes on before it."""
    handle = _ended(runner, "echo a; head -c 100000 /dev/zero | tr '\\0' x; echo; echo b")
    watch, seen = _make_watch(runner, handle)
    fired = asyncio.run(watch.until_over())
    assert not watch.drained
    rest = [line.text for batch in runner.follow(handle, fired.cursor) for line in batch.lines()]
    assert "".join(seen.lines + rest) == f"a{'x' * 100000}bend"
    assert max(map(len, seen.lines), default=0) <= _watch.LONGEST_LINE


def test_saved_positions_share_a_pace(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where many are due each comes later; the last one, at the end, comes always."""
    monkeypatch.setattr(_watch, "SAVE_EVERY_S", 0.0)
    free = _saved_positions_of_four_lines(runner, tmp_path / "free", FREE)
    shared = _saved_positions_of_four_lines(runner, tmp_path / "shared", Pace(1e-3, 1.0))
    assert free > shared == 3


def _saved_positions_of_four_lines(runner: Runner, fifo: Path, saved_positions: Pace) -> int:
    os.mkfifo(fifo)
    handle = _submit(runner, f"while read -r l; do echo $l; done < {fifo}")
    watch, seen = _make_watch(runner, handle, saved_positions=saved_positions)

    async def write() -> None:
        watching = asyncio.create_task(watch.until_over())
        with fifo.open("w", buffering=1) as lines:
            for count in range(1, 5):
                lines.write("line\n")
                await asyncio.to_thread(wait_until, lambda count=count: len(seen.lines) == count, 240)
        await watching

    asyncio.run(write())
    return len(seen.saved)


def test_the_deadline_is_kept(runner: Runner) -> None:
    """The app is cancelled for the given reason."""
    handle = _submit(runner, "exec sleep 600")
    assert runner.take_over(handle, "me")
    watch, _ = _make_watch(runner, handle, deadline=time.time(), timeout_reason="too late")
    fired = asyncio.run(watch.until_over())
    status = runner.status(handle)
    assert status is not None
    assert (fired.timed_out, status.state, status.msg) == (True, AppState.CANCELLED, "too late")


def test_a_deadline_outlasts_a_scheduler_that_is_away(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept as soon as the scheduler is there again."""
    cancel = Deferral.cancel
    refusals = [SchedulerError("away", retryable=True)]

    async def refuse_once(deferral: Deferral, runner: Runner, reason: str) -> None:
        if refusals:
            raise refusals.pop()
        await cancel(deferral, runner, reason)

    monkeypatch.setattr(Deferral, "cancel", refuse_once)
    handle = _submit(runner, "exec sleep 600")
    assert runner.take_over(handle, "me")
    watch, _ = _make_watch(runner, handle, deadline=time.time(), timeout_reason="too late")
    assert asyncio.run(asyncio.wait_for(watch.until_over(), 240)).timed_out


@pytest.mark.parametrize(("answered", "error"), [(True, "None"), (False, "the login node is away")])
def test_an_absence_is_over_when_the_scheduler_answers(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, *, answered: bool, error: str
) -> None:
    """A quiet app has nothing new to show for hours; that it was asked in vain before does not count then."""
    monkeypatch.setattr(_watch, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(_watch, "TICK_S", 0.05)
    handle = _submit(runner, "exec sleep 600")
    stumble_twice(monkeypatch, answered=answered)
    watch, _ = _make_watch(runner, handle)
    assert str(asyncio.run(watch.until_over()).error).startswith(error)


def test_a_deadline_does_not_cancel_what_belongs_to_another(runner: Runner) -> None:
    """A newer try has taken the app over; the watch goes on watching."""
    handle = _submit(runner, "read -r _; exit 3")
    assert runner.take_over(handle, "newer")
    watch, _ = _make_watch(runner, handle, deadline=time.time())
    asyncio.run(watch.until_over())
    status = runner.status(handle)
    assert status is not None
    assert status.state is not AppState.CANCELLED


def test_an_unknown_app_is_an_error_not_an_end(runner: Runner) -> None:
    """Whoever resumes the task is told."""
    watch, _ = _make_watch(runner, "local_cwd://watch/nobody")
    assert "unknown app" in str(asyncio.run(watch.until_over()).error)


def test_a_process_with_too_many_files_waits_for_its_turn(runner: Runner) -> None:
    """A triggerer follows hundreds of apps, and may be allowed a thousand descriptors."""
    handles = [_submit(runner, "exec sleep 600") for _ in range(10)]
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def follow() -> list[Fired]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 5, usual[1]))
        try:
            watches = [asyncio.create_task(_make_watch(runner, each)[0].until_over()) for each in handles]
            done, _ = await asyncio.wait(watches, timeout=1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        assert not done
        for handle in handles:
            runner.cancel(handle, grace_s=0)
        return await asyncio.gather(*watches)

    assert [fired.error for fired in asyncio.run(follow())] == [None] * 10


def test_secrets_are_hidden_before_a_line_is_shown(runner: Runner) -> None:
    """The process that shows the lines is another one than that which knew the app."""
    role = Role("r", "", entrypoint="sh", args=["-c", "echo $API_TOKEN"], env={"API_TOKEN": "hunter22"})
    watch, seen = _make_watch(runner, runner.run(AppDef("a", [role]), "local_cwd"))
    asyncio.run(watch.until_over())
    assert seen.hidden["API_TOKEN"] == "hunter22"  # noqa: S105  (made up)


@pytest.mark.parametrize(
    ("quiet", "known"), [(True, "hunter22"), (False, "***"), (False, "redis://:***@cache")]
)
def test_what_may_hold_unknown_secrets_is_left_to_the_worker(runner: Runner, quiet: bool, known: str) -> None:
    """Docker tells nobody the values of its apps' secrets; the worker goes on from where it was."""
    role = Role("r", "", entrypoint="echo", args=["hunter22"], env={"API_TOKEN": known})
    watch, seen = _make_watch(runner, runner.run(AppDef("a", [role]), "local_cwd"), quiet=quiet)
    fired = asyncio.run(watch.until_over())
    assert (seen.lines, seen.saved, watch.drained) == ([], [], False)
    assert fired == Fired()


@pytest.mark.parametrize(("script", "state"), [("echo a", AppState.SUCCEEDED), ("exit 3", None)])
def test_a_success_whose_log_was_shown_is_handed_on(
    runner: Runner, script: str, state: AppState | None
) -> None:
    """The worker may be on a host that does not see the app; a failure it has to look at."""
    watch, _ = _make_watch(runner, _submit(runner, script))
    ended = Fired.from_json(asyncio.run(watch.until_over()).to_json()).ended
    assert (ended and ended.state) == state


def test_after_a_standstill_nothing_is_shown_at_once(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another triggerer may show the app's lines by now; this one is told within seconds."""
    monkeypatch.setattr(_watch, "STANDSTILL_S", -1.0)
    monkeypatch.setattr(_watch, "HOLD_BACK_S", 600.0)
    watch, seen = _make_watch(runner, handle := _submit(runner, "echo a"))
    runner.wait(handle)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(watch.until_over(), 1))
    assert (seen.lines, seen.saved) == ([], [])


def test_what_crosses_comes_back_as_it_was() -> None:
    """Through JSON values; what is no payload says nothing."""
    ended = AppStatus(state=AppState.SUCCEEDED, result={"loss": 0.5})
    fired = Fired(cursor="c", shown_bytes=3, left_out={"r/0": 4}, timed_out=True, error="e", ended=ended)
    assert Fired.from_json(json.loads(json.dumps(fired.to_json()))) == fired
    assert Fired.from_json({**fired.to_json(), "ended": {"state": 7}}) == replace(fired, ended=None)
    assert Fired.from_json("success") == Fired.from_json(None) == Fired()
