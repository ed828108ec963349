"""Reads one replica's log: what is there, then what comes, then what a broken stream left out."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import cast
from urllib.parse import urlencode

from torchx_core.schedulers.docker.answers import MEANINGLESS, Json, LogStorage, read_log_storage
from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.exchange import Answer, Exchange, Request
from torchx_core.schedulers.docker.frames import (
    STDERR,
    STDOUT,
    BadFrame,
    Frames,
    Record,
    moved_back,
    unix_time,
)
from torchx_core.schedulers.docker.lines import LogPlace, Run, Seek, StreamLines, StreamPlace
from torchx_core.schedulers.docker.shim import MARKER_PREFIX
from torchx_core.schedulers.responses import Stream

__all__ = ["ReplicaLog"]

_STREAMS = {
    Stream.STDOUT: (STDOUT,),
    Stream.STDERR: (STDERR,),
    Stream.COMBINED: (STDOUT, STDERR),
}
_FIRST_MARGIN_S, _MARGIN_S = 60.0, 0.5
"""How far before the last record to begin, of a place from elsewhere and of our own: stamps may decrease."""
_FIRST_PAUSE_S, _PATIENT_S, _LAST_PAUSE_S = 0.05, 1.0, 2.0
_OK, _GONE, _DEAD, _TROUBLE, _UNREADABLE = 200, 404, 409, 500, 501
_MOST_REFUSALS = 40
"""How often in a row, over a minute, an engine in trouble is asked for a log before that counts as lost."""


class _Doing(Enum):
    INSPECT = "asking how the log is kept"
    READ = "reading what is there"
    FOLLOW = "reading what is there and what comes"
    MARK = "looking what is the last record now"
    TAIL = "looking whether what was read last is the last"


_ASKS_FOR_END = (_Doing.MARK, _Doing.TAIL)


class ReplicaLog:
    """The log of one container, over any number of requests.

    First it reads what is there, and while the container is up it follows. (If nothing was read before it
    follows at once, but marks the last record, to know when it has caught up.) A stream of an engine may end
    early, at the container's end or because the engine is busy or restarts, and not say so: so after each end
    it makes sure that what it read last is the last, or reads on from there. A log that rotates is not
    followed but read again and again: engines before 23 skip the end of a file that was rotated while they
    follow it.

    What cannot be known: that a clock was set back by more than a minute while nobody followed. The engine
    finds records by their time, so it does not find those that are older than the place.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        version: str,
        *,
        container: str,
        key: str | None,
        streams: Stream,
        place: LogPlace,
    ) -> None:
        """Ask for nothing yet.

        Args:
            endpoint: The engine.
            version: Of its API.
            container: Name or id.
            key: What markers of attempts carry; None where there are none.
            streams: Which of the streams to read.
            place: Where to begin.
        """
        self._endpoint, self._version, self._container = endpoint, version, container
        self._wanted = _STREAMS[streams]
        self._lines = {s: StreamLines(s, key, place.streams.get(s, StreamPlace())) for s in self._wanted}
        self._others = {s: p for s, p in place.streams.items() if s not in self._lines}
        self._since = place.since
        self._margin_s = _FIRST_MARGIN_S
        self._has_markers = key is not None
        self._gone = place.gone
        self._exchange: Exchange | None = None
        self._doing = _Doing.INSPECT
        self._next = _Doing.INSPECT
        self._body: list[bytes] = []
        self._end: list[Record] = []
        self._mark: Record | None = None
        self._frames = Frames()
        self._seeks: dict[int, Seek] = {}
        self._queue: list[Record] = []
        self._waiting_attempt = -1
        self._log_storage = LogStorage(rotates=False, drops_newlines=False)
        self._up = self._was_up = True
        self._starts: int = -1
        self._ending = False
        self._stale = False
        self._pause_s = _FIRST_PAUSE_S
        self._refusals = 0
        self.due_at: float = 0.0
        """When to go on, in monotonic seconds, if nothing is under way."""
        self.caught_up: bool = place.gone
        """Whether everything has been read that was there at first."""
        self.drained: bool = place.gone
        """Whether everything has been returned that there will be."""
        self.lost: list[str] = []
        """Why lines are missing before the next ones; whoever takes note of it clears it."""
        self.wants_look: bool = False
        """Whether the container may have ended; whoever looks clears it."""

    @property
    def place(self) -> LogPlace:
        """Right after what was returned."""
        opened = [lines.opened for lines in self._lines.values() if lines.opened]
        streams = self._others | {s: lines.place for s, lines in self._lines.items()}
        return LogPlace(since=min([self._since, *opened]), streams=streams, gone=self._gone)

    @property
    def exchange(self) -> Exchange | None:
        """What is under way and may be waited for; nothing while records wait to be taken."""
        return None if self._queue else self._exchange

    @property
    def waits_for_time(self) -> bool:
        """Whether nothing is under way, and something will be begun at `due_at`."""
        return self._exchange is None and not (self._queue or self.drained or self._ending or self._stale)

    @property
    def _is_combined(self) -> bool:
        """Whether both streams are read: the end of a log is known only to who reads all of it."""
        return self._wanted == _STREAMS[Stream.COMBINED]

    def passed(self, attempt: int) -> bool:
        """Return whether every line of the attempt has been returned."""
        if self.drained or max(self._waiting_attempt, self.attempt) > attempt:
            return True
        return not self._has_markers and attempt + 1 < self._starts

    @property
    def attempt(self) -> int:
        """The attempt that the next lines belong to, or an earlier one."""
        return min(lines.attempt for lines in self._lines.values())

    def mind(self, *, up: bool, starts: int) -> None:
        """Take note of how the container stands.

        Args:
            up: Whether it runs, or will run again at any moment.
            starts: How often it was started, as far as is known.
        """
        if up or starts != self._starts:
            self.drained, self._ending = self._gone, False
        self._up, self._starts, self._stale = up, starts, False
        if not up and not self._refusals:
            self.due_at = 0.0  # what is there now is all: no use to wait for more

    def advance(self, now: float) -> None:
        """Carry on with what is under way, or begin what comes next."""
        if self._queue or self.drained or self._ending:
            return
        if self._exchange is None:
            if self._stale or now < self.due_at:
                return
            self._begin()
        exchange = cast("Exchange", self._exchange)
        data = exchange.advance()
        try:
            self._take(exchange, data)
        except BadFrame as err:
            exchange.failure = err
        if exchange.over:
            self._exchange = None
            exchange.close()
            self._finish(exchange, now)

    def take(self, attempt: int, size: int) -> list[Run]:
        """Return the lines that have come, up to the end of that attempt and about so many bytes."""
        runs: list[Run] = []
        at = 0
        for at, record in enumerate(self._queue, 1):
            lines = self._lines[record.stream]
            size -= len(record.data)
            number = lines.next_attempt(record) if record.data.startswith(MARKER_PREFIX) else None
            if number is None:
                lines.take(record, runs)
            elif number > attempt:
                self._waiting_attempt = number
                at -= 1  # noqa: PLW2901  # this one stays
                break
            else:
                lines.begin(number, record, runs)
            if size <= 0 and runs:  # with no line complete yet, nobody would know that there is more
                break
        if at:
            self._since = self._queue[at - 1].stamp
            self._queue = self._queue[at:]
            if self._mark is not None and self._lines[self._mark.stream].place.stamp >= self._mark.stamp:
                self._mark, self.caught_up = None, True
        if self._ending and not self._queue:
            for lines in self._lines.values():
                lines.finish(runs)
            self.drained = True
        return runs

    def close(self) -> None:
        """Let go of the connection."""
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    # --- asking

    def _begin(self) -> None:
        self._doing, self._was_up = self._next, self._up
        self._body, self._end = [], []
        self._frames = Frames()
        place = self.place
        self._since = place.since
        for lines in self._lines.values():
            lines.rewind()
        floor = moved_back(place.since, self._margin_s) if place.since else b""
        self._seeks = {s: Seek(lines.place, floor) for s, lines in self._lines.items()}
        self._exchange = Exchange(self._endpoint, self._version, self._request(floor))

    def _request(self, floor: bytes) -> Request:
        path = f"/containers/{self._container}"
        if self._doing is _Doing.INSPECT:
            return Request(f"{path}/json")
        query = {"timestamps": "1"}
        query |= {name: "1" for s, name in ((STDOUT, "stdout"), (STDERR, "stderr")) if s in self._wanted}
        if self._doing in _ASKS_FOR_END:
            query["tail"] = "2"
        elif floor:
            query["since"] = unix_time(floor)
        if self._doing is _Doing.FOLLOW:
            query["follow"] = "1"
        # What follows is checked at its end anyway, so it may come raw.
        return Request(f"{path}/logs?{urlencode(query)}", raw=self._doing is _Doing.FOLLOW)

    # --- reading

    def _take(self, exchange: Exchange, data: bytes) -> None:
        if not data:
            return
        if exchange.status != _OK or self._doing is _Doing.INSPECT:
            self._body.append(data)
            return
        self._refusals = 0
        records = self._frames.take(data)
        if self._doing in _ASKS_FOR_END:
            self._end += records
            return
        if all(seek.found or not seek.expected for seek in self._seeks.values()):
            self._add(records)
        else:
            self._add(r for record in records for r in self._seeks[record.stream].take([record]))

    def _add(self, records: Iterator[Record] | list[Record]) -> None:
        before = len(self._queue)
        self._queue.extend(records)
        if len(self._queue) > before:
            self._pause_s = _FIRST_PAUSE_S
            self._check_heads(self._queue[before:])

    def _check_heads(self, records: list[Record]) -> None:
        """See that each stream begins with the first attempt's marker: the engine may have dropped that.

        A log that rotates loses its beginning; an engine that was killed has nothing of what ended meanwhile.
        """
        if not self._has_markers:
            return
        for stream, lines in self._lines.items():
            if lines.place.stamp or lines.opened:
                continue
            first = next((r for r in records if r.stream == stream), None)
            if first is not None and lines.next_attempt(first) != 0 and not self.lost:
                self.lost.append("the engine has dropped the beginning of the log")

    def _finish(self, exchange: Exchange, now: float) -> None:
        if not exchange.whole or exchange.failure is not None:
            self._again(now)
        elif exchange.status != _OK:
            self._refused(Answer(exchange.status, b"".join(self._body)), now)
        elif self._doing is _Doing.INSPECT:
            answer = Answer(_OK, b"".join(self._body))
            try:
                self._log_storage = read_log_storage(cast("Json", answer.json))
            except MEANINGLESS:
                self._refused(answer, now)
                return
            for lines in self._lines.values():
                lines.drops_newlines = self._log_storage.drops_newlines
            fresh = self._up and not self._log_storage.rotates and not self._since and self._is_combined
            self._next = _Doing.MARK if fresh else _Doing.READ
        elif self._doing is _Doing.MARK:
            self._mark = self._end[-1] if self._end else None
            self.caught_up = self._mark is None
            self._next = _Doing.FOLLOW
        elif self._doing is _Doing.FOLLOW:
            self._pause(now)
            self.wants_look = self._stale = self._up  # what to do next depends on how the container stands
            self._next = _Doing.TAIL if self._is_combined else _Doing.READ
        elif self._doing is _Doing.TAIL:
            self._checked(now)
        else:
            self._at_end(now)

    def _checked(self, now: float) -> None:
        """Take note of what the log's end is, after a stream has ended."""
        complete = self._is_end(self._end)
        if not self._was_up:
            self._next = _Doing.READ
            if complete:
                self._at_end(now)
        elif complete and self._pause_s < _PATIENT_S:  # the container is about to be said to be down
            self._pause(now)
            self.wants_look = self._stale = self._up  # perhaps it was said meanwhile, and is not said again
        else:
            self._next = _Doing.FOLLOW

    def _is_end(self, tail: list[Record]) -> bool:
        """Return whether the log's last record, after the one before it, is the one that was read last."""
        if not tail or any(lines.opened for lines in self._lines.values()):
            return False
        last = tail[-1]
        done = self._lines[last.stream].place
        alone = len(tail) == 1 or tail[0].stamp != last.stamp
        return alone and done.seen == 1 and done.stamp == last.stamp == self._since

    def _at_end(self, now: float) -> None:
        """Take note that everything was read that was there when the reading began."""
        missed = [seek for seek in self._seeks.values() if seek.expected and not seek.found]
        if self._doing is _Doing.READ and missed:
            if len(missed) == sum(seek.expected for seek in self._seeks.values()):
                self.lost.append("the engine has dropped lines that nobody had read")
            for seek in missed:
                self._queue += seek.give_up()
        self.caught_up = True
        self._margin_s = _MARGIN_S
        if not self._was_up:
            self._ending = True
        elif self._log_storage.rotates:
            self._pause(now)
        else:
            self._next = _Doing.FOLLOW

    def _pause(self, now: float) -> None:
        self.due_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)

    def _again(self, now: float) -> None:
        """Read on after a pause, from where what was read ends."""
        self._pause(now)
        self.wants_look = True
        self._next = self._next if self._next is _Doing.INSPECT else _Doing.READ

    def _refused(self, answer: Answer, now: float) -> None:
        """Take the log for lost, unless the engine, or a proxy before it, may only be in trouble."""
        self._refusals += 1
        in_trouble = answer.status == _OK or (answer.status >= _TROUBLE and answer.status != _UNREADABLE)
        if in_trouble and self._refusals < _MOST_REFUSALS:
            self._again(now)
            return
        gone = answer.status in {_GONE, _DEAD}
        self.lost.append("the container was removed" if gone else f"no log to read: {answer.message}")
        self._gone = self.caught_up = self.drained = True
