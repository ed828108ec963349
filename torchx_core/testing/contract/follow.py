"""Following: every line once, in order, from wherever one left."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from torchx_core.runner import Runner
from torchx_core.schedulers import Batch, ReplicaChanged, StateChanged, Stream
from torchx_core.specs import AppDef, AppState
from torchx_core.testing.contract.base import ContractBase, each_event, each_line, in_order, texts
from torchx_core.testing.steps import Exit, Print, PrintMany

__all__ = ["FollowContract"]

_MANY = 300
_TEXTS = [
    "",
    " ",
    'a\'; echo "b"',
    "tab\tand\rreturn",
    "ünïcödé 🙂",
    "$HOME ${app_id} $$",
    "-n",
    "%s {}",
    "\\n",
]
_HOUR = timedelta(hours=1)


class FollowContract(ContractBase):
    """One stream of events, which anybody may read from any place."""

    __test__ = False

    def chatty(self) -> AppDef:
        """Return an app of several replicas that print much on both streams."""
        turn = (PrintMany(_MANY), PrintMany(_MANY, "stderr"))
        steps = [step for i in range(3) for step in (*turn, Print(f"{i}"))]
        return AppDef("chatty", [self.role("a", *steps, num_replicas=2), self.role("b", *steps)])

    def test_every_line_arrives_once_and_in_order(self, runner: Runner) -> None:
        """Of every replica, followed while they print."""
        steps = [step for i in range(3) for step in (PrintMany(_MANY), Print(f"{i}"))]
        app = AppDef("chatty", [self.role("a", *steps, num_replicas=2), self.role("b", *steps)])
        lines = list(each_line(runner.follow(self.run(runner, app))))
        expected = [text for i in range(3) for text in (*map(str, range(_MANY)), str(i))]
        for role, replica in (("a", 0), ("a", 1), ("b", 0)):
            mine = [line.text for line in lines if (line.role, line.replica) == (role, replica)]
            assert mine == expected

    def test_every_line_of_both_streams_arrives_once_and_in_order(self, runner: Runner) -> None:
        """Each stream of every replica by itself."""
        self.needs(runner, "separate_streams")
        handle = self.run(runner, self.chatty())
        lines = list(each_line(runner.follow(handle)))
        numbers = [str(i) for i in range(_MANY)]
        out = [text for i in range(3) for text in (*numbers, str(i))]
        for role, replica in (("a", 0), ("a", 1), ("b", 0)):
            mine = [line for line in lines if (line.role, line.replica) == (role, replica)]
            assert [line.text for line in mine if line.stream == "stdout"] == out
            assert [line.text for line in mine if line.stream == "stderr"] == 3 * numbers

    def test_the_stream_tells_the_whole_story(self, runner: Runner) -> None:
        """It starts with RUNNING, has each replica's start and end, and ends with the app's status."""
        handle = self.run(runner, self.app(Print("x"), Exit(3)))
        events = list(each_event(runner.follow(handle)))
        states = [event for event in events if isinstance(event, StateChanged)]
        changes = [event for event in events if isinstance(event, ReplicaChanged)]
        assert [event.state for event in states] == [AppState.RUNNING, AppState.FAILED]
        ends = (AppState.FAILED, self.code(runner, 3))
        assert [(e.state, e.exit_code) for e in changes] == [(AppState.RUNNING, None), ends]
        assert events[-1] == states[-1]
        assert states[-1].status == runner.status(handle)

    def test_a_followed_app_is_followed_from_anywhere(self, runner: Runner, other: Runner) -> None:
        """From the cursor of any batch, another follower gets exactly the rest."""
        handle = self.run(runner, self.chatty())
        batches = list(runner.follow(handle))
        for i, batch in enumerate(batches):
            assert in_order(other.follow(handle, batch.cursor)) == in_order(batches[i + 1 :])

    def test_following_again_gives_the_same(self, runner: Runner, other: Runner) -> None:
        """The stream that was followed live is the stream that is read later."""
        handle = self.run(runner, self.chatty())
        live = in_order(runner.follow(handle))
        assert in_order(other.follow(handle)) == live

    def test_leaving_and_coming_back(self, runner: Runner, other: Runner) -> None:
        """Whoever leaves after each batch and comes back misses nothing and sees nothing twice."""
        handle = self.run(runner, self.chatty())
        batches: list[Batch] = []
        while batch := next(runner.follow(handle, batches[-1].cursor if batches else None), None):
            batches.append(batch)
        assert in_order(batches) == in_order(other.follow(handle))

    def test_following_on_an_event_loop(self, runner: Runner) -> None:
        """`afollow` yields what `follow` yields, to several at once, live and later."""
        handle = self.run(runner, self.chatty())

        async def follow() -> list[Batch]:
            return [batch async for batch in runner.afollow(handle)]

        async def several() -> list[list[Batch]]:
            return list(await asyncio.gather(*(follow() for _ in range(3))))

        live = [in_order(batches) for batches in asyncio.run(several())]
        expected = in_order(runner.follow(handle))
        assert live == [expected] * 3

    def test_following_only_one_role(self, runner: Runner) -> None:
        """Of the others neither lines nor changes arrive; the app's own states do."""
        handle = self.run(runner, AppDef("two", [self.role("a", Print("x")), self.role("b", Print("y"))]))
        assert in_order(runner.follow(handle, roles=["b"])).keys() == {(), ("b", 0), ("b", 0, "stdout")}

    @pytest.mark.parametrize(("streams", "expected"), [(Stream.STDOUT, "out"), (Stream.STDERR, "err")])
    def test_following_only_one_stream(self, runner: Runner, streams: Stream, expected: str) -> None:
        """Lines of the other do not arrive."""
        self.needs(runner, "separate_streams")
        handle = self.run(runner, self.app(Print("out"), Print("err", "stderr")))
        assert texts(runner.follow(handle, streams=streams)) == [expected]
        assert list(runner.log_lines(handle, "worker", streams=streams)) == [f"{expected}\n"]

    def test_one_stream_is_whole_however_much_the_other_says(self, runner: Runner) -> None:
        """What is left out ends nothing: neither the lines behind it nor the ends of app and replica."""
        self.needs(runner, "separate_streams")
        noise = [PrintMany(_MANY, "stderr")] * 3
        handle = self.run(runner, self.app(*noise, Print("first"), *noise, Print("last"), *noise))
        for batch_bytes in (64, 64, None):  # live, then once it has ended
            batches = list(runner.follow(handle, streams=Stream.STDOUT, batch_bytes=batch_bytes))
            assert texts(batches) == ["first", "last"]
            kinds = [type(event) for event in each_event(batches)]
            assert kinds.count(ReplicaChanged) == kinds.count(StateChanged) == 2
            assert list(runner.log_lines(handle, "worker", streams=Stream.STDOUT)) == ["first\n", "last\n"]

    def test_a_stream_that_nobody_reads_holds_nothing(self, runner: Runner) -> None:
        """Calling `follow` or `afollow` without a loop leaves no descriptor open."""
        handle = self.run(runner, self.app(Print("x")))
        self.end(runner, handle)
        runner.follow(handle)
        runner.afollow(handle)

    def test_following_without_logs(self, runner: Runner) -> None:
        """Everything but the lines arrives."""
        handle = self.run(runner, self.app(Print("x")))
        assert in_order(runner.follow(handle, logs=False)).keys() == {(), ("worker", 0)}

    def test_ticks_give_the_caller_its_thread_back(self, runner: Runner) -> None:
        """Without events an empty batch comes after ``tick_s``, with the cursor of the last one."""
        handle = self.hold(runner)
        cursor = None
        for batch in runner.follow(handle, tick_s=0.02):
            if not batch.events and cursor is not None:
                assert batch.cursor == cursor
                break
            cursor = batch.cursor

    def test_lines_arrive_as_they_were_printed(self, runner: Runner) -> None:
        """Quotes, unicode, control characters and empty lines; a last line without a newline says so."""
        steps = [*map(Print, _TEXTS), Print("unfinished", eol=False)]
        handle = self.run(runner, self.app(*steps))
        lines = list(each_line(runner.follow(handle)))
        assert [line.text for line in lines] == [*_TEXTS, "unfinished"]
        assert [line.eol for line in lines] == [True] * len(_TEXTS) + [False]

    def test_log_lines_are_one_replicas(self, runner: Runner) -> None:
        """Each with its newline, as it was printed, all attempts in order."""
        app = AppDef("two", [self.role("a", Print("x")), self.role("b", Print("y"), Print("z", eol=False))])
        handle = self.run(runner, app)
        assert list(runner.log_lines(handle, "b", should_tail=True)) == ["y\n", "z"]
        assert list(runner.log_lines(handle, "b")) == ["y\n", "z"]

    def test_log_lines_can_be_chosen(self, runner: Runner) -> None:
        """By what they say."""
        handle = self.run(runner, self.app(Print("apple"), Print("pear"), Print("plum")))
        lines = runner.log_lines(handle, "worker", regex="^p", should_tail=True)
        assert list(lines) == ["pear\n", "plum\n"]

    def test_log_lines_can_be_chosen_by_time(self, runner: Runner) -> None:
        """A window has its first moment and not its last."""
        self.needs(runner, "log_times")
        handle = self.run(runner, self.app(Print("apple"), Print("pear"), Print("plum", "stderr")))
        lines = [line.time for line in each_line(runner.follow(handle))]
        first, last = datetime.fromtimestamp(min(lines), UTC), datetime.fromtimestamp(max(lines), UTC)
        assert len(list(runner.log_lines(handle, "worker", since=first - _HOUR, until=last + _HOUR))) == 3
        assert list(runner.log_lines(handle, "worker", since=last + _HOUR)) == []
        assert list(runner.log_lines(handle, "worker", until=first - _HOUR)) == []

    def test_log_lines_of_a_running_app_end(self, runner: Runner) -> None:
        """Without ``should_tail`` they end at the last line printed so far."""
        self.needs(runner, "tail")
        handle = self.hold(runner)
        assert list(runner.log_lines(handle, "worker")) == ["up\n"]
        assert self.state(runner, handle) == AppState.RUNNING
