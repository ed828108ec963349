"""One attempt of a replica: a process, and what is done to it."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time
from typing import Mapping  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import number_in
from torchx_core.schedulers.slurm.node.guard import Guard
from torchx_core.schedulers.slurm.node.memory import oom_kills
from torchx_core.schedulers.slurm.node.output import STDERR, STDOUT, Output
from torchx_core.schedulers.slurm.node.replica import Replica, Superseded
from torchx_core.schedulers.slurm.node.signals import CHUNK, SHORTLY_S, TICK_S, Signals
from torchx_core.schedulers.slurm.node.usage import UsageReporter

DRAIN_S = 2.0
"""How long output is waited for after everything was killed: somebody else may hold the pipe."""
SIGNAL_LAG_S = 2.0
"""How long after a program a signal of Slurm's may reach its task."""
SENDER_S = 30.0
"""How long a sender of signals may be kept from its work in the middle of it, on a node that is busy."""
SUPERSEDED = 75
STOP, RESTART, SIGNAL = "stop", "restart", "signal"
"""Why a program was told to end."""


class Program:
    """One attempt: a process, and what is done to it."""

    def __init__(self, replica: Replica, signals: Signals, guard: Guard) -> None:
        self.replica: Replica = replica
        self.signals: Signals = signals
        self.guard: Guard = guard
        self.number: int = replica.begin()
        self.folder: str = replica.attempts.folder(self.number)
        most_mb = replica.plan.get("log_max_mb")
        self.output: Output = Output(self.folder, self._wait_for_room, most_mb and most_mb << 20)
        self.told: str = ""
        self.kill_at: float | None = None
        self.hastened_s: float | None = None
        self.pipes: list[int] = []
        self.failed_with: int = 0
        self.used: dict[str, object] = {}
        self.oom_before: int = oom_kills()
        self.selector: selectors.BaseSelector = selectors.DefaultSelector()
        self.selector.register(signals.wake, selectors.EVENT_READ, 0)
        self.process: subprocess.Popen[bytes] | None = self._start()
        if self.process is not None:
            guard.mind(self.process.pid)
        if signal.SIGTERM in signals.seen:
            self._signal(signal.SIGTERM)  # Slurm told every process of the job before this one was there

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start the program; None when it cannot be started, which is told as a shell does."""
        mine = self.replica.mine
        env = dict(os.environ)
        env.update(mine["env"])
        env["TORCHX_ATTEMPT"] = str(self.number)
        env["TORCHX_REPORT_FILE"] = os.path.join(self.folder, "reports.jsonl")
        env["TORCHELASTIC_ERROR_FILE"] = os.path.join(self.folder, "error.json")
        env.pop("TORCHX_DEADLINE", None)  # of an app around this one
        ends_at = self.replica.ends_at()
        if ends_at is not None:
            env["TORCHX_DEADLINE"] = f"{ends_at:.3f}"
        ends = {stream: os.pipe() for stream in (STDOUT, STDERR)}
        try:
            return subprocess.Popen(
                mine["argv"],
                cwd=mine["cwd"] or None,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=ends[STDOUT][1],
                stderr=ends[STDERR][1],
                start_new_session=True,
            )
        except OSError as err:
            name = mine["argv"][0]
            where = "" if err.filename == name else " in {}".format(mine["cwd"])
            why = os.strerror(err.errno or 0)  # Python 3.7 adds the name to what the error has
            said = f"cannot run {name}{where}: {why}\n"
            self.output.take(STDERR, said.encode("utf-8", "surrogateescape"))
            self.failed_with = 127 if isinstance(err, FileNotFoundError) else 126
            return None
        finally:
            for stream, (reading, writing) in ends.items():
                os.close(writing)
                os.set_blocking(reading, False)
                self.selector.register(reading, selectors.EVENT_READ, stream)
                self.pipes.append(reading)

    def follow(self) -> int:
        """Move output and keep watch until the program has ended; return its exit code."""
        if self.process is None:
            return self._close(self.failed_with)
        look_at = 0.0
        reporter = UsageReporter(self.replica.directory, self.folder, self.process.pid)
        while not self._has_ended(self.process.pid):
            now = time.monotonic()
            if now >= look_at or self.signals.seen:
                look_at = now + TICK_S
                self._watch()
                reporter.look()
            if self.kill_at is not None and now >= self.kill_at:
                self._signal(signal.SIGKILL)
                self.kill_at = None
            self._move(max(0.0, min([look_at] + [t for t in [self.kill_at] if t is not None]) - now))
        self._signal(signal.SIGKILL)  # whatever it left behind
        self.guard.forget()
        code = self._take_leave(self.process)
        self._drain()
        if not self.told and self._was_told_by_slurm(code):
            self._note_signal()
        elif not self.told and code != 0 and self.replica.restarted():
            self.told = RESTART  # it failed after, and perhaps because, others were started again
        return self._close(code if code >= 0 else 128 - code)

    @staticmethod
    def _has_ended(pid: int) -> bool:
        """Return whether it has; it is not reaped yet, so that its number stays that of its process group."""
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _take_leave(self, process: subprocess.Popen[bytes]) -> int:
        """Return its exit code, as `subprocess` has it, and note what it has used."""
        status, usage = os.wait4(process.pid, 0)[1:]
        process.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self.used = {
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "peak_mb": -(-usage.ru_maxrss >> 10),
            "oom": process.returncode != 0 and oom_kills() > self.oom_before,
        }
        return process.returncode

    def _wait_for_room(self) -> None:
        """Keep watch while a full disk holds up the output; give up what has to end anyway."""
        self.signals.sleep()
        self._watch()
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            raise OSError(errno.ENOSPC, "no room for its output, and it had to end")

    def _was_told_by_slurm(self, code: int) -> bool:
        """Return whether Slurm has told the program to end: its SIGTERM comes to each process of a job.

        It may be here a moment after the program, which has died of it or makes a code of its own of it, as
        after a last checkpoint. What shells call such an end is waited for; any other, while Slurm may be
        about to tell us.
        """
        died_of_it = code in (-signal.SIGTERM, 128 + signal.SIGTERM)
        until = time.monotonic() + (SIGNAL_LAG_S if died_of_it else SENDER_S)
        while signal.SIGTERM not in self.signals.seen and time.monotonic() < until:
            if not died_of_it and not self.signals.may_be_under_way():
                break
            self.signals.sleep(SHORTLY_S)
        return signal.SIGTERM in self.signals.seen

    def _watch(self) -> None:
        signals, self.signals.seen = self.signals.seen, []
        try:
            stop = self.replica.stop()
        except Superseded:
            self._signal(signal.SIGKILL)
            raise
        heard = signal.SIGTERM in signals
        if self.told == STOP and stop is not None:
            self._hasten(stop)
        if self.told in (STOP, SIGNAL):
            return
        if stop is not None and not self.told:
            grace_s = number_in(stop, "grace_s")
            self._tell(STOP, self.replica.plan["grace_s"] if grace_s is None else grace_s, heard=heard)
            self._hasten(stop)
        elif heard:
            self._note_signal()
        elif not self.told and self.replica.restarted():
            self._tell(RESTART, self.replica.plan["grace_s"])

    def _hasten(self, stop: Mapping[str, object]) -> None:
        """Kill sooner, if a later cancel has cut the grace period short; it counts from when we see it."""
        sooner_s = number_in(stop, "sooner_s")
        if sooner_s is None or sooner_s == self.hastened_s:
            return
        self.hastened_s = sooner_s
        if self.kill_at is not None:
            self.kill_at = min(self.kill_at, time.monotonic() + sooner_s)

    def _note_signal(self) -> None:
        self._tell(SIGNAL, self.replica.plan["grace_s"], heard=True)
        self.replica.note_signal()

    def _tell(self, why: str, grace_s: float, *, heard: bool = False) -> None:
        """Have the program end, by force after the grace period.

        Args:
            why: STOP, RESTART or SIGNAL.
            grace_s: How long it may take.
            heard: Slurm has told it, as it tells every process of a job, whatever its session. A program may
                take a second SIGTERM for impatience, and leave its last checkpoint unfinished.
        """
        self.told = why
        self.kill_at = time.monotonic() + grace_s
        if not heard:
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _move(self, timeout_s: float) -> None:
        """Wait for output, and read what there is."""
        for key, _ in self.selector.select(timeout_s):
            try:
                data = os.read(key.fd, CHUNK)
            except BlockingIOError:
                continue
            if key.data == 0:
                continue  # a signal
            if data:
                self.output.take(key.data, data)
            else:
                self.selector.unregister(key.fileobj)

    def _drain(self) -> None:
        until = time.monotonic() + DRAIN_S
        while time.monotonic() < until and len(self.selector.get_map()) > 1:  # one is for signals
            self._move(until - time.monotonic())

    def _close(self, code: int) -> int:
        self.output.close()
        self.selector.close()
        for pipe in self.pipes:
            os.close(pipe)
        end = {"code": code, "told": bool(self.told), "time": time.time(), **self.used}
        self.replica.attempts.close(self.number, end)
        return code
