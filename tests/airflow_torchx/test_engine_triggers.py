from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from asgiref.sync import async_to_sync

from airflow_torchx._engine_triggers import ask_airflow

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


class Pipe:
    """Asks as the triggerer of Airflow 3.1 does, which leads each question to an event loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.answered = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    def ask(self, question: str) -> str:
        """Return the answer; in a thread."""
        return async_to_sync(self._ask)(question)

    async def _ask(self, question: str) -> str:
        self.loop = asyncio.get_running_loop()
        self.asked.set()
        await self.answer.wait()
        self.answered.set()
        return f"{question}!"


def test_questions_go_through_the_triggers_event_loop() -> None:
    """One that went through a loop of its own would take the answers of others."""

    async def ask() -> str:
        pipe = Pipe()
        pipe.answer.set()
        answer = await ask_airflow(pipe.ask, "who")
        assert pipe.loop is asyncio.get_running_loop()
        return answer

    assert asyncio.run(ask()) == "who!"


def test_a_question_is_answered_though_nobody_waits_any_more() -> None:
    """Airflow 3.1 would give the answer to whoever asks next."""

    async def leave() -> None:
        pipe = Pipe()
        asking = asyncio.create_task(ask_airflow(pipe.ask, "who"))
        await asyncio.wait_for(pipe.asked.wait(), 240)
        asking.cancel()
        await asyncio.wait([asking])
        pipe.answer.set()
        await asyncio.wait_for(pipe.answered.wait(), 240)

    asyncio.run(leave())


READS_LATE = """
import os, socket
from airflow.sdk.log import configure_logging
from airflow_torchx._engine import emit
from airflow_torchx._engine_triggers import unread_log

ours, airflows = socket.socketpair()
configure_logging(json_output=True, output=os.fdopen(ours.detach(), "wb", buffering=0))
found = [unread_log() > 0]
emit("info", "a line")
found.append(unread_log() > 0)
airflows.recv(1 << 16)
found.append(unread_log() > 0)
print(found)
"""


def test_what_airflow_has_yet_to_read_is_known() -> None:
    """Its triggerer gives each trigger's process such a channel for its log."""
    done = subprocess.run([sys.executable, "-c", READS_LATE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[False, True, False]"
