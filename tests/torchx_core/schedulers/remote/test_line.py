"""What becomes of questions when the connection breaks; see `near_agent`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from near_agent import NearNode
from own_threads import started_since, threads_now

from torchx_core import AppDef, AppState, Role, Runner
from torchx_core.errors import SchedulerError, SubmitFailedError, SubmitOutcomeUnknownError
from torchx_core.schedulers import Batch, LogLines, StateChanged
from torchx_core.schedulers.remote import feed, line
from torchx_core.testing import wait_until

HELD = AppDef("held", [Role("w", image="", entrypoint="fake", args=["lines:3", "hold"])])
QUICK = AppDef("quick", [Role("w", image="", entrypoint="fake", args=["lines:3"])])


@pytest.fixture
def node() -> NearNode:
    """A login node."""
    return NearNode()


@pytest.fixture
def runner(node: NearNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner that reaches it, and soon tries again when it does not."""
    monkeypatch.setattr(line, "_FIRST_DELAY_S", 0.01)
    with Runner("s", {"slurm": node.scheduler}) as runner:
        yield runner


def test_nothing_is_dialled_before_something_is_asked(node: NearNode, runner: Runner) -> None:
    """A dry run and a closed runner need no connection."""
    runner.dryrun(QUICK, "slurm")
    assert node.dials == 0


def test_everybody_shares_one_connection(node: NearNode, runner: Runner) -> None:
    """Runners, questions and followers."""
    handles = [runner.run(QUICK, "slurm") for _ in range(3)]
    with Runner("s", {"slurm": node.scheduler}) as other:
        assert [other.wait(handle) for handle in handles] == [runner.wait(handle) for handle in handles]
    assert runner.status(handles[0]) is not None
    assert node.dials == 1


def test_a_question_is_put_again(node: NearNode, runner: Runner) -> None:
    """Whoever asks notices nothing of one break."""
    handle = runner.run(QUICK, "slurm")
    node.deaf_to, node.deaf_times = "status", 1
    assert runner.status(handle) is not None
    assert node.dials == 2


def test_a_question_is_not_put_for_ever(node: NearNode, runner: Runner) -> None:
    """When its connection breaks twice it fails, and may be put again later."""
    handle = runner.run(QUICK, "slurm")
    node.deaf_to, node.deaf_times = "status", 2
    with pytest.raises(SchedulerError, match="lost the connection to login node near: cut") as caught:
        runner.status(handle)
    assert caught.value.retryable
    assert runner.status(handle) is not None


def test_an_answer_that_does_not_come(
    node: NearNode, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is not waited for in vain, and the next question is answered."""
    handle = runner.run(QUICK, "slurm")
    node.mute_to = "status"
    with monkeypatch.context() as hurry:
        hurry.setattr(line, "_ANSWER_S", 0.1)
        with pytest.raises(SchedulerError, match=r"no answer from login node near within 0\.1 s") as caught:
            runner.status(handle)
    assert caught.value.retryable
    assert [row.app_handle for row in runner.list("slurm")] == [handle]


def test_a_connection_that_ends_as_it_begins(node: NearNode, runner: Runner) -> None:
    """Counts as one that is lost."""
    node.ends_at_once = 1
    assert runner.list("slurm") == []
    node.cut()
    node.ends_at_once = 2
    with pytest.raises(
        SchedulerError, match="lost the connection to login node near: the connection was lost"
    ):
        runner.list("slurm")


def test_what_nobody_foresaw(node: NearNode, runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """Leaves nobody waiting: whoever asks hears of it, and the log has its traceback."""
    node.trouble = RuntimeError("out of luck")
    with pytest.raises(SchedulerError, match=r"cannot reach login node near: RuntimeError\('out of luck'\)"):
        runner.list("slurm")
    assert "Traceback" in caplog.text


def test_whoever_waits_when_it_is_closed(node: NearNode, runner: Runner) -> None:
    """Hears of it, however far the connection has come."""
    node.hangs = True
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(runner.list, "slurm")
        wait_until(lambda: node.dials == 1, 240)
        runner.close()
        with pytest.raises(SchedulerError, match="the connection to login node near was closed"):
            asked.result(60)


def test_while_it_is_away_questions_fail(node: NearNode, runner: Runner) -> None:
    """At once, and retryable."""
    node.away = "away"
    with pytest.raises(SchedulerError, match="away") as caught:
        runner.list("slurm")
    assert caught.value.retryable


def test_a_submit_that_reached_nobody_failed(node: NearNode, runner: Runner) -> None:
    """Nothing was submitted, and the error says so."""
    node.away = "away"
    with pytest.raises(SubmitFailedError, match="cannot submit app 'one': away") as caught:
        runner.run(HELD, "slurm", app_id="one")
    assert caught.value.retryable
    node.away = ""
    assert runner.list("slurm") == []


def test_a_submit_whose_answer_is_lost_is_settled_by_the_next(node: NearNode, runner: Runner) -> None:
    """Its outcome is unknown, and there is one app."""
    node.deaf_to, node.deaf_times = "schedule", 2
    with pytest.raises(SubmitOutcomeUnknownError, match="'one' was submitted: lost the connection"):
        runner.run(HELD, "slurm", app_id="one")
    runner.run(HELD, "slurm", app_id="one")
    assert [row.app_id for row in runner.list("slurm")] == ["one"]


def test_followers_wait_and_go_on(node: NearNode, runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """However often it breaks: each line once, and one warning for all followers of a break."""
    handles = [runner.run(HELD, "slurm", app_id=f"app-{i}") for i in range(3)]
    follows = [runner.follow(handle, tick_s=0.01) for handle in handles]
    before = [_until_it_holds(batches) for batches in follows]
    node.away = "away"
    with caplog.at_level(logging.INFO, logger="torchx_core"):
        node.cut()
        away = [list(islice(batches, 20)) for batches in follows]
        node.away = ""
        wait_until(lambda: "is back" in caplog.text, 240)
    assert caplog.text.count("followers wait until it is back") == 1
    for _ in range(3):
        _cut_and_wait(node)
    for handle in handles:
        runner.cancel(handle, grace_s=0)
    for i, batches in enumerate(follows):
        assert not any(batch.events for batch in away[i])
        *_, last = events = [event for batch in [*before[i], *batches] for event in batch.events]
        assert isinstance(last, StateChanged)
        assert last.state is AppState.CANCELLED
        assert [event.lines for event in events if isinstance(event, LogLines)] == [("0", "1", "2")]


def _until_it_holds(batches: Iterator[Batch]) -> list[Batch]:
    """Return all there is to see of a held app: its lines, and the first quiet moment after them."""
    seen = [next(batches)]
    while seen[-1].events or not any(any(batch.lines()) for batch in seen):
        seen.append(next(batches))
    return seen


def _cut_and_wait(node: NearNode) -> None:
    before = node.dials
    node.cut()
    wait_until(lambda: node.dials > before, 240)


def test_followers_do_not_wait_for_what_never_gets_better(node: NearNode, runner: Runner) -> None:
    """A host key that has changed, say: they end with the error."""
    follow = runner.follow(runner.run(HELD, "slurm"), tick_s=0.01)
    next(follow)
    node.away = "for ever"
    node.cut()
    with pytest.raises(SchedulerError, match="for ever"):
        for _ in follow:
            pass


def test_many_are_followed_without_a_thread_each(node: NearNode, runner: Runner) -> None:
    """All of them by the one thread of the connection and one event loop."""
    handles = [runner.run(QUICK, "slurm") for _ in range(30)]
    before = threads_now()

    async def last_state(handle: str) -> AppState:
        state = AppState.UNKNOWN
        async for batch in runner.afollow(handle):
            for event in batch.events:
                state = event.state if isinstance(event, StateChanged) else state
        return state

    async def together() -> tuple[list[AppState], int]:
        states = asyncio.gather(*map(last_state, handles))
        await asyncio.sleep(0)
        return list(await states), len(started_since(before))

    states, threads = asyncio.run(together())
    assert states == [AppState.SUCCEEDED] * 30
    assert threads < len(handles) / 2  # the agent, which is in this process too, has a few
    assert node.dials == 1


def test_a_fork_has_a_connection_of_its_own(node: NearNode, runner: Runner) -> None:
    """It uses the scheduler of its parent, and the parent's connection goes on."""
    handle = runner.run(QUICK, "slurm")
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if runner.status(handle) is not None and node.dials == 2 else 2
            runner.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert runner.status(handle) is not None
    assert node.dials == 1


def test_a_look_at_the_log_ends_where_the_log_does(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for news who asked for what is there."""
    monkeypatch.setattr(feed, "_PATIENCE_S", 3600.0)
    assert list(runner.log_lines(runner.run(HELD, "slurm"), "w")) == ["0\n", "1\n", "2\n"]


def test_a_follower_that_leaves_is_forgotten(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent looks at its app no more, so the lease is over, long before an answer is due."""
    monkeypatch.setattr(feed, "_PATIENCE_S", 3600.0)
    handle = runner.run(HELD, "slurm", {"lease_s": 0.2})
    follow = runner.follow(handle, tick_s=0.01)
    list(islice(follow, 10))
    follow.close()  # type: ignore[attr-defined]  # a generator
    wait_until(lambda: (status := runner.status(handle)) and status.state is AppState.CANCELLED, 240)
