"""What a forked child has of its parent's state: nothing, and no lock that a thread of the parent holds."""

from __future__ import annotations

import subprocess
import sys

from prefect_torchx.own import Latest, Shared

FORK = """
import os, threading, time

def in_child(work):
    pid = os.fork()
    if not pid:
        try:
            print(work(), flush=True)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
"""

HELD = """
from prefect_torchx.own import Latest, Shared

latest, shared = Latest(9), Shared(lambda key: object(), lambda value: print("ended"))
held = threading.Event()

def hold():
    held.set()
    threading.Event().wait()

def child():
    latest.put("b", 1)
    with shared.use("a") as own:
        return latest.get("b"), own is parents

threading.Thread(target=latest.get_or_make, args=("a", hold), daemon=True).start()
held.wait()
with shared.use("a") as parents:
    in_child(child)
"""

WATCH = """
from prefect_torchx._engine.flow_state import watches

RUN = "00000000-0000-0000-0000-000000000000"

def child():
    with watches.use(RUN) as own:
        until = time.monotonic() + 240
        while "torchx-state" not in (names := [each.name for each in threading.enumerate()]):
            assert time.monotonic() < until
        return own is parents, names.count("torchx-state")

with watches.use(RUN) as parents:
    in_child(child)
"""


def _printed(code: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", FORK + code], capture_output=True, text=True, timeout=250, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_lock_that_the_parent_holds_does_not_stop_the_child() -> None:
    """Its own values are made anew, and end by themselves."""
    assert _printed(HELD) == "ended\n(1, False)\nended\n"


def test_a_child_asks_for_the_state_of_its_flow_run_itself() -> None:
    """The thread that asks for the parent does not exist in it: no cancel would be seen."""
    assert _printed(WATCH) == "(False, 1)\n"


def test_a_value_is_there_as_long_as_somebody_uses_it() -> None:
    """All get the same one; whoever comes after the last gets another."""
    ended: list[object] = []
    shared = Shared[str, object](lambda _: object(), ended.append)
    with shared.use("a") as one, shared.use("a") as two, shared.use("b") as other:
        assert one is two
        assert one is not other
    assert ended == [other, one]
    with shared.use("a") as again:
        assert again is not one


def test_the_oldest_values_are_forgotten() -> None:
    """Those that were set or made the longest time ago."""
    latest = Latest[str, int](2)
    for key in ("a", "b", "a", "c"):
        latest.put(key, ord(key))
    assert [latest.get(key) for key in "abc"] == [97, None, 99]
    latest.forget("a")
    assert latest.get_or_make("a", lambda: 1) == latest.get_or_make("a", lambda: 2) == 1
