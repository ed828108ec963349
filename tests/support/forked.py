"""Programs that begin alike, each in a child that is forked from one process once that has begun.

To load Prefect takes a process two seconds of CPU time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Ran", "run_forked"]

_PARENT = """
import json, os, sys, tempfile

def __run(begin, programs):
    names = {"__name__": "__main__"}
    exec(begin, names)
    ran = []
    for code, *args in programs:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if not pid:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.argv[1:] = args
                return exec(code, names)
            exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            ran.append([exit_code, *(file.seek(0) or file.read().decode() for file in (out, err))])
    print(json.dumps(ran))

__run(*json.load(sys.stdin))
"""


class Ran(NamedTuple):
    """How a program ended, and what it printed."""

    returncode: int
    """Negative: the signal that killed it."""
    stdout: str
    stderr: str


def run_forked(begin: str, programs: Mapping[str, tuple[str, ...]]) -> dict[str, Ran]:
    """Run the programs, one after the other.

    Args:
        begin: What all of them begin with: imports and functions, and no thread.
        programs: The code of each, which sees what `begin` has defined, and its arguments, by a name.
    """
    told = json.dumps([begin, list(programs.values())])
    done = subprocess.run(
        [sys.executable, "-c", _PARENT],
        input=told,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    return dict(zip(programs, (Ran(*ran) for ran in json.loads(done.stdout)), strict=True))
