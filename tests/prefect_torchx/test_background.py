"""Threads of ours when their process ends: one amid Prefect's settings or pydantic would abort it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import atexit, threading

@atexit.register
def look():  # the first to be registered is the last to be called
    print([each.name for each in threading.enumerate() if each.name.startswith("torchx")])
"""

STATE = """
from prefect_torchx._engine.flow_state import watches

watching = watches.use("00000000-0000-0000-0000-000000000000")
watching.__enter__()
"""

CALL = """
from prefect_torchx.off_loop import Undisturbed

begun = threading.Event()
call = Undisturbed(lambda: begun.set() or threading.Event().wait(0.5))
call.start()
begun.wait()
"""

LOG = """
from prefect_torchx.log_shipper import LogShipper

class Sender:
    closing = unsaved = in_haste = False
    def due(self):
        return float("inf")

LogShipper.to_this_server().join(Sender())
"""


@pytest.mark.parametrize("program", [STATE, CALL, LOG], ids=["flow run's state", "call", "log"])
def test_no_thread_is_left_when_the_interpreter_goes(program: str) -> None:
    """A daemon thread that it finds inside an extension written in Rust aborts the process (Python 3.11)."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, check=False, timeout=250
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
