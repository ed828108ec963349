from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import cast

from near_agent import NearNode

from torchx_core import AppDef, Role, Runner
from torchx_core.schedulers import Batch, FollowOptions
from torchx_core.schedulers.remote.agent import Agent
from torchx_core.schedulers.remote.wire import dump, load
from torchx_core.supervisor.records import Json

HELD = AppDef("held", [Role("w", image="", entrypoint="fake", args=["lines:3", "hold"])])
QUIET = FollowOptions(logs=False)


def _line(number: int, verb: str, **fields: object) -> bytes:
    question = {"id": number, "verb": verb, "backend": "slurm", "session": "s", "state_dir": None, **fields}
    return json.dumps(question).encode() + b"\n"


def _pull(number: int, cursor: str | None, patience_s: float) -> bytes:
    followed = {"app_id": "a", "options": dump(QUIET), "cursor": cursor, "patience_s": patience_s}
    return _line(number, "pull", feed="f", **followed)


class _Asked:
    """An agent, and its last answer."""

    def __init__(self, node: NearNode) -> None:
        self.agent = Agent(self._take, node.handler(), idle_s=0.01)
        self._answers: asyncio.Queue[object] = asyncio.Queue()

    def _take(self, answer: Json) -> None:
        self._answers.put_nowait(load(answer["ok"]))

    async def ask(self, line: bytes) -> Batch:
        self.agent.hear(line)
        batch, _done = cast("tuple[Batch, bool]", await self._answers.get())
        return batch


async def _ends(agent: Agent, timeout_s: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await agent.over()
            return True
    return False


def test_it_ends_when_nobody_asks() -> None:
    """Whoever asked may be gone without a word, and nothing may be left on a login node."""

    async def lonely() -> bool:
        return await _ends(Agent(lambda _: None, NearNode().handler(), idle_s=0.01), 10)

    assert asyncio.run(lonely())


def test_it_does_not_end_while_somebody_waits() -> None:
    """However quiet the app is that he follows."""
    node = NearNode()
    with Runner("s", {"slurm": node.host.scheduler}) as runner:
        runner.run(HELD, "slurm", app_id="a")

    async def followed() -> bool:
        asked = _Asked(node)
        batch = await asked.ask(_pull(0, None, 0.0))
        asked.agent.hear(_pull(1, batch.cursor, 600.0))
        return await _ends(asked.agent, 0.5)

    assert not asyncio.run(followed())


def test_questions_arrive_in_pieces() -> None:
    """Lines are what counts, not how they were read; each has its answer, in whatever order."""
    node = NearNode()
    answers: list[Json] = []

    async def ask() -> None:
        agent = Agent(answers.append, node.handler(), idle_s=0.01)
        nobody = dump({"app_id": "nobody"})
        data = _line(1, "list", words=dump({}))
        data += _line(2, "describe", words=nobody) + _line(3, "owner", words=nobody)
        for i in range(0, len(data), 7):
            agent.hear(data[i : i + 7])
        await agent.over()

    asyncio.run(ask())
    found = {answer["id"]: answer for answer in answers}
    assert found[1]["ok"] == []
    assert found[2]["ok"] is None
    assert isinstance(found[3]["error"], dict)
    assert found[3]["error"]["type"] == "UnknownAppException"


def test_the_cursor_in_the_question_decides() -> None:
    """Not what the agent remembers of an earlier one: asked for the same batch again, it gives it again."""
    node = NearNode()
    with Runner("s", {"slurm": node.host.scheduler}) as runner:
        runner.run(HELD, "slurm", app_id="a")

    async def batches() -> list[Batch]:
        asked = _Asked(node)
        found = [await asked.ask(_pull(number, None, 0.0)) for number in range(3)]
        asked.agent.hear(b"")
        await asked.agent.over()
        return found

    first, *others = asyncio.run(batches())
    assert first.events
    assert others == [first, first]
