"""Asks the engine questions that follow from each other, without waiting for the answers."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

from torchx_core.errors import TorchXError
from torchx_core.schedulers.docker.answers import MEANINGLESS, Refused
from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.exchange import Answer, Exchange, ProtocolError, Request

__all__ = ["Questions", "RequestChain"]

T = TypeVar("T")
Questions: TypeAlias = Generator[Sequence[Request], list[Answer], T]
"""Yields what to ask at once, is sent the answers in the same order, and returns what it made of them."""

_TIMEOUT_S = 60.0


class RequestChain(Generic[T]):
    """Call `advance` until `done`."""

    def __init__(self, endpoint: Endpoint, version: str, questions: Questions[T], now: float) -> None:
        """Send the first requests."""
        self._endpoint, self._version = endpoint, version
        self._questions = questions
        self._give_up_at = now + _TIMEOUT_S
        self._exchanges: list[Exchange] = []
        self._bodies: list[list[bytes]] = []
        self._result: T | None = None
        self.done: bool = False
        """Whether there is a result."""
        self.failure: Exception | None = None
        """Why there will be none."""
        self._ask(next(questions))

    @property
    def exchanges(self) -> Iterable[Exchange]:
        """What is under way."""
        return [exchange for exchange in self._exchanges if not exchange.whole]

    @property
    def result(self) -> T:
        """What the questions came to."""
        assert self.done
        return self._result  # type: ignore[return-value]  # T may include None; done says that it is set

    def advance(self, now: float) -> None:
        """Carry on; may raise what the questions make of an answer."""
        for exchange, body in zip(self._exchanges, self._bodies, strict=True):
            body.append(exchange.advance())
            self.failure = self.failure or exchange.failure
        if self.failure is None and now > self._give_up_at:
            self.failure = TimeoutError(f"no answer within {_TIMEOUT_S:g} s")
        if self.failure is not None:
            self.close()
        elif all(exchange.whole for exchange in self._exchanges):
            pairs = zip(self._exchanges, self._bodies, strict=True)
            self._go_on([Answer(exchange.status, b"".join(body)) for exchange, body in pairs])

    def _go_on(self, answers: list[Answer]) -> None:
        try:
            self._ask(self._questions.send(answers))
        except StopIteration as end:
            self._result, self.done, self._exchanges, self._bodies = end.value, True, [], []
        except Refused as err:
            if not err.in_trouble:
                raise
            self.failure = err
        except TorchXError:
            raise
        except MEANINGLESS as err:
            self.failure = ProtocolError(f"an answer that cannot be understood ({type(err).__name__}: {err})")

    def _ask(self, requests: Sequence[Request]) -> None:
        self._exchanges = [Exchange(self._endpoint, self._version, request) for request in requests]
        self._bodies = [[] for _ in requests]

    def close(self) -> None:
        """Let go of the connections."""
        for exchange in self._exchanges:
            exchange.close()
        self._questions.close()
