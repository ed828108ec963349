"""What is read of tracebacks is what Python has printed: of real programs, and of whatever else may come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.specs.tracebacks import MAX_LATER_LINES, MAX_TEXT_LINES, find_raised, find_stacks

LEAF = """
def f():
    raise ValueError("leaf")
try:
    f()
except ValueError as err:
    raise ExceptionGroup("outer", [ExceptionGroup("inner", [err, KeyError("b")]), TypeError("c")]) from err
"""
TASKS = """
import asyncio
async def boom():
    raise RuntimeError("in a task")
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(boom())
asyncio.run(main())
"""
CRASH = """
import faulthandler, os, signal
faulthandler.enable()
def f():
    os.kill(os.getpid(), signal.SIGSEGV)
f()
"""
LOGGED = """
import logging, sys
try:
    1 / 0
except ZeroDivisionError:
    logging.exception("oops")
sys.exit("giving up")
"""
IN_THREAD = """
import threading
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise ValueError(2)
"""
RICH = "from rich.traceback import install\ninstall(show_locals=True)\n"
BY_TYPER = """
import typer
app = typer.Typer()
@app.command()
def main():
    with open("/no/such") as file:
        print(file)
app()
"""
BY_RICH = {
    f"{RICH}def f(batch):\n    raise ValueError('no data\\n\\nat all')\nf([1] * 50)": (
        "ValueError: no data",
        "4, in f",
    ),
    f"{RICH}try:\n    {{}}['a']\nexcept KeyError as err:\n    raise RuntimeError('late') from err": (
        "RuntimeError: late",
        "6",
    ),
    f"{RICH}import json\njson.loads('{{')": ("JSONDecodeError: Expecting property name", "4"),
    f"{RICH}def f(): f()\nf()": ("RecursionError: maximum recursion depth exceeded", "3, in f"),
    f"{RICH}compile('x = = 1', 'a.py', 'exec')": ("SyntaxError: invalid syntax", "3"),
    f"{RICH}raise ValueError": ("ValueError", "3"),
    BY_TYPER: ("FileNotFoundError: [Errno 2] No such file or directory", "6, in main"),
}
PROGRAMS = {
    **BY_RICH,
    "raise ValueError('no data\\nat all')": ("ValueError: no data", "1"),
    "def load():\n    raise KeyError(1)\nload()": ("KeyError: 1", "2, in load"),
    "import json\njson.loads('{')": ("json.decoder.JSONDecodeError: Expecting property name", "2"),
    "try:\n    {}['a']\nexcept KeyError:\n    raise RuntimeError('second\\nline')": (
        "RuntimeError: second",
        "4",
    ),
    "try:\n    {}['a']\nexcept KeyError as err:\n    raise OSError(2, 'x') from err": (
        "FileNotFoundError: [Errno 2] x",
        "4",
    ),
    "x = 1\nif x\n    pass": ("SyntaxError: expected ':'", "2"),
    "if 1:\nprint(1)": ("IndentationError: expected an indented block", "2"),
    "import no_such_module": ("ModuleNotFoundError: No module named", "1"),
    "class A:\n    class Err(Exception): pass\nraise A.Err": ("A.Err", "3"),
    "def f(): f()\nf()": ("RecursionError: maximum recursion depth exceeded", "1, in f"),
    "raise KeyboardInterrupt": ("KeyboardInterrupt", "1"),
    "class E(Exception):\n    def __str__(self): raise OSError\nraise E": (
        "E: <exception str() failed>",
        "3",
    ),
    "raise ValueError": ("ValueError", "1"),
    "err = ValueError('x')\nerr.add_note('a note')\nraise err": ("ValueError: x", "3"),
    "raise ExceptionGroup('several', [ValueError('one')])": (
        "ExceptionGroup: several (1 sub-exception), the first: ValueError: one",
        "1",
    ),
    LEAF: ("ExceptionGroup: outer (2 sub-exceptions), the first: ValueError: leaf", "3, in f"),
    TASKS: (
        "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception), the first: RuntimeError: in a t",
        "4, in boom",
    ),
    CRASH: ("Fatal Python error: Segmentation fault", "5, in f"),
    IN_THREAD: ("ValueError: 2", "6"),
    "import threading, sys\nthread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()\n"
    "sys.exit(3)": ("ZeroDivisionError: division by zero", "2, in <lambda>"),
    "class A:\n    def __del__(self): raise OSError('late')\na = A()\nraise ValueError('real')": (
        "ValueError: real",
        "4",
    ),
    LOGGED: ("ZeroDivisionError: division by zero", "4"),
    "import socket\nraise socket.timeout('t')": ("TimeoutError: t", "2"),
    "import sys\nsys.exit(7)": None,
    "import sys\nprint('Traceback of our own', file=sys.stderr)\nsys.exit(1)": None,
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_exception_that_ended_a_program(text: str, tmp_path: Path) -> None:
    """Its type, its message and the line of the program's own code, whatever Python prints around them."""
    program = tmp_path / "job.py"
    program.write_text(text)
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    lines = run.stderr.split("\n")
    expected, found = PROGRAMS[text], find_raised(lines)
    assert (found is None) == (expected is None)
    if found and expected:
        assert found.exception.startswith(expected[0])
        assert found.place == f"{program}:{expected[1]}"
        assert found.text.removeprefix("...\n") in "\n".join(line.rstrip() for line in lines)
        assert found.exception.partition(", the first: ")[0] in found.text


FRAMES = ['  File "a.py", line 3, in main', "    load()"]
HEADER = "Traceback (most recent call last):"
BOX = [
    "╭──── Traceback (most recent call last) ────╮",
    "│ /long/directory/of/the/progr │",
    "│ am.py:7 in f                 │",
    "│                              │",
    "│ ❱ 7 │ raise ValueError       │",
    "│ ╭─ locals ─╮                 │",
    "╰──────────────────────────────╯",
]


@pytest.mark.parametrize(
    ("lines", "exception", "place"),
    [
        ([*FRAMES, "KeyError: 1"], "KeyError: 1", "a.py:3, in main"),
        ([f"ERROR:root:x {HEADER}", *FRAMES, "KeyError: 1"], "KeyError: 1", "a.py:3, in main"),
        ([HEADER, *FRAMES, "step 5", "loss: 0.3", "zlib.error: bad"], "zlib.error: bad", "a.py:3, in main"),
        ([HEADER, *FRAMES, HEADER, *FRAMES, "KeyError: 2"], "KeyError: 2", "a.py:3, in main"),
        (
            [HEADER, *FRAMES, '  File "/x/site-packages/y.py", line 9, in g', "E: 1"],
            "E: 1",
            "a.py:3, in main",
        ),
        (
            [HEADER, '  File "/x/lib/python3.12/json/a.py", line 9, in g', "E"],
            "E",
            "/x/lib/python3.12/json/a.py:9, in g",
        ),
        ([HEADER, "KeyError: 1"], "KeyError: 1", ""),
        (
            [f"  {HEADER}", '    File "a.py", line 1, in <module>', "  KeyError: 1", "other"],
            "KeyError: 1",
            "a.py:1",
        ),
        ([HEADER, *FRAMES, "KeyError: 1\r"], "KeyError: 1", "a.py:3, in main"),
        (
            [
                "Fatal Python error: Aborted",
                "",
                "Thread 0x7f (most recent call first):",
                "  <no Python frame>",
            ],
            "Fatal Python error: Aborted",
            "",
        ),
        ([HEADER, *FRAMES, "E: 1", "Fatal Python error: Aborted", ""], "E: 1", "a.py:3, in main"),
        (
            [
                HEADER,
                *FRAMES,
                "E: NCCL error",
                "ncclInvalidUsage: x",
                "Last error:",
                "Duplicate GPU",
            ],
            "E: NCCL error; Duplicate GPU",
            "a.py:3, in main",
        ),
        ([HEADER, *FRAMES, "E: NCCL error", "Last error:"], "E: NCCL error", "a.py:3, in main"),
        ([*BOX, "E: 1"], "E: 1", "/long/directory/of/the/program.py:7, in f"),
        ([*BOX[1:], "E: 1"], "E: 1", "/long/directory/of/the/program.py:7, in f"),
        ([*BOX[2:], *BOX, "E: 1", "", "step"], "E: 1", "/long/directory/of/the/program.py:7, in f"),
    ],
)
def test_forms_that_programs_have_of_it(lines: list[str], exception: str, place: str) -> None:
    """The beginning cut off, in a log, other output in between, somebody else's report, NCCL's last error."""
    found = find_raised(lines)
    assert found is not None
    assert (found.exception, found.place) == (exception, place)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [HEADER],
        [HEADER, *FRAMES],
        BOX,
        [*BOX, "a table"],
        ["│ /a.py:7 in f │"],
        ["KeyError: 1"],
        ["loss: 0.3", "Epoch: 1"],
        ["Exception ignored in: <function A.__del__ at 0x7f>", HEADER, *FRAMES, "OSError: late"],
        [HEADER, *FRAMES, "KeyError: 1", "", *["step"] * (MAX_LATER_LINES + 20)],
    ],
)
def test_what_is_none(lines: list[str]) -> None:
    """No traceback, one that did not end the program, one that was printed long before its end."""
    assert find_raised(lines) is None


def test_a_long_traceback_is_told_by_its_end() -> None:
    """Nobody reads a thousand frames; where it happened comes last."""
    found = find_raised([HEADER, *FRAMES * 1000, "KeyError: 1"])
    assert found is not None
    assert found.text.split("\n")[0] == "..."
    assert len(found.text.split("\n")) == MAX_TEXT_LINES + 1


PIECES = [
    *BOX,
    "+-- Traceback (most recent call last) --+",
    "| /a.py:1 in f |",
    "||",
    HEADER,
    *FRAMES,
    "",
    " ",
    "    ^^^",
    "KeyError: 1",
    "a",
    "x: 1",
    f"  + Exception Group {HEADER}",
    "  | E (1 sub-exception)",
    "  +-+---------------- 1 ----------------",
    "    | ValueError: one",
    f"    | {HEADER}",
    "Exception ignored in: x",
    "Exception in thread T:",
    "Fatal Python error: Aborted",
    "Current thread 0x7f (most recent call first):",
    "The above exception was the direct cause of the following exception:",
    "Timeout (0:00:18)!",
    "é\0\r\x1b[31m",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=60))
def test_nothing_makes_it_fail(lines: list[str]) -> None:
    """Whatever a dying program prints, in whatever order."""
    found = find_raised(lines)
    assert found is None or (found.exception and "\n" not in found.exception)
    find_stacks(lines)


@pytest.mark.parametrize(
    "line",
    [
        HEADER,
        FRAMES[0],
        '  File "' + '", line 1, in ' * 5000,
        "a." * 30000,
        " " * 60000,
        "[" + "1" * 60000,
        "A" * 60000,
        f"  + Exception Group {HEADER}",
        "    | x",
        "Fatal Python error: x",
        *BOX[:4],
        "│ /" + ":1" * 30000 + " │",
        "│ /" + " │" * 30000,
        "╭" + "─" * 60000,
        "Timeout (" + "1:" * 30000,
        "KeyError: 1",
    ],
    ids=range(19),
)
def test_hostile_lines_take_no_longer_than_others(line: str) -> None:
    """Time grows with their length, not with its square."""
    lines = [line] * max(1, 200_000 // len(line))
    find_raised(lines)
    find_stacks(lines)


def test_where_a_hung_program_was() -> None:
    """Its main thread, by the innermost frame and by the program's own; other threads do not count."""
    stacks = [
        "Timeout (0:00:18)!",
        "Thread 0x00007f01 (most recent call first):",
        '  File "worker.py", line 1 in loop',
        "",
        "Thread 0x00007f02 (most recent call first):",
        '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce',
        '  File "train.py", line 24 in <module>',
        '  File "<string>", line 80 in run',
    ]
    place = "torch/distributed/distributed_c10d.py:9, in all_reduce, called from train.py:24"
    assert find_stacks(stacks) == place
    assert find_stacks(stacks[1:]) == ""
    assert find_stacks([*stacks[:5], *stacks[6:]]) == "train.py:24"
