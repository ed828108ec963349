"""A program that carries out the steps given as its arguments; it needs Python and nothing else.

`python_program` sends this file's source along, so it runs where this package is not installed. The steps are
described in `torchx_core.testing.steps`; the backend tells the attempt in ``TORCHX_ATTEMPT``.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

_ballast: list[bytearray] = []


def main(steps: list[str]) -> None:
    """Carry out the steps in order."""
    if "hold:ignore-term" in steps:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for step in steps:
        word, _, rest = step.partition(":")
        if word.startswith("err-"):
            _output(sys.stderr.fileno(), word[len("err-") :], rest)
        elif word in ("print", "write", "lines", "attempt"):
            _output(sys.stdout.fileno(), word, rest)
        elif word in ("progress", "metric", "result"):
            _report(word, rest)
        elif word == "use":
            _use(*rest.split(":"))
        else:
            _end_or_stay(word, rest)


def _output(fd: int, word: str, rest: str) -> None:
    if word == "attempt":
        count, _, text = rest.partition(":")
        for i in range(int(count)):  # one write per line: more of them are under way when the attempt ends
            _output(fd, "print", f"{text} {os.environ['TORCHX_ATTEMPT']} {i}")
        return
    if word == "lines":
        data = b"".join(b"%d\n" % i for i in range(int(rest)))
    else:
        data = os.fsencode(rest) + (b"\n" if word == "print" else b"")
    while data:
        data = data[os.write(fd, data) :]


def _report(word: str, rest: str) -> None:
    first, _, more = rest.partition(":")
    report: dict[str, object] = {"type": word, "time": time.time()}
    if word == "progress":
        report.update(fraction=float(first), message=more)
    elif word == "metric":
        value, _, step = more.partition(":")
        report.update(name=first, value=float(value), step=int(step) if step else None)
    else:
        report.update(value=json.loads(rest))
    with Path(os.environ["TORCHX_REPORT_FILE"]).open("ab") as file:
        file.write(json.dumps(report).encode() + b"\n")


def _use(cpu_s: str, memory_mb: str = "0") -> None:
    _ballast.append(bytearray(int(memory_mb) << 20))  # written to, so that the kernel has to give it
    until = sum(os.times()[:2]) + float(cpu_s)
    while sum(os.times()[:2]) < until:
        pass


def _end_or_stay(word: str, rest: str) -> None:
    if word == "exit":
        sys.exit(int(rest))
    if word == "fail-until":
        attempt, _, code = rest.partition(":")
        if int(os.environ["TORCHX_ATTEMPT"]) < int(attempt):
            sys.exit(int(code))
    if word == "signal":
        name, _, offset = rest.partition("+")
        os.kill(os.getpid(), signal.Signals[name] + int(offset or 0))
    while word == "hold":
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
