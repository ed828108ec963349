"""The witness: a replica's program that does what a script says, and writes down elsewhere what it did.

``python3 witness.py DIRECTORY ROLE REPLICA`` carries out the ``script.json`` beside this file and keeps its
notes in the directory, which the product knows nothing of. That is the folder of this file, or one below it
for each app: then each line names the app too. Only the standard library: it runs in containers and on
nodes. Each line that it prints says whose it is and can be made again from that (`line`).

What is exact: a note is written before each write(2) to a stream and another after it. Bytes between the two
may or may not have left a program that was killed there; all others have, or have not. It ends as its last
note says: a SIGTERM between that note and its end has no effect. A lock per replica and per grandchild is
held as long as the process lives, so that "does it still run" asks no process table.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
import zlib
from collections.abc import Callable
from typing import NoReturn

STREAMS = {"stdout": 1, "stderr": 2}
LONGEST_S = 600.0
"""How long anything here runs at most, if nobody ends it."""
BROKEN_PIPE = 97
"""Exit code of a witness whose output nobody takes any more."""


def line(who: str, stream: str, number: int, kind: str, size: int) -> bytes:
    """Return a line of the witness, without its newline.

    Args:
        who: ``ROLE/REPLICA/ATTEMPT``, and ``@APP`` where there may be several apps.
        stream: ``stdout`` or ``stderr``.
        number: 0-based, in this stream.
        kind: ``plain``, ``bar`` (carriage returns), ``wide`` (UTF-8), ``broken`` (no UTF-8).
        size: Bytes of filling.
    """
    fill = {
        "plain": b"%d." % number,
        "bar": b"\r%d%%" % number,
        "wide": "é漢🙂".encode(),
        "broken": b"\xff\xc3(\xf0\x9f",
    }[kind]
    head = f"{who} {stream} {number} {kind}".encode()
    body = (fill * (size // len(fill) + 1))[:size]
    return b"%s %08x %s" % (head, zlib.crc32(head + body), body)


def signal_number(name: str) -> int:
    """Return the number of ``SIGKILL`` or ``SIGRTMIN+1``."""
    base, _, offset = name.partition("+")
    return signal.Signals[base] + int(offset or 0)


def _term(how: int) -> None:
    """Block or unblock SIGTERM."""
    signal.pthread_sigmask(how, {signal.SIGTERM})


class Notes:
    """One copy's notes: a file of its own, one line of JSON per fact."""

    def __init__(self, directory: str, role: str, replica: str) -> None:
        """Claim the first free name, so that a second copy of an attempt cannot hide behind the first."""
        self.attempt = os.environ.get("TORCHX_ATTEMPT", "0")
        self.stem = os.path.join(directory, f"{role}.{replica}")
        for copy in range(1000):
            try:
                name = f"{self.stem}.{self.attempt}.{copy}.notes"
                self._fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o644)
                break
            except FileExistsError:
                continue

    def add(self, what: str, **facts: object) -> None:
        """Write one fact down; one write(2), so that it is there or not."""
        os.write(self._fd, json.dumps({"what": what, "time": time.time(), **facts}).encode() + b"\n")

    def lock(self, name: str) -> int:
        """Hold a lock for as long as this process lives; note when somebody else still holds it."""
        fd = os.open(f"{self.stem}{name}.alive", os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.add("overlap")
        return fd


class Witness:
    """One attempt of one replica."""

    def __init__(self, directory: str, role: str, replica: str) -> None:
        """Note the start before anything else."""
        os.makedirs(directory, exist_ok=True)
        self._notes = Notes(directory, role, replica)
        home = os.path.dirname(os.path.abspath(__file__))
        app = "" if os.path.abspath(directory) == home else "@" + os.path.basename(directory)
        self._home = home
        self._who = f"{role}/{replica}/{self._notes.attempt}{app}"
        self._alive = self._notes.lock("")
        self._notes.add("start", pid=os.getpid(), parent=os.getppid(), who=self._who)
        self._next = dict.fromkeys(STREAMS, 0)
        self._children = 0
        self._told = False
        self._goodbye: tuple[int, int] | None = None
        with open(os.path.join(home, "script.json"), encoding="utf-8") as file:
            attempts = json.load(file)[f"{role}/{replica}"]
        self._steps: list[list[object]] = attempts[min(int(self._notes.attempt), len(attempts) - 1)]

    def run(self) -> NoReturn:
        """Carry out the script; without an ``exit`` step it ends well."""
        for name, *args in self._steps:
            getattr(self, f"_do_{name}")(*args)
            self._heed()
        self._do_exit(0)

    # --- printing

    def _do_print(self, stream: str, count: int, per_write: int, size: int, kind: str = "plain") -> None:
        """Print lines, so many with each write(2)."""
        for first in range(0, count, per_write):
            self._say(stream, min(per_write, count - first), kind, size)
            self._heed()

    def _do_both(self, count: int) -> None:
        """Print to both streams in turn."""
        for i in range(count):
            self._say(("stdout", "stderr")[i % 2], 1, "plain", 8)

    def _do_cut(self, stream: str, size: int, at: int, kind: str) -> None:
        """Print a line by two writes, cut anywhere, also within a character."""
        self._say(stream, 1, kind, size, cut=at)

    def _do_open(self, stream: str) -> None:
        """Print a last line that has no newline."""
        self._say(stream, 1, "plain", 8, end=b"")

    def _say(
        self, stream: str, count: int, kind: str, size: int, *, end: bytes = b"\n", cut: int | None = None
    ) -> None:
        first = self._next[stream]
        self._next[stream] += count
        text = b"".join(line(self._who, stream, first + i, kind, size) + end for i in range(count))
        cuts = None if cut is None else min(cut, len(text))
        self._notes.add(
            "print",
            stream=stream,
            first=first,
            count=count,
            kind=kind,
            size=size,
            end=end.decode(),
            cut=cut is not None,
        )
        try:
            for part in [text] if cuts is None else [text[:cuts], text[cuts:]]:
                self._write(stream, part)
        except BrokenPipeError:
            self._notes.add("broken_pipe", stream=stream)
            self._do_exit(BROKEN_PIPE)
        self._notes.add("printed", stream=stream)

    def _write(self, stream: str, data: bytes) -> None:
        while data:
            data = data[os.write(STREAMS[stream], data) :]

    # --- reports

    def _do_progress(self, fraction: float) -> None:
        self._report({"type": "progress", "fraction": fraction, "message": f"{self._who} is at {fraction}"})

    def _do_metric(self, step: int) -> None:
        self._report({"type": "metric", "name": "loss", "value": 1.0 / (step + 1), "step": step})

    def _do_result(self, value: object) -> None:
        self._report({"type": "result", "value": [self._who, value]})

    def _report(self, report: dict[str, object]) -> None:
        path = os.environ.get("TORCHX_REPORT_FILE")
        if not path:
            return
        self._notes.add("report", report=report)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, json.dumps(report).encode() + b"\n")
        os.close(fd)
        self._notes.add("reported")

    # --- time and signals

    def _do_pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._is_leaving() and (left := deadline - time.monotonic()) > 0:
            select.select([self._bell] if self._bell >= 0 else [], [], [], left)

    def _do_hold(self) -> None:
        self._do_pause(LONGEST_S)

    def _do_gate(self, name: str) -> None:
        """Wait until somebody makes the file of that name beside this program."""
        deadline = time.monotonic() + LONGEST_S
        while not os.path.exists(os.path.join(self._home, name)) and time.monotonic() < deadline:
            self._do_pause(0.02)
            if self._is_leaving():
                return

    def _do_deaf(self) -> None:
        """Ignore SIGTERM from now on, but note it."""
        self._on_term()

    def _do_goodbye(self, count: int, code: int) -> None:
        """On SIGTERM print so many lines and leave with the code."""
        self._goodbye = count, code
        self._on_term()

    def _on_term(self) -> None:
        self._bell, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_signal)

    _bell = -1

    def _on_signal(self, number: int, _frame: object) -> None:
        """Only note it: whoever prints is asked to leave between two lines, never within one."""
        self._notes.add("told", signal=signal.Signals(number).name)
        self._told = True

    def _is_leaving(self) -> bool:
        if self._bell >= 0 and select.select([self._bell], [], [], 0)[0]:
            os.read(self._bell, 4096)
        return self._told and self._goodbye is not None

    def _heed(self) -> None:
        if self._is_leaving() and self._goodbye is not None:
            (count, code), self._goodbye = self._goodbye, None
            for i in range(count):
                self._say(("stdout", "stderr")[i % 2], 1, "plain", 8)
            self._do_exit(code)

    # --- ends

    def _do_exit(self, code: int) -> NoReturn:
        _term(signal.SIG_BLOCK)
        self._notes.add("exit", code=code)
        os._exit(code)

    def _do_die(self, name: str) -> None:
        _term(signal.SIG_BLOCK)
        self._notes.add("die", signal=name)
        number = signal_number(name)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        _term(signal.SIG_UNBLOCK)
        signal.pause()

    # --- grandchildren

    def _do_child(self, kind: str) -> None:
        """Leave a process in our ``group``, a ``session`` of its own, a ``daemon`` or a ``deaf`` one."""
        self._children += 1
        name = f".{self._notes.attempt}.child{self._children}"
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(kind, name, tell)
        os.close(tell)
        os.read(ready, 1)  # its lock is held, or it is gone
        os.close(ready)
        if kind in {"daemon", "deaf"}:
            os.waitpid(pid, 0)

    def _become(self, kind: str, name: str, tell: int) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if kind == "deaf" else signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        if kind != "group":
            os.setsid()
        if kind in {"daemon", "deaf"} and os.fork():
            os._exit(0)
        os.close(self._alive)
        self._notes.lock(name)
        self._notes.add("child", kind=kind, pid=os.getpid())
        if kind == "deaf":  # the others keep the streams open
            null = os.open(os.devnull, os.O_RDWR)
            for fd in STREAMS.values():
                os.dup2(null, fd)
        os.write(tell, b"!")
        os.close(tell)
        wait: Callable[..., object] = select.select
        wait([], [], [], LONGEST_S)
        os._exit(0)


if __name__ == "__main__":
    Witness(*sys.argv[1:4]).run()
