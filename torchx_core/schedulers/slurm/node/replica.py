"""One replica: how the app stands that it is a part of, as the shared directory has it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Mapping, cast  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.attempts import Attempts
from torchx_core.schedulers.slurm.node.files import (
    done_name,
    number_in,
    read_json,
    refresh,
    this_run,
    write_once,
)
from torchx_core.schedulers.slurm.node.orders import Orders
from torchx_core.supervisor.reading import DamagedFile, read_bytes

if TYPE_CHECKING:
    from torchx_core.schedulers.slurm.node.plan import Plan, PlannedReplica

ALONE_S = 10.0
"""How long after one replica Slurm's signal may reach the others."""


class Superseded(Exception):
    """A later run of the job has begun, or the app is over: this task must not touch anything any more."""


class Replica:
    """One task: the replica that it runs, and how the app stands."""

    def __init__(self, directory: str, plan: Plan) -> None:
        """Find out which replica this is: Slurm counts tasks over all components of the job."""
        self.directory: str = directory
        self.plan: Plan = plan
        self.index: int = int(os.environ["SLURM_PROCID"])
        self.mine: PlannedReplica = plan["replicas"][self.index]
        self.run: int = this_run()
        self.attempts: Attempts = Attempts(self.mine["log_dir"])
        self._orders: Orders = Orders(directory, self.index, self.run)
        self.lease_seen: tuple[bytes, float] = (self._lease(), time.monotonic())
        self._superseding: list[str] = [self.path(f"run.{self.run + 1}.json"), self.path("final.json")]
        self._began: float = time.monotonic() - self._ran_before()
        self._signalled: bool = False
        self._alone_since: float | None = None
        self._unwritten: Mapping[str, object] | None = None

    def path(self, name: str) -> str:
        """Return the path of one of the app's files."""
        return os.path.join(self.directory, name)

    def begin(self) -> int:
        """Begin another attempt; return its number.

        Raises:
            Superseded: A later run has begun, as while this node was frozen: no program may start here.
        """
        host = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        start = {"time": time.time(), "host": host, "run": self.run, "orders": self._orders.read}
        number = self.attempts.claim(start)
        self.stop()
        return number

    def stop(self) -> Mapping[str, object] | None:
        """Return why the app ends, or None; see to it that deadline, lease and gang are kept."""
        refresh(self.directory)
        if any(map(os.path.exists, self._superseding)):
            raise Superseded
        stop: Mapping[str, object] | None = read_json(self.path("stop.json"))
        why = self._overdue() or self._left_alone() if stop is None else ""
        if why:
            stop = self.end_app("CANCELLED", why, -1)
        return stop

    def ends_at(self) -> float | None:
        """Return when the app is ended for its time being over, by this node's clock; None for never."""
        late = [] if self.plan["deadline"] is None else [self.plan["deadline"]]
        if self.plan["timeout_s"] is not None:
            late.append(time.time() + self._began + self.plan["timeout_s"] - time.monotonic())
        return min(late) if late else None

    def note_signal(self) -> None:
        """Say that Slurm has told this replica to end: by a requeue, by a limit, or because a user did."""
        self._signalled = True
        with suppress(OSError):
            write_once(self.path(f"told.{self.run}.json"), {"index": self.index}, patient=False)

    def end_app(self, outcome: str, msg: str, index: int) -> Mapping[str, object]:
        """Write down why the app ends, and return that; the first reason counts.

        A program that may run no longer is ended also while the disk is full, whose room nobody may make:
        each replica finds out by itself then, and writes that down before it leaves.
        """
        stop = {"outcome": outcome, "msg": msg, "grace_s": None, "time": time.time(), "index": index}
        try:
            write_once(self.path("stop.json"), stop, patient=False)
        except OSError:
            self._unwritten = stop
        return read_json(self.path("stop.json")) or stop

    def note_death(self, code: int) -> None:
        """Write down that the process that ran this replica has died, and its program with it."""
        told = self.stop() is not None
        attempt = self.attempts.latest(self.run)
        if attempt is not None:
            end = {"code": code, "told": told, "time": time.time()}
            self.attempts.close(attempt.number, end, patient=False)
        why = "what ran it on the node died; see {}".format(self.path("slurm.log"))
        self.end_app("FAILED", why, self.index)
        self.leave()

    def restarted(self) -> bool:
        """Return whether this replica is to start again, together with others."""
        return self._orders.obey()

    def peers_are_down(self) -> bool:
        """Return whether all that start again with this replica have ended, or have begun again already."""
        peers = [peer for i, peer in enumerate(self.plan["replicas"]) if i in self._orders.together]
        latest = [Attempts(peer["log_dir"]).latest(self.run) for peer in peers]
        return all(
            attempt is None
            or attempt.end is not None
            or int(number_in(attempt.start, "orders") or 0) >= self._orders.read
            for attempt in latest
        )

    def may_restart(self) -> bool:
        """Return whether a failure of this replica still starts something again, having ordered it."""
        if sum(attempt.failed for attempt in self.attempts.begun()) > self.mine["max_retries"]:
            return False
        if self.mine["policy"] != "REPLICA":
            indices = [
                i
                for i, replica in enumerate(self.plan["replicas"])
                if self.mine["policy"] == "APPLICATION" or replica["role"] == self.mine["role"]
            ]
            self._orders.give(indices)
        return True

    def all_succeeded(self) -> bool:
        """Return whether every replica has, as far as one can see; written down for those who wait."""
        done = self.path(done_name(self.run))
        if not os.path.exists(done):
            if not all(map(self._succeeded, range(len(self.plan["replicas"])))):
                return False
            write_once(done, {"time": time.time()})
        return True

    def leave(self) -> None:
        """Say that nothing more comes from this task."""
        if self._unwritten is not None:
            write_once(self.path("stop.json"), self._unwritten)
        os.makedirs(self.path("left"), exist_ok=True)
        write_once(self.path(f"left/{self.run}.{self.index}"), {"time": time.time()}, sync=False)

    def waits_for_others(self) -> bool:
        """Return whether somebody's failure could start this replica again."""
        return any(r["max_retries"] and r["policy"] != "REPLICA" for r in self.plan["replicas"])

    def _succeeded(self, index: int) -> bool:
        """Return whether a replica has in this run of the job, and is not to start again."""
        attempt = Attempts(self.plan["replicas"][index]["log_dir"]).latest(self.run)
        return (
            attempt is not None
            and attempt.succeeded
            and not self._orders.name(index, int(number_in(attempt.start, "orders") or 0))
        )

    def _overdue(self) -> str:
        plan = self.plan
        if plan["deadline"] is not None and time.time() >= plan["deadline"]:
            return "deadline passed"
        if plan["timeout_s"] is not None and time.monotonic() >= self._began + plan["timeout_s"]:
            return "deadline passed: it ran for {:g} s".format(plan["timeout_s"])
        if plan["lease_s"] is not None:
            lease = self._lease()
            if lease != self.lease_seen[0]:
                self.lease_seen = (lease, time.monotonic())
            elif time.monotonic() - self.lease_seen[1] >= plan["lease_s"]:
                return "lease expired: nobody renewed it for {:g} s".format(plan["lease_s"])
        return ""

    def _left_alone(self) -> str:
        """Return which replica Slurm has ended, if it spared this one: a part of the job was cancelled."""
        told = None if self._signalled else read_json(self.path(f"told.{self.run}.json"), index=int)
        index = -1 if told is None else cast("int", told["index"])
        if not 0 <= index < len(self.plan["replicas"]):
            return ""
        if self._alone_since is None:
            self._alone_since = time.monotonic()
        if time.monotonic() - self._alone_since < ALONE_S:
            return ""
        other = self.plan["replicas"][index]
        return "Slurm ended {role}/{replica}, and not the others".format(**other)

    def _ran_before(self) -> float:
        """Return how long before this run the app began to run, by the clocks of those who began the runs.

        This node's own clock may be ahead of theirs: it would end the app at once.
        """
        first, latest = (read_json(self.path(f"run.{n}.json"), time=float) for n in (0, self.run))
        return cast("float", latest["time"]) - cast("float", first["time"]) if first and latest else 0.0

    def _lease(self) -> bytes:
        try:
            return read_bytes(self.path("lease"))
        except (OSError, DamagedFile):
            return b""
