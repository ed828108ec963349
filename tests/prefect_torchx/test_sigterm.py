"""What a signal does to code that follows an app, where Prefect has no handler: in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prefect_torchx._engine import sigterm

BEGIN = """
import asyncio, multiprocessing, os, signal, threading
from prefect.exceptions import TerminationSignal
from prefect_torchx._engine.sigterm import sigterm_bridge

def send(signum):
    os.kill(os.getpid(), signum)
"""

ONE = """
with sigterm_bridge() as bridged:
    try:
        send(signal.SIGTERM)
    except TerminationSignal:
        send(signal.SIGTERM)  # a second one cuts nothing short
        print(bridged, "cleaned up", flush=True)
"""

TWO = """
async def work(seconds):
    with sigterm_bridge() as bridged:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(seconds)
            print(bridged, seconds, flush=True)

async def main():
    threading.Timer(0.5, send, [signal.SIGTERM]).start()  # while the loop waits, as almost always
    await asyncio.gather(work(0), work(0.2))

asyncio.run(main())
"""

NONE = """
with sigterm_bridge():
    pass
print("went on", flush=True)
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, timeout=120, check=False
    )


def test_a_signal_is_raised_once_and_then_has_its_way() -> None:
    """What it makes necessary can be done in peace; the process ends of it all the same."""
    ran = _run(ONE)
    assert (ran.stdout, ran.returncode) == ("True cleaned up\n", -signal.SIGTERM), ran.stderr


def test_on_an_event_loop_all_that_run_can_clean_up() -> None:
    """The last one's end is the process's."""
    ran = _run(TWO)
    assert (ran.stdout, ran.returncode) == ("True 0\nTrue 0.2\n", -signal.SIGTERM), ran.stderr


def test_without_a_signal_nothing_remains() -> None:
    """The handlers are those of before."""
    ran = _run(NONE)
    assert (ran.stdout, ran.returncode) == ("went on\n", 0), ran.stderr


POOL = """
import multiprocessing, os, signal, sys
from prefect_torchx._engine.sigterm import sigterm_bridge

def work(pipe):
    with sigterm_bridge():
        try:
            pipe.send("ready")
            signal.pause()
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)  # a second one cuts nothing short
            pipe.send("cleaned up")

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    child.start()
    print(ours.recv())
    os.kill(child.pid, signal.SIGINT)
    print(ours.recv())
    child.join(60)
    print(child.exitcode)
"""


def test_ctrl_c_ends_the_child_of_a_pool(tmp_path: Path) -> None:
    """As a SIGTERM does: an exception would come to the pool as the task's result, and hang it."""
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    ran = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout.split("\n")[:3] == ["ready", "cleaned up", str(-signal.SIGTERM)], ran.stderr


def test_a_thread_has_no_handlers() -> None:
    """Python calls them in the main thread only."""
    from concurrent.futures import ThreadPoolExecutor

    def enter() -> bool:
        with sigterm.sigterm_bridge() as bridged:
            return bridged

    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(enter).result()


@pytest.mark.usefixtures("_ignored")
def test_a_handler_of_somebody_else_stays() -> None:
    """Prefect's own, in the process of a flow run, does what is needed."""
    with sigterm.sigterm_bridge() as bridged:
        assert (bridged, signal.getsignal(signal.SIGTERM)) == (False, signal.SIG_IGN)


@pytest.fixture
def _ignored() -> object:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)
