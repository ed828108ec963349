"""What a program uses, told to who asks for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from slurm_nodes import PATIENCE_S, Nodes

from torchx_core.schedulers.slurm.node.usage import ANSWER, ASKED, UsageReporter, usage_of
from torchx_core.testing import wait_until

MB = 1 << 20
# A child in a session of its own, with memory of its own; both stay.
PROGRAM = """
import os, signal, sys
more = bytearray(40 << 20)
if os.fork() == 0:
    os.setsid()
    mine = bytearray(60 << 20)
    while sum(os.times()[:2]) < 0.3: pass
    print("up", flush=True)
signal.pause()
"""


def _ask(nodes: Nodes, token: str) -> None:
    (nodes.app_dir / ASKED).write_text(token)


def _answer(nodes: Nodes) -> Any:  # JSON
    return nodes.read(f"log/r0/0/{ANSWER}")


def test_who_asks_is_answered_and_nobody_else(nodes: Nodes, tmp_path: Path) -> None:
    """All processes of the program count; each question gets one answer, and without one there is none."""
    (tmp_path / "program.py").write_text(PROGRAM)
    nodes.prepare(f"exec {sys.executable} -S {tmp_path / 'program.py'}")
    nodes.start(0)
    wait_until(lambda: nodes.output("r0"), PATIENCE_S)
    assert _answer(nodes) is None
    _ask(nodes, "1")
    first = wait_until(lambda: _answer(nodes), PATIENCE_S)
    assert first["processes"] == 2
    assert 0.3 <= first["cpu_s"] < 10
    assert 100 * MB <= first["memory_bytes"] < 400 * MB
    assert first["write_bytes"] is not None
    _ask(nodes, "2")
    second = wait_until(lambda: (a := _answer(nodes)) != first and a, PATIENCE_S)
    assert second["time"] > first["time"]
    assert second["cpu_s"] >= first["cpu_s"]


def test_a_process_that_has_ended_uses_nothing() -> None:
    """And nothing is in the way of whoever looks."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert usage_of(pid)["processes"] == 0


def test_where_no_answer_can_be_written_there_is_none(tmp_path: Path) -> None:
    """A full disk, say, stops nobody and is left as it is."""
    (tmp_path / ANSWER).mkdir()
    (tmp_path / ASKED).write_text("1")
    UsageReporter(str(tmp_path), str(tmp_path), os.getpid()).look()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([ANSWER, ASKED])
