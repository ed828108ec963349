"""One app of the fake scheduler: the local scheduler's state machine, driven by scripts, not processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from torchx_core.schedulers import AppEvent, LogLines, Metric, Progress, StateChanged, UsageSample
from torchx_core.schedulers.events import StreamName
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.view import app_state, changes, status
from torchx_core.specs import Usage
from torchx_core.supervisor import machine
from torchx_core.supervisor.loop import Timers
from torchx_core.supervisor.plan import fresh_state
from torchx_core.testing.steps import (
    Exit,
    FailUntil,
    Hold,
    Print,
    PrintAttempt,
    PrintMany,
    Raise,
    ReportMetric,
    ReportProgress,
    ReportResult,
    Step,
    Use,
)

__all__ = ["FakeApp"]


class FakeApp:
    """Moves on when it is looked at, one step per replica and look; the caller holds the host's lock."""

    def __init__(
        self, record: AppRecord, scripts: Sequence[Sequence[Step]], clock: Callable[[], float]
    ) -> None:
        """Start nothing yet; `scripts` has one script per replica of the record's plan."""
        self.record = record
        self.stream: list[AppEvent] = []
        self.owner: str | None = None
        self.state: machine.State = fresh_state(record.plan)
        self._scripts = scripts
        self._clock = clock
        self._left: dict[int, deque[Step]] = {}  # what each running replica has still to do
        self._used: dict[int, Use] = {}  # what each running replica has used, if it uses anything
        self._todo: deque[machine.Instruction] = deque()
        self._timers = Timers(clock)
        self._arm_limits()

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more."""
        return self.state.phase == machine.ENDED

    def turn(self) -> bool:
        """Let happen what can happen now; return whether anything did."""
        before = self.state, len(self.stream), dict(self._used)
        for due in self._timers.due():
            due()
        if self.state.phase == machine.SUBMITTED:
            self._feed(machine.Began(self._clock(), 0))
        else:
            for replica in list(self._left):
                if replica in self._left:  # not ended by what happened to one before it
                    self._take_step(replica, self._left[replica])
        return before != (self.state, len(self.stream), self._used)

    def patience(self) -> float | None:
        """Return how many seconds nothing will happen by itself, or None for ever."""
        left = self._timers.left()
        return None if left == inf else left

    def stop(self, outcome: str, msg: str, grace_s: float | None = None) -> None:
        """Ask it to end."""
        grace_s = self.record.plan.grace_s if grace_s is None else grace_s
        if self.state.phase == machine.STOPPING:
            self._timers.hasten("grace", grace_s)
        elif self.state.phase != machine.ENDED:
            self._feed(machine.StopAsked(self._clock(), outcome, msg, grace_s))

    def renew(self) -> None:
        """Start the lease anew, where there is one."""
        lease_s = self.record.plan.lease_s
        if lease_s is not None:
            self._limit("lease", lease_s, f"lease expired: nobody renewed it for {lease_s:g} s")

    def samples(self) -> list[UsageSample]:
        """Return what the running replicas use that use anything."""
        return [
            UsageSample(
                role=self.state.replicas[index].role,
                replica=self.state.replicas[index].replica_id,
                attempt=self.state.replicas[index].attempt,
                usage=Usage(cpu_s=used.cpu_s, memory_bytes=used.memory_mb << 20, processes=1),
                time=self._clock(),
            )
            for index, used in self._used.items()
        ]

    def _arm_limits(self) -> None:
        plan = self.record.plan
        if plan.timeout_s is not None:
            self._limit("timeout", plan.timeout_s, f"deadline passed: it ran for {plan.timeout_s:g} s")
        if plan.deadline is not None:
            self._limit("deadline", max(0.0, plan.deadline - self._clock()), "deadline passed")
        self.renew()

    def _limit(self, name: str, after_s: float, msg: str) -> None:
        self._timers.set(name, after_s, lambda: self.stop(machine.CANCELLED, msg))

    # The machine

    def _feed(self, event: machine.Event) -> None:
        before = self.state
        self.state, instructions = machine.step(before, event, self.record.plan.grace_s)
        self.stream.extend(changes(event, before, self.state))
        idle = not self._todo
        self._todo.extend(instructions)
        if self.state.phase not in (machine.RESTARTING, machine.STOPPING):
            self._timers.drop("grace")
        while idle and self._todo:  # what is fed by an instruction is carried out by the one loop
            self._carry_out(self._todo[0])
            self._todo.popleft()

    def _carry_out(self, instruction: machine.Instruction) -> None:
        match instruction:
            case machine.Start(replica, attempt):
                if machine.is_due(self.state, instruction):
                    self._start(replica, attempt)
            case machine.Terminate(replica):
                if not any(isinstance(s, Hold) and s.ignore_term for s in self._scripts[replica]):
                    self._exit(replica, None, "SIGTERM")
            case machine.Kill(replica):
                self._exit(replica, None, "SIGKILL")
            case machine.Alarm(after_s):
                self._timers.set("grace", after_s, lambda: self._feed(machine.GraceOver(self._clock())))
            case machine.Sweep(kill):
                self._sweep(kill=kill)
            case machine.Finish():
                self._finish()

    def _start(self, replica: int, attempt: int) -> None:
        self._left[replica] = deque(self._scripts[replica])
        self._feed(machine.Started(self._clock(), replica, attempt, 0))

    def _exit(self, replica: int, code: int | None, signal: str | None = None) -> None:
        if self._left.pop(replica, None) is not None:
            attempt, used = self.state.replicas[replica].attempt, self._used.pop(replica, Use(0.0))
            exited = machine.Exited(self._clock(), replica, attempt, code, signal)
            self._feed(exited._replace(max_rss_mb=used.memory_mb, cpu_s=used.cpu_s))

    def _sweep(self, *, kill: bool) -> None:
        for replica in list(self._left) if kill else ():
            self._exit(replica, None, "SIGKILL")
        if not self.ended:
            self._feed(machine.Swept(self._clock()))

    def _finish(self) -> None:
        end = status(self.record, self.state)
        self.stream.append(
            StateChanged(state=app_state(self.state), time=self._clock(), msg=self.state.msg, status=end)
        )

    # The scripts

    def _take_step(self, replica: int, left: deque[Step]) -> None:
        step = left[0] if left else Exit(0)
        attempt = self.state.replicas[replica].attempt
        match step:
            case Hold():
                pass
            case Exit(code):
                self._exit(replica, code)
            case Raise(signal):
                self._exit(replica, None, signal)
            case FailUntil(first, code) if attempt < first:
                self._exit(replica, code)
            case Use(cpu_s, memory_mb):
                left.popleft()
                before = self._used.get(replica, Use(0.0))
                self._used[replica] = Use(before.cpu_s + cpu_s, before.memory_mb + memory_mb)
            case ReportResult(value):
                left.popleft()
                self._feed(machine.Reported(self._clock(), replica, attempt, value))
            case _:
                left.popleft()
                self.stream.extend(self._said(replica, attempt, step))

    def _said(self, replica: int, attempt: int, step: Step) -> list[AppEvent]:
        role, index = self.state.replicas[replica].role, self.state.replicas[replica].replica_id
        now = self._clock()

        def lines(stream: StreamName, *texts: str, eol: bool = True) -> list[AppEvent]:
            return [LogLines(role, index, attempt, stream, texts, now, eol)]

        match step:
            case Print(text, stream, eol):
                return lines(stream, *text.split("\n"), eol=eol)
            case PrintMany(count, stream):
                return lines(stream, *map(str, range(count)))
            case PrintAttempt(_, _, stream):
                return lines(stream, *step.lines(attempt))
            case ReportProgress(done, msg):
                return [
                    Progress(role=role, replica=index, attempt=attempt, fraction=done, message=msg, time=now)
                ]
            case ReportMetric(name, value, at):
                return [
                    Metric(
                        role=role, replica=index, attempt=attempt, name=name, value=value, step=at, time=now
                    )
                ]
            case _:
                return []
