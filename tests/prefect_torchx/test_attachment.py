from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flow_tries import Flow, Leave, leave
from stumbles import stumble_twice

from prefect_torchx.attachment import Attachment, OvertakenError
from prefect_torchx.naming import FlowTry, Holder
from prefect_torchx.saved_position import SavedPosition
from torchx_core import Runner
from torchx_core.errors import AppIdConflictError, SchedulerError
from torchx_core.schedulers import Batch
from torchx_core.specs import AppHandle, AppState


def test_a_try_submits_once_and_follows_to_the_end() -> None:
    """The normal case: one app, its output in the log, its result in the status."""
    flow = Flow("print:hello", 'result:{"a": 1}', "exit:0")
    attachment = flow.attachment()
    status = attachment.run()
    assert (status.state, status.result) == (AppState.SUCCEEDED, {"a": 1})
    assert (attachment.handle, flow.states) == (flow.runner.list("fake")[0].app_handle, [AppState.SUCCEEDED])


def test_a_retry_follows_the_running_app() -> None:
    """A try that ends for reasons of its own leaves the app, and the next one finds it."""
    flow = Flow("print:hello", "hold")
    first, second = flow.attachment(check=leave), flow.attachment(task_try=2, check=leave)
    for attachment in (first, second):
        with pytest.raises(Leave):
            attachment.run()
    assert first.handle == second.handle
    assert flow.states == [AppState.RUNNING]


def test_a_retried_flow_run_follows_the_running_app() -> None:
    """Prefect gives its tasks new ids then; the work is the same."""
    flow = Flow("hold")
    for flow_try, task in ((1, "t"), (2, "another")):
        with pytest.raises(Leave):
            flow.attachment(flow_try=flow_try, task=task, check=leave).run()
    assert len(flow.states) == 1


def test_a_retry_returns_the_result_of_a_succeeded_app() -> None:
    """What is done is not done again, and its output is not shown twice by one process."""
    flow = Flow("print:hello", "result:5", "exit:0")
    flow.attachment().run()
    second = flow.attachment(task_try=2)
    assert second.run().result == 5
    assert len(flow.states) == 1
    assert "hello" not in second.page.shown


def test_a_retry_starts_a_failed_app_anew() -> None:
    """Each attempt is an app of its own, with its own record and logs."""
    flow = Flow("exit:3")
    first, second, third = (flow.attachment(task_try=number) for number in (1, 2, 3))
    assert [attachment.run().state for attachment in (first, second, third)] == [AppState.FAILED] * 3
    assert [second.handle, third.handle] == [f"{first.handle}-2", f"{first.handle}-3"]


@pytest.mark.parametrize("flow_try", [1, 2])
def test_what_the_log_lacks_of_a_failed_app_is_shown_before_the_next(flow_try: int) -> None:
    """Its follower died before it had shown all; the next try does, once, and then submits anew."""
    flow = Flow("print:a", "exit:3")
    first = flow.attachment()
    first.attach()
    assert first.handle
    flow.runner.wait(first.handle)
    second = flow.attachment(task_try=2, flow_try=flow_try)
    second.run()
    assert second.page.shown == ["a", "a"]
    assert second.handle == f"{first.handle}-2"
    third = flow.attachment(task_try=3, flow_try=flow_try)
    third.run()
    assert third.page.shown == ["a"]


@pytest.mark.parametrize("is_slow", [False, True], ids=["delivered at once", "delivered later"])
def test_what_the_log_lacks_of_a_cancelled_app_is_shown_once_before_the_next(*, is_slow: bool) -> None:
    """A cancelled run has seconds for the last lines; whoever runs it again shows the rest."""
    flow = Flow("print:a", "hold")
    first = flow.attachment()
    first.attach()
    assert first.handle
    assert next(line.text for batch in flow.runner.follow(first.handle) for line in batch.lines()) == "a"
    first.attachment.cancel("because")

    def leave_the_next() -> None:
        if len(flow.states) > 1:
            leave()

    second = flow.attachment(task_try=2, check=leave_the_next)
    second.page.is_slow = is_slow
    with pytest.raises(Leave):
        second.run()
    assert second.page.shown == ["a"]
    assert second.handle == f"{first.handle}-2"


@pytest.mark.parametrize("task", ["t", "another"])
def test_equal_calls_of_one_run_have_an_app_each(task: str) -> None:
    """A second call, of the same task or of another one, does not take the first one's app for its own."""
    flow = Flow("exit:0")
    first, second = flow.attachment(), flow.attachment(task=task)
    first.run()
    second.run()
    assert first.handle != second.handle
    assert len(flow.states) == 2


def test_a_retry_finds_the_app_of_each_of_its_calls() -> None:
    """Two equal calls of a retried task run nothing again."""
    flow = Flow("exit:0")
    before = [flow.attachment(), flow.attachment()]
    after = [flow.attachment(task_try=2), flow.attachment(task_try=2)]
    for attachment in before + after:
        attachment.run()
    assert [attachment.handle for attachment in before] == [attachment.handle for attachment in after]


def test_cancelling_ends_the_app_with_the_reason() -> None:
    """The reason is in the app's status, for everybody to see."""
    flow = Flow("hold")
    attachment = flow.attachment(check=leave)
    with pytest.raises(Leave):
        attachment.run()
    attachment.cancel()
    assert attachment.handle
    status = flow.runner.status(attachment.handle)
    assert status
    assert (status.state, status.msg) == (AppState.CANCELLED, "because")


def test_cancelling_before_anything_was_submitted_does_nothing() -> None:
    """An interruption may come at any point."""
    flow = Flow("hold")
    flow.attachment().cancel()
    assert flow.states == []


@pytest.mark.parametrize("step", ["status", "owner", "take_over"])
def test_a_try_that_is_cancelled_before_it_attaches_cancels_what_it_would_have_followed(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would come for the app that an earlier try has left; its lease may be long."""
    flow = Flow("hold")
    with pytest.raises(Leave):
        flow.attachment(check=leave).run()
    second = flow.attachment(task_try=2)
    with monkeypatch.context() as patch:
        patch.setattr(flow.runner, step, lambda *_, **__: leave())
        with pytest.raises(Leave):
            second.attach()
    second.cancel()
    assert flow.states == [AppState.CANCELLED]


def test_a_try_that_is_cancelled_before_it_attaches_leaves_the_apps_of_its_peers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equal calls of one try have an app each: what another one has taken over by now is not ours."""
    flow = Flow("hold")
    first, peer = flow.attachment(check=leave), flow.attachment(task="u", task_try=2, check=leave)
    for attachment in (first, peer):
        with pytest.raises(Leave):
            attachment.run()
    late = flow.attachment(task="v", task_try=2)
    with monkeypatch.context() as patch:
        patch.setattr(flow.runner, "status", lambda *_, **__: leave())
        with pytest.raises(Leave):
            late.attach()
    late.cancel()
    assert AppState.CANCELLED not in flow.states


def test_an_older_try_cannot_cancel_the_app_of_a_newer_one() -> None:
    """A try that was frozen while another took its place does no harm when it thaws."""
    flow = Flow("hold")
    old, new = flow.attachment(check=leave), flow.attachment(flow_try=2, check=leave)
    for attachment in (old, new):
        with pytest.raises(Leave):
            attachment.run()
    old.cancel()
    assert flow.states == [AppState.RUNNING]


def test_an_older_try_does_not_take_the_app_back() -> None:
    """It neither follows nor duplicates what a newer try has."""
    flow = Flow("hold")
    with pytest.raises(Leave):
        flow.attachment(flow_try=2, check=leave).run()
    with pytest.raises(OvertakenError, match="belongs to a later try"):
        flow.attachment(flow_try=1).run()
    assert len(flow.states) == 1


def test_an_older_try_that_is_still_alive_shows_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is in the log once; it follows the app to its end, for its failure would be the run's."""
    monkeypatch.setattr("prefect_torchx.reading.ASK_EVERY_S", 0.0)
    flow = Flow(*(f"print:{number}" for number in range(50)), "exit:0")
    looks = itertools.count()

    def overtake() -> None:
        if next(looks) == 3:
            flow.attachment(flow_try=2).attach()

    old = flow.attachment(check=overtake)
    assert old.run().state is AppState.SUCCEEDED
    assert len(old.page.shown) < 50
    assert old.page.shown == [str(number) for number in range(len(old.page.shown))]


def test_a_retry_waits_for_the_end_of_a_cancelled_app_and_starts_anew() -> None:
    """It does not take an app that is being stopped for a running one."""
    flow = Flow("hold")
    first = flow.attachment(check=leave)
    with pytest.raises(Leave):
        first.run()
    assert first.handle
    first.cancel()
    second = flow.attachment(task_try=2, check=lambda: leave() if len(flow.states) > 1 else None)
    with pytest.raises(Leave):
        second.run()
    assert second.handle == f"{first.handle}-2"
    assert flow.states == [AppState.CANCELLED, AppState.RUNNING]


def test_a_shared_app_is_the_same_for_every_run() -> None:
    """With a key of the user's, runs that know nothing of each other are after one app."""
    flow = Flow("exit:0", shared=True)
    for task in ("a", "b"):
        flow.attachment(task=task).run()
    assert len(flow.states) == 1


def test_a_shared_app_with_another_request_is_refused() -> None:
    """A key names one request; another one under the same key is a mistake, and the app goes on."""
    flow = Flow("hold", shared=True)
    first = flow.attachment(check=leave)
    with pytest.raises(Leave):
        first.run()
    flow.request.app.app.roles[0].args = ["exit:0"]
    with pytest.raises(AppIdConflictError, match=r"hold.*exit:0"):
        flow.attachment().run()
    assert flow.states == [AppState.RUNNING]
    assert first.attachment.cancel("it is still the first one's")
    flow.runner.wait(str(first.handle))
    assert flow.states == [AppState.CANCELLED]


def test_a_call_that_another_one_forestalls_withdraws_what_it_wrote_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have found no app and submit the same id; one signs first, the other has an app of its own."""
    flow = Flow("hold")
    first, second = flow.attachment(task="a", check=leave), flow.attachment(task="b", check=leave)
    take_over = Runner.take_over

    def late(runner: Runner, handle: AppHandle, token: str, **how: Any) -> bool:
        monkeypatch.setattr(Runner, "take_over", take_over)
        with pytest.raises(Leave):
            first.run()
        return take_over(runner, handle, token, **how)

    monkeypatch.setattr(Runner, "take_over", late)
    with pytest.raises(Leave):
        second.run()
    assert flow.position_store.withdrawn == [first.handle]
    assert (second.handle != first.handle, flow.states) == (True, [AppState.RUNNING] * 2)


def test_a_deleted_app_runs_anew_with_all_its_output() -> None:
    """What this process has shown of the deleted app says nothing about the new one of that name."""
    flow = Flow("print:hello", "exit:0", shared=True)
    flow.attachment().run()
    flow.runner.delete(flow.runner.list("fake")[0].app_handle)
    again = flow.attachment()
    again.run()
    assert "hello" in again.page.shown


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which this process knows as little as a new one."""
    from prefect_torchx import saved_position
    from prefect_torchx.own import Latest

    return lambda: monkeypatch.setattr(saved_position, "_known", Latest(9))


def test_a_try_in_another_process_goes_on_where_the_log_stopped(forgetful: Callable[[], None]) -> None:
    """What was delivered is not shown again, and nothing after it is left out."""
    flow = Flow("print:a", "hold")
    first = flow.attachment(check=lambda: leave() if first.page.shown else None)
    with pytest.raises(Leave):
        first.run()
    saved = dict(flow.position_store.positions)
    forgetful()

    def end() -> None:
        flow.runner.cancel(str(first.handle))

    second = flow.attachment(flow_try=2, check=end)
    second.run()
    assert (first.page.shown, second.page.shown) == (["a"], [])
    assert flow.position_store.positions != saved


def test_a_position_of_a_deleted_app_is_not_used_for_the_next_one(forgetful: Callable[[], None]) -> None:
    """Not even when it was submitted by a process that died before it had anything to save."""
    flow = Flow("print:hello", "exit:0", shared=True)
    flow.attachment().run()
    flow.runner.delete(flow.runner.list("fake")[0].app_handle)
    flow.attachment().attach()
    assert list(flow.position_store.positions.values()) == [None]
    forgetful()
    again = flow.attachment(flow_try=2)
    again.run()
    assert again.page.shown == ["hello"]


def test_a_full_page_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader waits; every line comes once, in order."""
    monkeypatch.setattr("prefect_torchx.reading.TICK_S", 0.01)
    lines = [str(number) for number in range(50)]
    flow = Flow(*(f"print:{line}" for line in lines), "exit:0")
    reader = flow.attachment()
    reader.page.room = 1
    assert reader.run().state is AppState.SUCCEEDED
    assert reader.page.shown == lines


def test_the_replicas_are_located_once_the_app_runs() -> None:
    """Once, and no line is lost over it."""
    flow = Flow("print:a", "print:b", "exit:0")
    this_try = flow.attachment()
    located: list[AppHandle] = []
    places = SavedPosition(flow.position_store)
    me = Holder(flow_tries=(FlowTry("run", 1),), task_run_id="t", task_try=1, call="c")

    def locate(handle: AppHandle) -> bool:
        located.append(handle)
        return True

    this_try.attachment = Attachment(flow.runner, this_try.page, places, me, locate=locate)
    this_try.run()
    assert located == [this_try.handle]
    assert this_try.page.shown == ["a", "b"]


# --- a scheduler that is away


VERBS = ["status", "run", "owner", "take_over", "follow"]


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that has the scheduler fail one call of a verb, before or after it was served."""
    monkeypatch.setattr("torchx_core.launch.patience.FIRST_DELAY_S", 0.01)

    def fail(runner: Runner, verb: str, call: int, *, served: bool) -> None:
        real = getattr(runner, verb)
        calls = itertools.count(1)

        def once(*args: object, **kwargs: object) -> object:
            fails = next(calls) == call
            if fails and not served:
                raise SchedulerError("no answer", retryable=True)
            value = real(*args, **kwargs)
            if fails:
                for app in runner.list("fake"):  # they end while nobody can see it
                    list(Runner.follow(runner, app.app_handle))
                raise SchedulerError("no answer", retryable=True)
            return value

        monkeypatch.setattr(runner, verb, once)

    return fail


@pytest.mark.parametrize("served", [False, True], ids=["not served", "served"])
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("retry", [False, True], ids=["first try", "retry"])
def test_a_scheduler_that_is_away_for_a_moment_changes_nothing(
    verb: str, call: int, served: bool, retry: bool, away: Callable[..., None]
) -> None:
    """Whatever call it misses: one app, and all of its output, though the app itself fails at once."""
    flow = Flow("print:hello", "exit:3") if not retry else Flow("print:hello", "exit:0")
    if retry:
        flow.attachment().attach()
    away(flow.runner, verb, call, served=served)
    this_try = flow.attachment(task_try=2)
    this_try.run()
    assert this_try.page.shown == ["hello"]
    assert len(flow.states) == 1


def test_a_scheduler_that_stays_away_fails_the_try_and_leaves_the_app(
    away: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is wrong; the next try finds the app."""
    monkeypatch.setattr("prefect_torchx.reading.PATIENCE_S", -1.0)
    flow = Flow("hold")
    away(flow.runner, "follow", 1, served=False)
    first = flow.attachment()
    with pytest.raises(SchedulerError, match="no answer"):
        first.run()
    second = flow.attachment(task_try=2, check=leave)
    with pytest.raises(Leave):
        second.run()
    assert (second.handle, flow.states) == (first.handle, [AppState.RUNNING])


def test_a_scheduler_that_stumbles_now_and_then_is_forgiven(
    away: Callable[..., None],  # noqa: ARG001  (for its short delays)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What counts is how long it has been away this time; between the lines nothing is lost or repeated."""
    monkeypatch.setattr("prefect_torchx.reading.PATIENCE_S", 0.0)
    flow = Flow("print:a", "print:b", "exit:0")
    stumbles = itertools.count()

    def follow(*args: Any, **kwargs: Any) -> Iterator[Batch]:
        for batch in Runner.follow(flow.runner, *args, **kwargs):
            yield batch
            if batch.events and next(stumbles) < 3:
                raise SchedulerError("no answer", retryable=True)

    monkeypatch.setattr(flow.runner, "follow", follow)
    this_try = flow.attachment()
    this_try.run()
    assert this_try.page.shown == ["a", "b"]


@pytest.mark.parametrize("answered", [True, False])
def test_an_absence_is_over_when_the_scheduler_answers(
    monkeypatch: pytest.MonkeyPatch, *, answered: bool
) -> None:
    """A stream that opens, says nothing and breaks off again and again is no answer; one that stands is."""
    monkeypatch.setattr("prefect_torchx.reading.PATIENCE_S", 0.0)
    flow = Flow("hold")
    this_try = flow.attachment()
    stumble_twice(monkeypatch, answered=answered)
    if answered:
        assert this_try.run().state is AppState.CANCELLED
    else:
        with pytest.raises(SchedulerError, match="away"):
            this_try.run()


def test_an_app_that_was_cancelled_while_it_was_submitted_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an event loop a cancel does not wait for ever for a submit, which then finds itself unwanted."""
    flow = Flow("hold")
    this_try = flow.attachment()
    submit = flow.runner.run

    def submit_slowly(*args: Any, **kwargs: Any) -> AppHandle:
        this_try.attachment.cancel("because")
        return submit(*args, **kwargs)

    monkeypatch.setattr(flow.runner, "run", submit_slowly)
    assert this_try.run().msg == "because"
