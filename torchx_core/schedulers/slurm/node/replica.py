"""One replica: how the app stands that it is a part of, as the shared directory has it."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import read_json, this_run, write_once


class Superseded(Exception):
    """A later run of the job has begun: this task must not touch anything any more."""


class Replica:
    """One task: the replica that it runs, and how the app stands."""

    def __init__(self, directory: str, plan: dict[str, Any]) -> None:
        """Find out which replica this is: Slurm counts tasks over all components of the job."""
        self.directory: str = directory
        self.plan: dict[str, Any] = plan
        self.index: int = int(os.environ["SLURM_PROCID"])
        self.mine: dict[str, Any] = plan["replicas"][self.index]
        self.run: int = this_run()
        self.restarts: int = self._earlier_restarts()
        self.lease_seen: tuple[bytes, float] = (self._lease(), time.monotonic())

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
