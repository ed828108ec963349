"""What runs on the nodes of a Slurm job, shipped with it as a file of its own: only the standard library.

``shim.py lead DIR``, in the batch script: makes sure that this job is the app's only one, writes down that a
run of it has begun, and starts a task per replica with srun. ``shim.py replica DIR N``, in each task of role
N: runs the replica's program and writes what it does into the app's directory, which all nodes share.

::

    job.json                 the one job of this app: {"job_id"}; whoever writes it first is right
    run.<n>.json             a run of the job: its first, and one more after each requeue
    stop.json                why the app ends: {"outcome", "msg", "grace_s", "time", "index"}; first wins
    restart.<g>.json         replicas that start again together: {"indices", "run", "time"}
    done                     every replica has succeeded
    left/<run>.<i>           the task of replica i has nothing more to do in that run
    lease                    whoever follows the app writes something new here
    log/<role>/<k>/<n>/      attempt n: start.json, stdout.log, stderr.log, combined.log, index,
                             reports.jsonl, error.json, end.json (after which nothing changes)

``index`` has a record per run of whole lines of one stream in ``combined.log`` (`RECORD`).

**Fencing.** After a node was lost Slurm may run a job again while its old tasks live on. An old task sees
that a later run has begun, kills its program and writes nothing more; each attempt has its own directory.

Runs on Python 3.7 and newer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from types import FrameType
from typing import Any, Iterator  # noqa: UP035  (Python 3.7)

RECORD = struct.Struct("<dqBB6x")
"""When, where the run ends in ``combined.log``, stream (1 stdout, 2 stderr), whether a newline ends it."""

TICK_S = 1.0
"""How long the shared directory is left alone; SIGCONT, which programs ignore, makes it look at once."""
CHUNK = 1 << 16
MAX_LINE = 1 << 16
"""Longer lines are cut into pieces."""
DRAIN_S = 2.0
"""How long output is waited for after everything was killed: somebody else may hold the pipe."""
STDOUT, STDERR = 1, 2
SIGNAL_LAG_S = 2.0
"""How long after a program a signal of Slurm's may reach its task."""
SUPERSEDED = 75
STOP, RESTART, SIGNAL = "stop", "restart", "signal"
"""Why a program was told to end."""


def read_json(path: str) -> dict[str, Any] | None:
    """Return the JSON object in the file, or None."""
    try:
        with open(path, "rb") as file:
            value: dict[str, Any] | None = json.loads(file.read().decode("ascii"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_once(path: str, value: dict[str, Any]) -> bool:
    """Create the file whole, unless it exists; return whether it is ours."""
    temporary = f"{path}.{os.urandom(6).hex()}"
    with open(temporary, "wb") as file:
        file.write(json.dumps(value).encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def this_run() -> int:
    """Return how often Slurm has started this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


# --- the batch script -----------------------------------------------------------------------------


def lead(directory: str) -> int:
    """Start the replicas; return the exit code of srun."""
    plan = read_json(os.path.join(directory, "plan.json"))
    job_id = os.environ.get("SLURM_HET_JOB_ID") or os.environ["SLURM_JOB_ID"]
    job = os.path.join(directory, "job.json")
    write_once(job, {"job_id": job_id})
    claimed = read_json(job) or {}
    if (
        plan is None
        or claimed.get("job_id") != job_id
        or os.path.exists(os.path.join(directory, "final.json"))
    ):
        print(f"job {job_id} is not the job of this app, or too late: it does nothing", file=sys.stderr)
        return 0
    nodes = os.environ.get("SLURM_JOB_NODELIST_HET_GROUP_0") or os.environ.get("SLURM_JOB_NODELIST", "")
    run = {"job_id": job_id, "time": time.time(), "nodes": nodes}
    write_once(os.path.join(directory, f"run.{this_run()}.json"), run)
    os.environ[plan["rank0_env"]] = first_address(nodes)
    return subprocess.call(srun(plan, directory))


def srun(plan: dict[str, Any], directory: str) -> list[str]:
    """Return the command that starts a task per replica, on all components of the job at once."""
    command = ["srun", "--kill-on-bad-exit=0", "--wait=0"]
    several = len(plan["roles"]) > 1
    for number, role in enumerate(plan["roles"]):
        if number:
            command.append(":")
        if several:
            command.append(f"--het-group={number}")
        command += [f"--ntasks={role['replicas']}", f"--cpus-per-task={role['cpus']}"]
        command += [plan["python"], os.path.join(directory, "shim.py"), "replica", directory, str(number)]
    return command


def first_address(nodes: str) -> str:
    """Return where the first node is reached: Slurm may know another address than the name's."""
    try:
        name = subprocess.check_output(["scontrol", "show", "hostnames", nodes]).decode().split()[0]
        shown = subprocess.check_output(["scontrol", "--oneliner", "show", "node", name]).decode()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "localhost"
    for word in shown.split():
        key, _, value = word.partition("=")
        if key == "NodeAddr" and value:
            return value
    return name


# --- a replica ------------------------------------------------------------------------------------


class Superseded(Exception):
    """A later run of the job has begun: this task must not touch anything any more."""


class Replica:
    """One task: the replica that it runs, and how the app stands."""

    def __init__(self, directory: str, plan: dict[str, Any], role_number: int) -> None:
        """Find out which replica this is: tasks are counted over all roles."""
        before = sum(role["replicas"] for role in plan["roles"][:role_number])
        self.directory = directory
        self.plan = plan
        self.index = before + (int(os.environ.get("SLURM_PROCID") or before) - before)
        self.mine = plan["replicas"][self.index]
        self.run = this_run()
        self.restarts = self._earlier_restarts()
        self.lease_seen = (self._lease(), time.monotonic())

    def path(self, name: str) -> str:
        """Return the path of one of the app's files."""
        return os.path.join(self.directory, name)

    def log_dir(self, index: int, attempt: int) -> str:
        """Return the directory of an attempt of a replica."""
        replica = self.plan["replicas"][index]
        return os.path.join(replica["log_dir"], str(attempt))

    def stop(self) -> dict[str, Any] | None:
        """Return why the app ends, or None; see to it that deadline and lease are kept."""
        if os.path.exists(self.path(f"run.{self.run + 1}.json")):
            raise Superseded
        stop = read_json(self.path("stop.json"))
        if stop is None and self._overdue():
            self.end_app("CANCELLED", self._overdue(), -1)
            stop = read_json(self.path("stop.json"))
        return stop

    def end_app(self, outcome: str, msg: str, index: int) -> None:
        """Write down why the app ends; the first reason counts."""
        stop = {"outcome": outcome, "msg": msg, "grace_s": None, "time": time.time(), "index": index}
        write_once(self.path("stop.json"), stop)

    def restarted(self) -> bool:
        """Return whether this replica is to start again, together with others."""
        while True:
            restart = read_json(self.path(f"restart.{self.restarts}.json"))
            if restart is None:
                return False
            self.restarts += 1
            if self.index in restart["indices"]:
                return True

    def may_restart(self) -> bool:
        """Return whether a failure of this replica still starts something again, having ordered it."""
        failures = sum(self._failed(attempt) for attempt in range(self._attempts()))
        if failures > self.mine["max_retries"]:
            return False
        if self.mine["policy"] != "REPLICA":
            indices = [
                i
                for i, replica in enumerate(self.plan["replicas"])
                if self.mine["policy"] == "APPLICATION" or replica["role"] == self.mine["role"]
            ]
            order = {"indices": indices, "run": self.run, "time": time.time()}
            write_once(self.path(f"restart.{self.restarts}.json"), order)
            self.restarted()
        return True

    def all_succeeded(self) -> bool:
        """Return whether every replica has, as far as one can see; written down for those who wait."""
        if not os.path.exists(self.path("done")):
            if not all(self._succeeded(index) for index in range(len(self.plan["replicas"]))):
                return False
            write_once(self.path("done"), {"time": time.time()})
        return True

    def leave(self) -> None:
        """Say that nothing more comes from this task."""
        os.makedirs(self.path("left"), exist_ok=True)
        write_once(self.path(f"left/{self.run}.{self.index}"), {"time": time.time()})

    def waits_for_others(self) -> bool:
        """Return whether somebody's failure could start this replica again."""
        return any(r["max_retries"] and r["policy"] != "REPLICA" for r in self.plan["replicas"])

    def next_attempt(self) -> int:
        """Claim the number of a new attempt."""
        number = self._attempts()
        while True:
            try:
                os.makedirs(self.log_dir(self.index, number), mode=0o700)
            except FileExistsError:
                number += 1
            else:
                return number

    def _attempts(self, index: int | None = None) -> int:
        number = 0
        while os.path.isdir(self.log_dir(self.index if index is None else index, number)):
            number += 1
        return number

    def _failed(self, attempt: int) -> bool:
        end = read_json(os.path.join(self.log_dir(self.index, attempt), "end.json"))
        return end is not None and end["code"] != 0 and not end["told"]

    def _succeeded(self, index: int) -> bool:
        """Return whether a replica has, and is not to start again: each order made it an attempt more."""
        last = self._attempts(index) - 1
        if last < sum(index in order["indices"] for order in self._orders()):
            return False
        end = read_json(os.path.join(self.log_dir(index, last), "end.json"))
        return end is not None and end["code"] == 0 and not end["told"]

    def _orders(self) -> Iterator[dict[str, Any]]:
        number = 0
        while True:
            order = read_json(self.path(f"restart.{number}.json"))
            if order is None:
                return
            yield order
            number += 1

    def _earlier_restarts(self) -> int:
        """Count the orders of earlier runs; one of this run counts, also if it came before this task."""
        return sum(order["run"] < self.run for order in self._orders())

    def _overdue(self) -> str:
        plan = self.plan
        if plan["deadline"] is not None and time.time() >= plan["deadline"]:
            return "the deadline has passed"
        first = read_json(self.path("run.0.json"))
        if plan["timeout_s"] is not None and first and time.time() >= first["time"] + plan["timeout_s"]:
            return "the deadline has passed: it ran for {:g} s".format(plan["timeout_s"])
        if plan["lease_s"] is not None:
            lease = self._lease()
            if lease != self.lease_seen[0]:
                self.lease_seen = (lease, time.monotonic())
            elif time.monotonic() - self.lease_seen[1] >= plan["lease_s"]:
                return "its lease has expired: nobody followed the app for {:g} s".format(plan["lease_s"])
        return ""

    def _lease(self) -> bytes:
        try:
            with open(self.path("lease"), "rb") as file:
                return file.read()
        except OSError:
            return b""


class Output:
    """The files of one attempt's output."""

    def __init__(self, folder: str) -> None:
        self._combined = self._open(folder, "combined.log")
        self._index = self._open(folder, "index")
        self._raw = {STDOUT: self._open(folder, "stdout.log"), STDERR: self._open(folder, "stderr.log")}
        self._rest = {STDOUT: b"", STDERR: b""}
        self._end = 0

    @staticmethod
    def _open(folder: str, name: str) -> int:
        return os.open(
            os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def take(self, stream: int, data: bytes) -> None:
        """Take what a program wrote; whole lines are shown at once."""
        write_all(self._raw[stream], data)
        whole, newline, rest = (self._rest[stream] + data).rpartition(b"\n")
        if newline:
            self._show(stream, whole + newline, eol=True)
        while len(rest) > MAX_LINE:
            self._show(stream, rest[:MAX_LINE], eol=False)
            rest = rest[MAX_LINE:]
        self._rest[stream] = rest

    def close(self) -> None:
        """Show what no newline has ended."""
        for stream, rest in self._rest.items():
            if rest:
                self._show(stream, rest, eol=False)
        for fd in (self._combined, self._index, *self._raw.values()):
            os.close(fd)

    def _show(self, stream: int, data: bytes, *, eol: bool) -> None:
        write_all(self._combined, data)
        self._end += len(data)
        write_all(self._index, RECORD.pack(time.time(), self._end, stream, eol))


def write_all(fd: int, data: bytes) -> None:
    """Write all of it; on a full disk wait for room rather than lose a line."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError as err:
            if err.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            time.sleep(TICK_S)  # noqa: TID251  (nothing tells of room on a disk)


class Program:
    """One attempt: a process, and what is done to it."""

    def __init__(self, replica: Replica, signals: Signals) -> None:
        self.replica = replica
        self.signals = signals
        self.number = replica.next_attempt()
        self.folder = replica.log_dir(replica.index, self.number)
        self.output = Output(self.folder)
        self.told = ""
        self.kill_at: float | None = None
        self.pipes: list[int] = []
        self.failed_with = 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(signals.wake, selectors.EVENT_READ, 0)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start the program; None when it cannot be started, which is told as a shell does."""
        mine = self.replica.mine
        env = dict(os.environ)
        env.update(mine["env"])
        env["TORCHX_ATTEMPT"] = str(self.number)
        env["TORCHX_REPORT_FILE"] = os.path.join(self.folder, "reports.jsonl")
        env["TORCHELASTIC_ERROR_FILE"] = os.path.join(self.folder, "error.json")
        start = {"time": time.time(), "host": os.environ.get("SLURMD_NODENAME") or os.uname().nodename}
        start["run"] = self.replica.run
        write_once(os.path.join(self.folder, "start.json"), start)
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
            self.output.take(STDERR, ("cannot run {}: {}\n".format(mine["argv"][0], err.strerror)).encode())
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
        while self.process.poll() is None:
            now = time.monotonic()
            if now >= look_at or self.signals.seen:
                look_at = now + TICK_S
                self._watch()
            if self.kill_at is not None and now >= self.kill_at:
                self._signal(signal.SIGKILL)
                self.kill_at = None
            self._move(max(0.0, min([look_at] + [t for t in [self.kill_at] if t is not None]) - now))
        self._signal(signal.SIGKILL)  # whatever it left behind
        self._drain()
        code = self.process.returncode
        if code == -signal.SIGTERM and not self.told and self._was_ours_too():
            self.told = SIGNAL
        return self._close(code if code >= 0 else 128 - code)

    def _was_ours_too(self) -> bool:
        """Return whether the signal that ended the program came from Slurm, which sends it here as well."""
        until = time.monotonic() + SIGNAL_LAG_S
        while signal.SIGTERM not in self.signals.seen and time.monotonic() < until:
            self.signals.sleep()
        return signal.SIGTERM in self.signals.seen

    def _watch(self) -> None:
        signals, self.signals.seen = self.signals.seen, []
        try:
            stop = self.replica.stop()
        except Superseded:
            self._signal(signal.SIGKILL)
            os._exit(SUPERSEDED)
        if self.told:
            return
        if stop is not None:
            grace_s = stop["grace_s"]
            self._tell(STOP, self.replica.plan["grace_s"] if grace_s is None else grace_s)
        elif self.replica.restarted():
            self._tell(RESTART, self.replica.plan["grace_s"])
        elif signal.SIGTERM in signals:
            self._tell(SIGNAL, self.replica.plan["grace_s"])

    def _tell(self, why: str, grace_s: float) -> None:
        self.told = why
        self.kill_at = time.monotonic() + grace_s
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _move(self, timeout_s: float) -> bool:
        """Read what there is; return whether a pipe is still open."""
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
        return len(self.selector.get_map()) > 1

    def _drain(self) -> None:
        until = time.monotonic() + DRAIN_S
        while time.monotonic() < until and self._move(until - time.monotonic()):
            pass

    def _close(self, code: int) -> int:
        self.output.close()
        self.selector.close()
        for pipe in self.pipes:
            os.close(pipe)
        end = {"code": code, "told": bool(self.told), "time": time.time()}
        write_once(os.path.join(self.folder, "end.json"), end)
        return code


class Signals:
    """Signals that asked this task to look, or to end."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.wake, self._ring = os.pipe()
        for fd in (self.wake, self._ring):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._ring)
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGCHLD):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.seen.append(number)

    def sleep(self) -> None:
        """Wait a tick, or for a signal."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            if selector.select(TICK_S):
                os.read(self.wake, CHUNK)


def play(directory: str, role_number: int) -> int:
    """Run a replica until nothing starts it any more; return the exit code of the task."""
    signals = Signals()
    replica = Replica(directory, read_json(os.path.join(directory, "plan.json")) or {}, role_number)
    try:
        code = run_attempts(replica, signals)
    except Superseded:
        return SUPERSEDED
    replica.leave()
    return code


def run_attempts(replica: Replica, signals: Signals) -> int:
    """Run one attempt after the other; return the exit code of the task."""
    if replica.stop() is not None:
        return 0  # ended before it began
    while True:
        program = Program(replica, signals)
        code = after(replica, program.follow(), program.told, signals)
        if code is not None:
            return code


def after(replica: Replica, code: int, told: str, signals: Signals) -> int | None:
    """Return the task's exit code, or None when another attempt is to start."""
    if told == RESTART:
        return None
    if told == STOP:
        return 0
    if told == SIGNAL:
        return 128 + signal.SIGTERM
    if code != 0:
        if replica.may_restart():
            return None
        replica.end_app("FAILED", "", replica.index)
        return code
    return wait_for_others(replica, signals)


def wait_for_others(replica: Replica, signals: Signals) -> int | None:
    """Stay as long as somebody's failure could start this replica, which has succeeded, again."""
    while True:
        if replica.restarted():
            return None
        over = replica.all_succeeded() or not replica.waits_for_others()
        if over or replica.stop() is not None or signal.SIGTERM in signals.seen:
            return 0
        signals.sleep()


def main(argv: list[str]) -> int:
    """Do what the command line says."""
    if argv[0] == "lead":
        return lead(argv[1])
    return play(argv[1], int(argv[2]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
