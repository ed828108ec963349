"""One connection to a host, shared by all that this process asks there."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from itertools import count
from typing import Final, cast

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.remote.agent_client import AgentClient, Channel, Dial
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.schedulers.remote.question import Answer, LineError, Question
from torchx_core.schedulers.remote.wire import load, load_error
from torchx_core.supervisor.records import Json

__all__ = ["Line"]

logger: Final = logging.getLogger(__name__)

_ANSWER_S = 300.0
"""How long an answer may take: Slurm's commands have a minute each."""
_MOST_TIMES = 2
"""How often a question is put whose answer was lost with the connection."""
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 30.0
_STEADY_S = 10.0
"""A connection that lasted for so long was a good one: its loss counts as the first failure."""


class Line:
    """Connects when something is asked, and again when the connection was lost and something is open.

    `ask`, `call`, `forget` and `tell` are for other threads; everything else runs on the loop's.
    """

    def __init__(self, host: RemoteHost, loop: asyncio.AbstractEventLoop, dial: Dial) -> None:
        """Connect to nothing yet."""
        self._host = host
        self._loop = loop
        self._dial = dial
        self._numbers = count()
        self._open: dict[int, Question] = {}
        self._agent_client: AgentClient | None = None
        self._channel: Channel | None = None
        self._closing: asyncio.Task[None] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._delay_s = 0.0
        self._connected_at = 0.0
        self._away = False

    def ask(self, body: Json, *, patient: bool = False) -> Answer:
        """Put a question; returns at once.

        Args:
            body: The question.
            patient: Put it again as often as the connection is lost, until somebody answers it.
        """
        question = Question(next(self._numbers), body, patient=patient)
        self._loop.call_soon_threadsafe(self._put, question)
        return question.answer

    def call(self, body: Json) -> object:
        """Put a question and wait for its answer; not for the loop's own thread.

        Raises:
            LineError: There is none.
            TorchXError: The answer is an error.
        """
        answer = self.ask(body)
        answer.wait(_ANSWER_S)
        if not answer.is_there:
            self.forget(answer)
            message = f"no answer from {self._host} within {_ANSWER_S:g} s"
            raise LineError(message, retryable=True, asked=True)
        return answer.take()

    def forget(self, answer: Answer) -> None:
        """Put the question no more: nobody waits for its answer."""
        self._loop.call_soon_threadsafe(self._open.pop, answer.number, None)

    def tell(self, body: Json) -> None:
        """Say something that needs no answer, if anybody is there to hear it."""
        question = Question(next(self._numbers), body, patient=False)
        self._loop.call_soon_threadsafe(self._mention, question)

    async def close(self) -> None:
        """Hang up; what is open fails."""
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._connecting
        channel, self._channel, self._agent_client = self._channel, None, None
        if channel is not None:
            await channel.close()
        if self._closing is not None:
            await self._closing
        for question in self._take_all():
            question.fail(f"the connection to {self._host} was closed", retryable=True)

    # --- on the loop's thread

    def _mention(self, question: Question) -> None:
        if self._channel is not None:
            question.put(self._channel)

    def _put(self, question: Question) -> None:
        self._open[question.number] = question
        if self._channel is not None:
            question.put(self._channel)
        else:
            self._connect_soon()

    def _connect_soon(self) -> None:
        if any(not question.patient for question in self._open.values()):
            self._hurry.set()
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            while self._open and self._channel is None:
                await self._rest()
                await self._try()
        finally:
            self._connecting = None

    async def _rest(self) -> None:
        """Leave the host alone for a while after a failure, unless somebody is in a hurry."""
        if self._delay_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._delay_s)
        self._hurry.clear()

    async def _try(self) -> None:
        agent_client = AgentClient(self._host, self._hear, lambda reason: self._lose(agent_client, reason))
        try:
            channel = await self._dial(self._host, agent_client)
        except SchedulerError as err:
            self._miss(err)
        except Exception as err:  # whatever else goes wrong, nobody may be left waiting for ever
            logger.exception("cannot reach %s", self._host)
            self._miss(SchedulerError(f"cannot reach {self._host}: {err!r}"))
        else:
            self._reach(agent_client, channel)

    def _reach(self, agent_client: AgentClient, channel: Channel) -> None:
        self._agent_client, self._channel, self._connected_at = agent_client, channel, time.monotonic()
        if self._away:
            self._away = False
            logger.info("%s is back", self._host)
        for question in list(self._open.values()):
            question.put(channel)
        if agent_client.over:  # it ended before we knew it
            self._lose(agent_client, "the connection was lost")

    def _miss(self, error: SchedulerError) -> None:
        """Tell those who do not wait; nobody waits for what will not get better by itself."""
        for question in self._take_all():
            if question.patient and error.retryable:
                self._open[question.number] = question
            else:
                question.fail(str(error), retryable=error.retryable)
        self._delay_more(str(error))

    def _lose(self, agent_client: AgentClient, reason: str) -> None:
        """Put again what was not answered: once, or for those who wait as often as it takes."""
        if agent_client is not self._agent_client:
            return
        channel, self._channel, self._agent_client = self._channel, None, None
        if channel is not None:
            self._closing = self._loop.create_task(channel.close())
        if time.monotonic() - self._connected_at >= _STEADY_S:
            self._delay_s = 0.0
        message = f"lost the connection to {self._host}: {reason}"
        for question in self._take_all():
            if question.patient or question.times_put < _MOST_TIMES:
                self._open[question.number] = question
            else:
                question.fail(message, retryable=True)
        self._delay_more(message)
        if self._open:
            self._connect_soon()

    def _delay_more(self, message: str) -> None:
        self._delay_s = min(max(_FIRST_DELAY_S, 2 * self._delay_s), _LONGEST_DELAY_S)
        if not self._away and any(question.patient for question in self._open.values()):
            self._away = True
            logger.warning("%s; followers wait until it is back", message)

    def _hear(self, answer: Json) -> None:
        question = self._open.pop(cast("int", answer["id"]), None)
        if question is not None:
            error = answer.get("error")
            value = load(answer["ok"]) if error is None else load_error(cast("Json", error))
            question.answer.arrive(value)

    def _take_all(self) -> list[Question]:
        questions = list(self._open.values())
        self._open.clear()
        return questions
