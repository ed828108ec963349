"""Runs the function that the command line carries.

Every replica runs the text of this file with ``python -c``; the words that follow it are a `Call` as JSON.
The standard library will do, and Python 3.8.
"""

from __future__ import annotations
import __future__

import fcntl
import json
import linecache
import os
import sys
import time
import traceback
from pathlib import Path
from types import CodeType, ModuleType
from typing import TypedDict

MODULE = "torchx_function"
MAX_REPORT_BYTES = 1 << 20
MAX_HEADLINE_CHARS = 2000
MAX_TRACEBACK_CHARS = 16000


class Call(TypedDict):
    """A function as text, and its arguments."""

    name: str
    is_async: bool
    args: list[object]
    kwargs: dict[str, object]
    file: str
    line: int
    """Of the text's first line in the file."""
    text: str


def main() -> None:
    """Run the function; report what it returns, or leave what it raised in the error file."""
    call: Call = json.loads("".join(sys.argv[1:]))
    del sys.argv[1:]  # a function that parses options must not meet ours
    try:
        value = run(call)
        if value is not None and os.environ.get("RANK", "0") == "0":
            report(value, call["name"])
    except Exception as err:  # noqa: BLE001  (whatever it is, it is the function's, and is shown in full)
        fail(err)


def run(call: Call) -> object:
    """Define the function, call it and return what it returns."""
    lines = [*[""] * (call["line"] - 1), *call["text"].split("\n")]
    # With its lines known by its file's name, a traceback shows them though no such file is here.
    linecache.cache[call["file"]] = (0, None, [f"{line}\n" for line in lines], call["file"])
    # A module that is found by its name, as dataclasses and pickle expect of what they work on.
    module = sys.modules[MODULE] = ModuleType(MODULE)
    code = compile_text(call["text"], call["file"], call["line"])
    exec(code, module.__dict__)  # noqa: S102  (to run its author's code is what a replica is for)
    value: object = module.__dict__[call["name"]](*call["args"], **call["kwargs"])
    if call["is_async"]:
        import asyncio

        return asyncio.run(value)  # type: ignore[arg-type]  # what an `async def` returns
    return value


def compile_text(text: str, file: str, line: int) -> CodeType:
    """Compile the text as it stands in its file; annotations, which may name anything, are not evaluated."""
    source = "\n" * (line - 1) + text
    code: CodeType = compile(source, file, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    return code


def report(value: object, name: str) -> None:
    """Make the value the app's result, in the way that `torchx_core.runtime` describes."""
    try:
        line = json.dumps({"type": "result", "value": value, "time": time.time()}).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as err:
        raise TypeError(f"{name} must return what JSON can hold: {err}") from None
    if len(line) > MAX_REPORT_BYTES:
        raise ValueError(f"{name} returned {len(line)} bytes; return at most {MAX_REPORT_BYTES}, or a path")
    path = os.environ.get("TORCHX_REPORT_FILE")
    if not path:
        sys.stderr.write("the result is not reported: this scheduler takes none\n")
        return
    with Path(path).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the function's other processes may report, too
        file.write(line)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)  # what was forked meanwhile has the file open as well


def fail(err: Exception) -> None:
    """Say what was raised, in the log and in the error file, and exit."""
    trace = err.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == fail.__code__.co_filename:
        trace = trace.tb_next  # begin with the function, not with this program
    text = "".join(traceback.format_exception(type(err), err, trace))
    sys.stderr.write(text)
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        Path(path).write_text(json.dumps({"message": describe(err, text)}))
    sys.exit(1)


def describe(err: Exception, text: str) -> dict[str, object]:
    """Return what torchelastic writes for an exception, with the traceback as part of the message."""
    headline = "".join(traceback.format_exception_only(type(err), err)).strip()[:MAX_HEADLINE_CHARS]
    if len(text) > MAX_TRACEBACK_CHARS:
        text = f"... {text[-MAX_TRACEBACK_CHARS:]}"
    extra = {"timestamp": str(int(time.time())), "py_callstack": printable(text)}
    return {"message": printable(f"{headline}\n{text}"), "extraInfo": extra}


def printable(text: str) -> str:
    """Return the text as stderr shows it: what cannot be encoded must not keep others from printing it."""
    return text.encode(errors="backslashreplace").decode()


if __name__ == "__main__":
    main()
