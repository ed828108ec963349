"""Run a program as Python would, and leave behind why it failed.

Every rank of `dist.torchrun` runs this text first. The words that follow are those that Python would be
given, a file or -m and a module, and arguments. The standard library will do, and Python 3.8.
"""

from __future__ import annotations

import builtins
import faulthandler
import os
import sys
import time
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STACKS_S = 2.0
"""How long before the app's deadline the stacks are printed, at most."""
MAX_HEADLINE_CHARS = 2000
MAX_TRACEBACK_CHARS = 16000

PROCESS = os.getpid()
RANK = os.environ.get("RANK")
ERROR_FILE = os.environ.get("TORCHELASTIC_ERROR_FILE")
"""This rank's: torchrun shows what is in it."""
FIRST_ERROR_FILE = os.environ.pop("TORCHX_FIRST_ERROR_FILE", None)
"""Written by the first rank of this torchrun that fails: the scheduler shows what is in it."""
DEADLINE = os.environ.get("TORCHX_DEADLINE")


def main() -> None:
    """Run the program; what it raises goes on as if nothing stood between it and Python."""
    watch()
    del getattr(sys, "orig_argv", sys.argv[:])[-len(sys.argv)], sys.argv[0]
    try:
        run()
    except BaseException as err:
        trace = err.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == main.__code__.co_filename:
            trace = trace.tb_next  # begin with the program, not with this text
        if os.getpid() == PROCESS and not (isinstance(err, SystemExit) and err.code in (None, 0)):
            leave_error(err, trace)
        shown = sys.excepthook
        sys.excepthook = lambda kind, error, _: shown(kind, error.with_traceback(trace), trace)
        raise


def watch() -> None:
    """Have the stacks of all threads printed when native code crashes, and shortly before the deadline."""
    try:
        faulthandler.enable()
        left_s = float(DEADLINE or 0) - time.time()
        if left_s > 0:
            faulthandler.dump_traceback_later(left_s - min(STACKS_S, left_s / 10))
    except Exception:  # then there are none
        return


def run() -> None:
    """Do what Python does with ``-m``, with a directory or an archive, or with a file."""
    path = sys.argv[0]
    if path == "-m":
        import runpy

        begin_main(os.getcwd())
        del sys.argv[0]
        module, sys.argv[0] = sys.argv[0], "-m"
        runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # it is what Python calls
    elif is_package(path):
        import runpy

        begin_main(os.path.join(os.getcwd(), path))
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]  # likewise
    else:
        main = begin_main(os.path.dirname(os.path.realpath(path)))
        main.__dict__.update(__file__=os.path.join(os.getcwd(), path), __cached__=None)
        exec(load(main) or "", main.__dict__)


def is_package(path: str) -> bool:
    """Return whether the path is one to import from, and not a file to read."""
    if path.endswith(".py"):
        return False
    import pkgutil

    return pkgutil.get_importer(path) is not None


def begin_main(first_path: str) -> ModuleType:
    """Make a fresh ``__main__``, for a program whose own modules lie there."""
    if sys.path and sys.path[0] == "":  # else Python was told to leave that out
        sys.path[0] = first_path
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins)
    if "__annotations__" in sys.modules["__main__"].__dict__:  # up to Python 3.13
        main.__dict__.update(__annotations__={})
    sys.modules["__main__"] = main
    return main


def load(main: ModuleType) -> CodeType | None:
    """Return the code of the module's file."""
    name = str(main.__file__)
    if name.endswith(".pyc"):
        main.__loader__ = SourcelessFileLoader("__main__", name)
        return main.__loader__.get_code("__main__")
    main.__loader__ = SourceFileLoader("__main__", name)
    try:
        with open(name, "rb") as file:
            text = file.read()
    except OSError as err:
        sys.stderr.write(f"{sys.executable}: can't open file {name!r}: [Errno {err.errno}] {err.strerror}\n")
        raise SystemExit(2) from None
    return compile(text, name, "exec", dont_inherit=True)


def leave_error(err: BaseException, trace: TracebackType | None) -> None:
    """Write down what was raised, where the program has not done so; what goes wrong here has no effect."""
    try:
        import json

        error, own = describe(err, trace), read(ERROR_FILE)
        extra = error["message"]["extraInfo"]
        if not is_first(sign(own, error["message"]) if own else json.dumps(error)):
            # torchrun goes by whole seconds, and takes the lowest rank of those that are alike for the first.
            extra["timestamp"] += 1
        if ERROR_FILE and not own:
            with open(f"{ERROR_FILE}~", "w") as file:
                json.dump(error, file)
            os.replace(f"{ERROR_FILE}~", ERROR_FILE)
    except Exception:  # the program's own end is what counts
        return


def is_first(text: str) -> bool:
    """Return whether no other rank has failed before, having written the text down for the scheduler."""
    if not FIRST_ERROR_FILE:
        return True
    try:
        with open(FIRST_ERROR_FILE, "x") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def read(path: str | None) -> str:
    """Return the text of the file; nothing where there is none."""
    if not path or not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def sign(text: str, ours: dict[str, Any]) -> str:
    """Return what the program has written itself, with who and when added where torchelastic wrote it."""
    import json

    try:
        error = json.loads(text)
        error["message"]["extraInfo"].update(rank=RANK, time=ours["extraInfo"]["time"])
        error["message"].setdefault("errorCode", ours["errorCode"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return text
    return json.dumps(error)


def describe(err: BaseException, trace: TracebackType | None) -> dict[str, Any]:
    """Return what torchelastic writes for an exception, and who raised it when."""
    import traceback

    headline = "".join(traceback.format_exception_only(type(err), err)).strip()
    text = "".join(traceback.format_exception(type(err), err, trace))
    if len(text) > MAX_TRACEBACK_CHARS:
        text = f"... {text[-MAX_TRACEBACK_CHARS:]}"
    now = time.time()
    extra = {"py_callstack": printable(text), "timestamp": int(now), "time": now, "rank": RANK}
    message = printable(headline[:MAX_HEADLINE_CHARS])
    return {"message": {"message": message, "errorCode": exit_code(err), "extraInfo": extra}}


def exit_code(err: BaseException) -> int:
    """Return the code that Python ends with."""
    given = err.code if isinstance(err, SystemExit) else 1
    return given & 0xFF if isinstance(given, int) else 1


def printable(text: str) -> str:
    """Return the text as stderr shows it: what cannot be encoded must not keep the rest from being read."""
    return text.encode(errors="backslashreplace").decode()


if __name__ == "__main__":
    main()
