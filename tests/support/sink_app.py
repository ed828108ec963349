"""An app that reports, and writes down what: the witness of what metric sinks must hold.

Usage: sink_app.py WITNESS COUNT [wait] [END]. Reports COUNT values in each attempt, each with a line in the
file WITNESS once it has been reported. With ``wait`` the first attempt then waits for the file WITNESS.go,
and is killed. END is how the last one ends: ``raise``, ``exit``, ``child-raise``, ``fork``, ``spawn`` or
``thread``.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path

from torchx_core.runtime import report_metric, report_progress, report_result

RESULT = {"accuracy": 0.5, "best": {"step": 3}, "note": "a 'note'"}


def main() -> None:
    """Report, and end as asked."""
    witness, count, *modes = sys.argv[1:]
    attempt = int(os.environ["TORCHX_ATTEMPT"])
    report_many(witness, attempt * int(count), int(count), "loss")
    if "wait" in modes and attempt == 0:
        Path(f"{witness}.reported").touch()
        while not Path(f"{witness}.go").exists():
            threading.Event().wait(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    report_progress(1, "done")
    note(witness, "progress", 1.0, 0)
    report_result(RESULT)
    end(witness, int(count), modes)


def report_many(witness: str, first: int, count: int, name: str) -> None:
    """Report values at steps, and some without."""
    for step in range(first, first + count):
        value = math.nan if step == first + 3 else 1 / (step + 1)
        report_metric(name, value, step)
        note(witness, name, value, step)
    for number in range(3):
        report_metric(f"{name} rate", number / 3)
        note(witness, f"{name} rate", number / 3, number)


def note(witness: str, name: str, value: float, step: int) -> None:
    """Write down what has been reported, so that it outlives the process."""
    with Path(witness).open("a") as file:
        file.write(json.dumps([name, value, step]) + "\n")


def end(witness: str, count: int, modes: list[str]) -> None:
    """End."""
    if "raise" in modes:
        raise ValueError("on purpose")
    if "exit" in modes:
        sys.exit(3)
    if "thread" in modes:  # which goes on when the main one has ended
        threading.Timer(1, report_many, (witness, 0, count, "late")).start()
    if "child-raise" in modes:
        child = multiprocessing.get_context("spawn").Process(target=fail)
        child.start()
        child.join()
    if "fork" in modes or "spawn" in modes:
        multiprocessing.set_start_method(modes[0])
        children = [
            multiprocessing.Process(target=report_many, args=(witness, 0, count, f"child {i}"))
            for i in range(3)
        ]
        for each in children:
            each.start()
        for each in children:
            each.join()


def fail() -> None:
    """Report, and raise."""
    report_metric("of the child", 1, 0)
    raise ValueError("on purpose")


if __name__ == "__main__":
    main()
