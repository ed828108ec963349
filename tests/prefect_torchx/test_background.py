"""Threads of ours when their process ends: one amid Prefect's settings or pydantic would abort it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from prefect_torchx import background
from prefect_torchx.off_loop import Undisturbed, undisturbed

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


def test_whoever_has_work_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's timeout, raised in a thread that starts another, may land in that one (Python 3.11).

    The one would wait for the other for ever, and the timeout would be lost.
    """
    undisturbed(int)  # the first thread of all
    started_by: list[threading.Thread] = []
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        started_by.append(threading.current_thread())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    go = threading.Event()
    calls = [Undisturbed(lambda: go.wait(240)) for _ in range(20)]
    for call in calls:
        call.start()
    assert [undisturbed(pow, 2, n) for n in range(5)] == [1, 2, 4, 8, 16]
    go.set()
    for call in calls:
        call.wait()
    assert started_by
    assert threading.current_thread() not in started_by


def test_threads_that_have_nothing_to_do_are_few() -> None:
    """A thousand calls at once leave no thousand threads."""
    go = threading.Event()
    works = [background.start("torchx-call", lambda: go.wait(240)) for _ in range(50)]
    go.set()
    for work in works:
        work.wait(240)
    for n in range(200):
        assert undisturbed(pow, n, 1) == n
    idle = [thread for thread in threading.enumerate() if thread.name == background.IDLE]
    assert 0 < len(idle) <= background.KEPT + 1


def test_a_forked_child_has_threads_of_its_own() -> None:
    """Its parent's are not there, whatever the lists say."""
    program = """
import os, sys
from prefect_torchx import background
from prefect_torchx.off_loop import undisturbed

work = background.start("torchx-call", lambda: background.threading.Event().wait(1))
pid = os.fork()
if pid == 0:
    print(work.is_under_way, undisturbed(pow, 2, 5), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=250
    )
    assert (done.returncode, done.stdout) == (0, "False 32\n"), done.stderr
