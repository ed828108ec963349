"""What a signal does to code that follows an app, where Prefect has no handler: in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forked import Ran, run_forked

from prefect_torchx._engine import sigterm

BEGIN = """
import asyncio, multiprocessing, os, signal, threading
from prefect.exceptions import TerminationSignal
from prefect_torchx._engine.sigterm import sigterm_watch

def send(signum):
    os.kill(os.getpid(), signum)
"""

ONE = """
with sigterm_watch() as seen:
    try:
        send(signal.SIGTERM)
    except TerminationSignal:
        send(signal.SIGTERM)  # a second one cuts nothing short
        print(seen.is_ours, "cleaned up", flush=True)
"""

TWO = """
async def work(seconds):
    with sigterm_watch() as seen:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(seconds)
            print(seen.is_ours, seconds, flush=True)

async def main():
    threading.Timer(0.5, send, [signal.SIGTERM]).start()
    await asyncio.gather(work(0), work(0.2))

asyncio.run(main())
"""

NONE = """
with sigterm_watch():
    pass
print("went on", flush=True)
"""

BLOCKED = """
with sigterm_watch() as seen:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    seen.pretend()
print("went on", flush=True)
"""


@pytest.fixture(scope="module")
def ran() -> dict[str, Ran]:
    """Return what became of each program."""
    programs: dict[str, tuple[str, ...]] = {
        "ONE": (ONE,),
        "TWO": (TWO,),
        "NONE": (NONE,),
        "BLOCKED": (BLOCKED,),
        "ELSEWHERE": (ELSEWHERE,),
        "KEPT": (KEPT,),
        **{where: (SWALLOWED, where) for where in ("finaliser", "callback", "child")},
    }
    return run_forked(BEGIN, programs)


def test_a_signal_is_raised_once_and_then_has_its_way(ran: dict[str, Ran]) -> None:
    """What it makes necessary can be done in peace; the process ends of it all the same."""
    program = ran["ONE"]
    assert (program.stdout, program.returncode) == ("True cleaned up\n", -signal.SIGTERM), program.stderr


def test_on_an_event_loop_all_that_run_can_clean_up(ran: dict[str, Ran]) -> None:
    """The last one's end is the process's."""
    program = ran["TWO"]
    assert (program.stdout, program.returncode) == ("True 0\nTrue 0.2\n", -signal.SIGTERM), program.stderr


def test_a_thread_that_blocks_the_signal_does_not_go_on(ran: dict[str, Ran]) -> None:
    """Other threads may block it, too, for the moment in which they handle it."""
    program = ran["BLOCKED"]
    assert (program.stdout, program.returncode) == ("", -signal.SIGTERM), program.stderr


def test_without_a_signal_nothing_remains(ran: dict[str, Ran]) -> None:
    """The handlers are those of before."""
    program = ran["NONE"]
    assert (program.stdout, program.returncode) == ("went on\n", 0), program.stderr


STORM = """
import random, select, sys, time

def burn():
    until = time.monotonic() + 0.002
    while time.monotonic() < until:
        pass

async def follow(ready):
    asyncio.get_running_loop().call_later(random.uniform(0.005, 0.02), ready)
    with sigterm_watch():
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            os.write(1, b"left")

async def idle(ready):
    await follow(ready)

async def busy_callback(ready, work=burn):
    loop = asyncio.get_running_loop()
    def spin():
        work()
        loop.call_soon(spin)
    spin()
    await follow(ready)

async def many_callbacks(ready):
    await busy_callback(ready, int)

async def busy_task(ready, work=burn, following=follow):
    async def spin():
        while True:
            work()
            await asyncio.sleep(0)
    await asyncio.gather(spin(), following(ready))

async def many_steps(ready):
    await busy_task(ready, int)

async def nested_task(ready):
    kept = asyncio.create_task(busy_task(ready))
    await asyncio.sleep(3600)

async def beside_a_thread(ready):
    threading.Thread(target=lambda: [burn() for _ in range(10**6)], daemon=True).start()
    await follow(ready)

async def given_to_another_thread(ready):
    threading.Thread(target=time.sleep, args=[3600], daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    await follow(ready)

async def blocked_loop(ready):
    with sigterm_watch() as seen:
        ready()
        try:
            while not seen.came():
                burn()
            raise TerminationSignal(signal.SIGTERM)
        finally:
            await asyncio.sleep(0.01)
            os.write(1, b"left")

def fate(situation):
    output, out = os.pipe()
    started, begin = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(out, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            asyncio.run(situation(lambda: os.write(begin, b"!")))
        finally:
            os._exit(1)
    os.read(started, 1)
    os.kill(pid, signal.SIGTERM)
    pidfd = os.pidfd_open(pid)
    if not select.select([pidfd], [], [], 240)[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(out)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    says = os.read(output, 99).decode()
    for descriptor in (output, started, begin, pidfd):
        os.close(descriptor)
    return f"{says}, {signal.Signals(-code).name}"

for situation in (
    idle, busy_callback, many_callbacks, busy_task, many_steps, nested_task, beside_a_thread,
    given_to_another_thread, blocked_loop
):
    fates = set()
    for _ in range(20):
        fates.add(fate(situation))
        if fates != {"left, SIGTERM"}:
            break
    print(situation.__name__, *fates, sep=": ", flush=True)
"""


@pytest.mark.slow
def test_no_signal_is_lost_on_an_event_loop() -> None:
    """Whatever the loop is at, asyncio must not swallow the exception, as it does with those of callbacks."""
    ran = run_forked(BEGIN, {"storm": (STORM,)})["storm"]
    situations = [line.split(": ", 1) for line in ran.stdout.splitlines()]
    assert len(situations) == 9, ran.stderr
    assert {fates for _, fates in situations} == {"left, SIGTERM"}, ran.stdout


ELSEWHERE = """
import subprocess, time
from prefect.utilities.engine import capture_sigterm

begun = time.monotonic()

async def main():
    threading.Thread(target=time.sleep, args=[3600], daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with sigterm_watch():
        # In a callback Prefect's exception would be lost; another signal follows.
        script = "while kill -TERM $PPID; do sleep 0.2; done"
        signals = subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await asyncio.sleep(240)

try:
    with capture_sigterm():
        try:
            asyncio.run(main())
        except TerminationSignal:
            print("raised", "in time" if time.monotonic() < begun + 240 else "late", flush=True)
            os._exit(0)
finally:
    os._exit(1)
"""


def test_prefects_handler_does_not_wait_for_the_loop(ran: dict[str, Ran]) -> None:
    """It runs when the main thread runs Python again, and that waits for nothing else any more."""
    program = ran["ELSEWHERE"]
    assert program.stdout == "raised in time\n", program.stderr


SWALLOWED = """
import sys
from prefect.utilities.engine import capture_sigterm

class Finaliser:
    def __del__(self):
        send(signal.SIGTERM)

async def loop():
    asyncio.get_running_loop().call_soon(send, signal.SIGTERM)
    await asyncio.sleep(0.01)

def finaliser():
    Finaliser()

def callback():
    asyncio.run(loop())

def child():
    pid = os.fork()
    if not pid:
        try:
            send(signal.SIGTERM)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

with capture_sigterm():
    prefects = signal.getsignal(signal.SIGTERM)
    with sigterm_watch() as seen:
        before = seen.came()
        globals()[sys.argv[1]]()
        print(before, seen.came(), seen.is_ours, signal.getsignal(signal.SIGTERM) is prefects)
    with sigterm_watch() as again:
        print(again.came())
print(signal.set_wakeup_fd(-1))
"""


@pytest.mark.parametrize(("where", "came"), [("finaliser", True), ("callback", True), ("child", False)])
def test_what_prefects_handler_raised_in_vain_is_known(ran: dict[str, Ran], where: str, came: bool) -> None:
    """Its handler stays, or Prefect would acknowledge no cancel; the signal of a forked child is its own."""
    program = ran[where]
    assert program.stdout == f"False {came} False True\nFalse\n-1\n", program.stderr


def test_whoever_has_the_wakeup_descriptor_keeps_it(ran: dict[str, Ran]) -> None:
    """An event loop with a signal handler has; then nothing is known of lost signals, and nothing breaks."""
    program = ran["KEPT"]
    assert program.stdout == "None True\n", program.stderr


KEPT = """
from prefect.utilities.engine import capture_sigterm

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, int)
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with capture_sigterm(), sigterm_watch() as seen:
        print(seen, end=" ")
    print(signal.set_wakeup_fd(before) == before)

asyncio.run(main())
"""


POOL = """
import multiprocessing, os, signal, sys, time
from prefect_torchx._engine.sigterm import sigterm_watch

def work(pipe):
    with sigterm_watch():
        try:
            pipe.send("ready")
            while True:  # no pause: it would sleep on where the signal came just before
                time.sleep(0.05)
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
        with sigterm.sigterm_watch() as seen:
            return seen is None

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(enter).result()


@pytest.mark.usefixtures("_ignored")
def test_a_handler_of_somebody_else_stays() -> None:
    """Who has one knows what is to be done."""
    with sigterm.sigterm_watch() as seen:
        assert (seen, signal.getsignal(signal.SIGTERM)) == (None, signal.SIG_IGN)


@pytest.fixture
def _ignored() -> object:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)
