"""The supervisor's loop: turns what happens into events, and carries out what the machine answers.

One thread; everything that can block is a descriptor in one epoll set. The races live here and nowhere else.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections import deque
from collections.abc import Callable
from functools import partial
from io import FileIO
from itertools import chain
from time import time

from torchx_core.supervisor import gpus, machine, timeline
from torchx_core.supervisor.attempt import Attempt, HostShare, Launch, prepare
from torchx_core.supervisor.final import FinalRecord, without_texts
from torchx_core.supervisor.journal import Appender, encode_event
from torchx_core.supervisor.limits import Group
from torchx_core.supervisor.loop import Loop
from torchx_core.supervisor.plan import Plan, ends_at, fresh_state
from torchx_core.supervisor.ports import MeetingPorts
from torchx_core.supervisor.records import (
    CANCEL,
    JOURNAL,
    LOOK,
    RENEW,
    REPORTS,
    SPEC,
    STOP,
    TIMELINE,
    dumps,
    ordered_grace_s,
    read_json,
)
from torchx_core.supervisor.relay import Channel, Relay
from torchx_core.supervisor.reports import BadReport, parse_report
from torchx_core.supervisor.shape import is_number
from torchx_core.supervisor.signals import signal_name, signal_pipe
from torchx_core.supervisor.spawn import EXACT_SIZE, CannotStart, begin_all, pipe_size
from torchx_core.supervisor.tree import (
    children,
    descendants,
    group_of,
    has_only_strangers,
    kill,
    kill_descendants,
    kill_group,
    session_of,
)
from torchx_core.supervisor.usage import Tally

_RETRY_S = 0.5
_LOOK_S = 10.0
"""How often to see whether the app's record is still there and, if it has a deadline, the time of day."""
_PATIENCE_S = 10.0
"""How long to wait for space on a full disk before doing with less."""
_AT_ONCE = 16
"""How many programs may be about to run: nobody reads what they print before all of these do."""
_LAST_ROUNDS = 512
"""How often to look for more from an attempt that has ended: what it left behind may print for ever."""


class Supervisor:
    """Runs one app from its plan to its final record."""

    def __init__(self, app_dir: str, name: str, plan: Plan, ctl: int) -> None:
        """`name` is unique on this host; `ctl` is the reading end of the app's control pipe."""
        self._dir = app_dir
        self._name = name
        self._plan = plan
        self._ctl = FileIO(ctl)
        self._journal = Appender(os.path.join(app_dir, JOURNAL))
        self._reports = Appender(os.path.join(app_dir, REPORTS))
        self._line = Appender(os.path.join(app_dir, TIMELINE), after=(self._journal, self._reports))
        self._relay = Relay(self._line, app_dir, plan.log_max_mb)
        self._final = FinalRecord(app_dir, len(plan.replicas))
        self._state = fresh_state(plan)
        self._todo: deque[machine.Instruction] = deque()
        self._running: dict[int, Attempt] = {}  # by pid
        self._open: dict[int, Attempt] = {}  # by replica: the attempt whose pipes are open
        self._asked: set[int] = set()  # processes that were sent SIGTERM by number
        self._groups_asked: set[int] = set()  # and process groups
        self._loop = Loop()
        self._timers = self._loop.timers
        self._sweep = self._sweep_kill = self._empty = False
        self._gpus: list[str] | None = None
        self._ports = MeetingPorts(plan)
        self._groups: list[Group] = []
        self._tally = Tally()
        self._nofile = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._env = dict(os.environ)
        self._signals = signal_pipe(signal.SIGCHLD, signal.SIGTERM)
        self._signalled = False

    def run(self) -> None:
        """Serve the app until its final record is on disk."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._nofile[1], self._nofile[1]))
        self._loop.watch(self._signals, self._on_signal)
        self._loop.watch(self._ctl, self._on_ctl)
        if self._plan.deadline is not None:
            self._mind_the_deadline(self._plan.deadline)
        self._renew()
        self._mind_the_record()
        self._look()
        self._begin()
        while self._state.phase != machine.ENDED:
            self._turn()
        for _ in range(int(_PATIENCE_S / _RETRY_S)):
            if self._final.write(self._state):
                break
            self._wait_for_space()
        while not self._final.write(without_texts(self._state)):
            self._wait_for_space()
        self._relay.mark(_entry(timeline.END))
        for _ in range(int(_PATIENCE_S / _RETRY_S)):  # readers then do without the end mark
            if not self._line.blocked:
                break
            self._wait_for_space()

    def _turn(self) -> None:
        """Wait for something and deal with it."""
        gathering = self._relay.dirty
        ready = self._loop.turn(wait=not gathering and not self._todo)
        if self._signalled:
            self._signalled = False
            self._reap()
        if gathering and (not ready or self._relay.overdue):
            self._relay.flush()
        while self._todo:
            self._carry_out(self._todo.popleft())

    def _feed(self, event: machine.Event) -> None:
        """Journal the event, then act on it."""
        if self._state.phase == machine.ENDED:
            return  # a report, say, that came in the same turn
        state, instructions = machine.step(self._state, event, self._plan.grace_s)
        line = encode_event(event)
        offset = self._journal.append(line)
        replica, attempt = getattr(event, "replica", 0), getattr(event, "attempt", 0)
        self._relay.mark(_entry(timeline.EVENT, offset, len(line), replica, attempt))
        if self._line.blocked:
            self._timers.set("space", _RETRY_S, self._on_space)
        self._state = state
        self._todo.extend(instructions)
        if self._state.phase not in (machine.RESTARTING, machine.STOPPING):
            self._timers.drop("grace")

    def _begin(self) -> None:
        """Start the app, once its GPUs are free."""
        if self._state.phase != machine.SUBMITTED:
            return
        wanted = sum(r.gpus for r in self._plan.replicas)
        if wanted and self._gpus is None:
            try:
                self._gpus = gpus.acquire(self._plan.gpu_dir, self._plan.gpu_ids, wanted)
            except OSError as err:
                self._stop(machine.FAILED, f"cannot lock GPUs: {err}")
                return
            if self._gpus is None:
                self._timers.set("gpus", _RETRY_S, self._begin)
                return
        self._feed(machine.Began(time(), os.getpid()))
        timeout_s = self._plan.timeout_s
        if timeout_s is not None:
            msg = f"deadline passed: it ran for {timeout_s:g} s"
            self._timers.set("timeout", timeout_s, lambda: self._stop(machine.CANCELLED, msg))

    # Instructions

    def _carry_out(self, instruction: machine.Instruction) -> None:
        match instruction:
            case machine.Start():
                self._mind_the_record()  # what is made in its place would look like an app
                self._start(self._due_with(instruction))
            case machine.Terminate(replica):
                self._terminate(replica)
            case machine.Kill(replica):
                self._kill(replica)
            case machine.Alarm(after_s):
                self._timers.set("grace", after_s, lambda: self._feed(machine.GraceOver(time())))
            case machine.Sweep(kill):
                self._start_sweep(kill=kill)
            case machine.Finish():
                self._close_all()

    def _due_with(self, first: machine.Start) -> list[machine.Start]:
        """Return this start and those that follow it, as far as they are due."""
        starts = [first]
        while self._todo and len(starts) < _AT_ONCE and isinstance(following := self._todo[0], machine.Start):
            starts.append(following)
            self._todo.popleft()
        # A restart orders again what still waits for its turn: until it runs, both orders are due.
        return [start for start in dict.fromkeys(starts) if machine.is_due(self._state, start)]

    def _start(self, starts: list[machine.Start]) -> None:
        """Start programs: all are prepared, then all begin, so that they are loaded at the same time."""
        for start in starts:
            self._clear_away(start.replica)  # all of them first: it takes what any replica has printed
        launches: list[Launch] = []
        failures: list[machine.StartFailed] = []
        while starts and not failures:
            start = starts.pop(0)
            try:
                launches.append(self._prepare(start, launches))
            except CannotStart as err:
                failures.append(_failure(start, err))
        pids, refusal = begin_all([each.ready for each in launches])
        for each in (later := launches[len(pids) :]):
            each.undo.close()
        if refusal is not None:
            failures.append(_failure(later.pop(0).start, refusal))
        self._todo.extendleft(reversed([*(each.start for each in later), *starts]))
        for each, pid in zip(launches, pids, strict=False):
            try:
                self._started(each.finish(pid))
            except CannotStart as err:
                failures.append(_failure(each.start, err))
        # Only now: whoever runs must be known to do so when the machine decides what becomes of the others.
        for failure in failures:
            if machine.is_due(self._state, machine.Start(failure.replica, failure.attempt)):
                self._feed(failure)

    def _prepare(self, start: machine.Start, launches: list[Launch]) -> Launch:
        index = start.replica
        # The latest first: they are of its own role.
        running = chain(
            (each.attempt.replica for each in reversed(launches)),
            (attempt.replica for attempt in reversed(self._running.values())),
        )
        port = self._ports.shown_to(index, running)
        until = ends_at(self._plan, self._state.began_at)
        share = HostShare(gpus.shown_to(index, self._plan, self._gpus), port, until, self._nofile, self._env)
        return prepare(
            self._plan,
            start,
            app_dir=self._dir,
            name=self._name,
            relay=self._relay,
            listen=self._listen,
            share=share,
        )

    def _started(self, attempt: Attempt) -> None:
        self._running[attempt.pid] = attempt
        self._open[attempt.replica] = attempt
        self._groups.append(attempt.group)
        self._empty = False
        event = machine.Started(time(), attempt.replica, attempt.number, attempt.pid, attempt.group.missing)
        self._feed(event)
        self._loop.watch(attempt.reports.pipe, lambda: self._on_reports(attempt, attempt.reports.read()))

    def _listen(self, channel: Channel) -> Callable[[], None]:
        exact = self._plan.log_mode == "exact"
        self._loop.watch(channel.pipe, partial(self._on_output, channel), edge=exact, output=True)
        return partial(self._loop.close, channel.pipe)

    def _clear_away(self, index: int) -> None:
        """End what the replica's last attempt left behind, and let go of it."""
        last_pid = self._state.replicas[index].pid
        for orphan in children(os.getpid()) if last_pid else ():
            # Ours by adoption, so its number cannot have become anybody else's.
            if orphan not in self._running and session_of(orphan) == last_pid:
                kill_descendants(orphan, self._dir)
                kill(orphan, signal.SIGKILL)
        if index in self._open:
            self._close(self._open[index])

    def _terminate(self, index: int) -> None:
        """Ask every process of the replica: its group at once, and those that have left the group."""
        pid = self._state.replicas[index].pid
        if pid not in self._running:
            return
        others = [other for other in descendants(pid, self._dir) if group_of(other) != pid]
        self._groups_asked.add(pid)
        kill_group(pid, signal.SIGTERM)
        kill_group(pid, signal.SIGCONT)  # a stopped process acts on nothing else
        self._ask(others)

    def _ask(self, pids: list[int]) -> None:
        """Send SIGTERM to processes that were not sent one yet."""
        for pid in pids:
            if pid not in self._asked:
                kill(pid, signal.SIGTERM)
                kill(pid, signal.SIGCONT)
        self._asked.update(pids)

    def _kill(self, index: int) -> None:
        pid = self._state.replicas[index].pid
        if pid in self._running:
            kill_descendants(pid, self._dir)
            kill_group(pid, signal.SIGKILL)

    def _start_sweep(self, *, kill: bool) -> None:
        if self._state.phase == machine.ENDED:
            return  # the last process went while the instruction waited
        self._sweep = True
        self._sweep_kill = self._sweep_kill or kill
        if not kill:
            below = descendants(os.getpid(), self._dir)
            self._ask([pid for pid in below if group_of(pid) not in self._groups_asked])
        self._reap()

    # What happens

    def _on_output(self, channel: Channel) -> None:
        if not channel.read():
            self._loop.close(channel.pipe)
            channel.finish_line()
        elif self._plan.log_mode == "exact" and pipe_size(channel.pipe) != EXACT_SIZE:
            # The program has enlarged its pipe: one read per arrival would leave the rest lying there.
            self._loop.watch_level(channel.pipe)

    def _on_reports(self, attempt: Attempt, lines: list[bytes]) -> None:
        for line in lines:
            try:
                report = parse_report(line)
            except BadReport as err:
                text = f"torchx: report ignored: {err}\n".encode()
                attempt.sink.add(timeline.STDERR, text, eol=True)
                continue
            if report["type"] == "result":
                self._feed(machine.Reported(time(), attempt.replica, attempt.number, report["value"]))
                continue
            data = dumps(report) + b"\n"
            offset = self._reports.append(data)
            entry = _entry(timeline.REPORT, offset, len(data), attempt.replica, attempt.number)
            self._relay.mark(entry)

    def _on_signal(self) -> None:
        numbers = self._signals.read(4096) or b""
        if signal.SIGTERM in numbers:
            msg = "its supervisor was asked to end (SIGTERM): the host or its container is shutting down"
            self._stop(machine.FAILED, msg)
        self._signalled = True  # the dead are looked for after this turn has taken all output that it found

    def _on_ctl(self) -> None:
        orders = self._ctl.read(4096) or b""
        if RENEW in orders:
            self._renew()
        if LOOK in orders:
            self._look()
        if STOP in orders:
            self._stop(machine.CANCELLED, "cancelled", ordered_grace_s(orders))

    def _look(self) -> None:
        """See whether somebody wants the app to end."""
        try:
            cancel_request = read_json(os.path.join(self._dir, CANCEL))
        except OSError:  # no descriptor is free just now
            self._timers.set("look", _RETRY_S, self._look)
            return
        if cancel_request:
            grace, msg = cancel_request.get("grace_s"), str(cancel_request.get("msg"))
            self._stop(machine.CANCELLED, msg, float(str(grace)) if is_number(grace) else None)

    def _stop(self, outcome: str, msg: str, grace_s: float | None = None) -> None:
        """Have the app end; one that ends already may be given less time by a user, and by nobody else."""
        if self._state.phase == machine.STOPPING and grace_s is not None:
            self._timers.hasten("grace", grace_s)  # why it ends stays what it was
        if self._state.phase in (machine.STOPPING, machine.ENDED):
            return
        grace_s = self._plan.grace_s if grace_s is None else grace_s
        self._feed(machine.StopAsked(time(), outcome, msg, grace_s))

    def _on_space(self) -> None:
        for file in (self._journal, self._reports, self._line):
            file.retry()
        if self._line.blocked:
            self._timers.set("space", _RETRY_S, self._on_space)

    def _reap(self) -> None:
        """Take leave of every child that has ended."""
        while (pid := self._next_dead()) is not None:
            whose = self._running.get(session_of(pid))
            attempt = self._running.pop(pid, None)
            if attempt and not self._told(attempt):
                # While the zombie is there its number cannot be anybody else's group.
                kill_group(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            if whose:
                self._tally.take(whose.pid, usage)
            if attempt:
                self._exited(attempt, status)
        if not self._sweep:
            return
        if self._empty or has_only_strangers(os.getpid(), self._dir):
            self._sweep = self._sweep_kill = False
            self._timers.drop("sweep")
            self._feed(machine.Swept(time()))
        elif self._sweep_kill:
            kill_descendants(os.getpid(), self._dir)
            self._timers.set("sweep", 0.05, self._reap)  # for those that fork faster than we walk

    def _next_dead(self) -> int | None:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._empty = True
            return None
        self._empty = False
        return dead.si_pid if dead else None

    def _told(self, attempt: Attempt) -> bool:
        """Whether the replica was asked to end, so that what it leaves behind has the grace period too."""
        return self._state.phase == machine.STOPPING or self._state.replicas[attempt.replica].restart

    def _exited(self, attempt: Attempt, status: int) -> None:
        self._take_rest(attempt)
        self._on_reports(attempt, attempt.reports.read_all())
        cpu_s, peak_mb = self._tally.close(attempt.pid, attempt.group.directories)
        event = machine.Exited(
            time(),
            attempt.replica,
            attempt.number,
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None,
            error=attempt.error(),
            max_rss_mb=peak_mb,
            cpu_s=cpu_s,
            msg=attempt.group.why_killed(peak_mb, self._plan.replicas[attempt.replica].mem_mb),
        )
        self._feed(event)
        if self._state.phase == machine.RUNNING:
            self._close(attempt)

    # Letting go

    def _close(self, attempt: Attempt) -> None:
        """Let go of an attempt's pipes and files."""
        if self._open.get(attempt.replica) is not attempt:
            return
        del self._open[attempt.replica]
        self._take_rest(attempt)
        for source in (*(channel.pipe for channel in attempt.channels), attempt.reports.pipe):
            self._loop.close(source)
        self._relay.close(attempt.sink)
        attempt.reports.remove()  # after its last line is written: see unclosed_attempts
        attempt.group.remove()

    def _take_rest(self, attempt: Attempt) -> None:
        """Take what the attempt has printed by now.

        Its two pipes are not read one after the other: only the poller knows the order between them.
        """
        pipes = {channel.pipe for channel in attempt.channels}
        for _ in range(_LAST_ROUNDS):
            if pipes.isdisjoint(self._loop.take_output()):
                break
        for channel in attempt.channels:
            channel.finish_line()

    def _close_all(self) -> None:
        for attempt in list(self._open.values()):
            self._close(attempt)
        for group in self._groups:
            group.remove()
        self._ports.close()

    # Limits of time

    def _mind_the_deadline(self, deadline: float) -> None:
        """Look at the time of day now and then: a timer's clock stands still while the host sleeps."""
        left = deadline - time()
        if left <= 0:
            self._timers.set("deadline", 0.0, lambda: self._stop(machine.CANCELLED, "deadline passed"))
        else:
            look_s = min(left, _LOOK_S)
            self._timers.set("deadline", look_s, lambda: self._mind_the_deadline(deadline))

    def _mind_the_record(self) -> None:
        """End an app that somebody deleted under us: nobody can ask for its end any more."""
        is_there = os.path.exists(os.path.join(self._dir, SPEC)) and self._final.is_at(self._dir)
        if self._journal.deleted and not is_there:  # another app of that id may be there by now
            self._stop(machine.CANCELLED, "its record was deleted")
        else:
            self._timers.set("record", _LOOK_S, self._mind_the_record)

    def _renew(self) -> None:
        lease_s = self._plan.lease_s
        if lease_s is not None:
            msg = f"lease expired: nobody renewed it for {lease_s:g} s"
            self._timers.set("lease", lease_s, lambda: self._stop(machine.CANCELLED, msg))

    def _wait_for_space(self) -> None:
        select.select([], [], [], _RETRY_S)
        self._on_space()


def _failure(start: machine.Start, error: CannotStart) -> machine.StartFailed:
    return machine.StartFailed(time(), start.replica, start.attempt, str(error), error.fatal)


def _entry(kind: int, offset: int = 0, size: int = 0, replica: int = 0, attempt: int = 0) -> timeline.Entry:
    return timeline.Entry(int(time() * 1e6), offset, size, replica, attempt, kind)
