"""Trials of the fake scheduler: one thread, one clock, so that a seed makes the same trial step by step."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from actor import Document, documents, error_document
from fake_app import NotedApp, NotedHost
from judge import Call, Evidence, Promises
from scenarios import Action, Scenario
from truth import Copy

from torchx_core import AppDef, Role, Runner
from torchx_core.errors import AppIdConflictError, AppNotTerminalError
from torchx_core.schedulers import Batch, CancelOutcome
from torchx_core.specs import RetryPolicy, macros
from torchx_core.testing import FakeClock

__all__ = ["FAKE_FAULTS", "FakeTrial", "draw_actions"]

T = TypeVar("T")
_MOST_MOVES = 40
_MOST_IDLE = 200


def draw_actions(fault: str, seed: int) -> list[Action]:
    """Return what is done when, as the seed says."""
    rng = random.Random(f"actions {fault} {seed}")
    kinds = FAKE_FAULTS[fault] or tuple(sorted({kind for some in FAKE_FAULTS.values() for kind in some}))
    actions = [
        [rng.randrange(_MOST_MOVES), rng.choice(kinds), rng.random()] for _ in range(rng.randrange(1, 7))
    ]
    return sorted(actions)


FAKE_FAULTS: dict[str, tuple[str, ...]] = {
    "nothing": ("status",),
    "submit-twice": ("submit",),
    "submit-another": ("another",),
    "status-storm": ("status", "list", "describe", "log", "owner"),
    "delete-and-prune-too-early": ("delete", "prune"),
    "follower-killed": ("unfollow",),
    "cancel": ("cancel",),
    "cancel-again-sooner": ("cancel-slowly", "cancel-at-once"),
    "cancel-by-owner": ("take-over", "cancel-as-owner", "cancel-as-another"),
    "deadline": ("deadline", "clock"),
    "lease": ("lease", "unfollow", "clock"),
    "clock-jumps": ("clock", "cancel"),
    "replica-killed": ("kill",),
    "supervisor-killed": ("lose",),
    "all-together": (),
}
"""The kinds of actions of each fault; none for all."""
HOLDS = {"cancel", "cancel-again-sooner", "cancel-by-owner", "deadline", "lease", "clock-jumps"}
"""Faults whose app runs until it is ended."""


class FakeTrial:
    """One app, one chain of followers, and what is done to them between two looks."""

    def __init__(self, scenario: Scenario, root: Path) -> None:
        """Write the script; nothing is submitted."""
        self.scenario = scenario
        self.rng = random.Random(f"fault {scenario.seed}")
        self.seen = Evidence()
        self.promises = Promises(
            exact=True,
            max_retries={role.name: role.max_retries for role in scenario.roles},
            policies={role.name: role.policy for role in scenario.roles},
        )
        self._truth_dir = root
        (root / "script.json").write_text(json.dumps(scenario.script))
        self._clock = FakeClock(1e9)
        self._host = NotedHost(clock=self._clock)
        self.runner = Runner("oracle", {"fake": self._host.scheduler})
        self.app_id = f"{scenario.fault}-{scenario.seed}"
        self.handle = f"fake://oracle/{self.app_id}"
        self._chain: list[tuple[str, list[Document]]] = []
        self._cfg: dict[str, Any] = dict(scenario.cfg)
        for _, kind, value in scenario.actions:
            if kind == "deadline":
                self._cfg["timeout_s"] = 1 + value
                self._may_end("deadline")
            if kind == "lease":
                self._cfg["lease_s"] = 5 + value
                self._may_end("lease")

    @property
    def app(self) -> NotedApp:
        """The app, which the trial may look into."""
        app = self._host.apps["oracle", self.app_id]
        assert isinstance(app, NotedApp)
        return app

    def truth(self) -> list[Copy]:
        """Return every copy that ran."""
        return self.app.truth

    def run(self) -> list[Copy]:
        """Carry the trial out, and return what ran."""
        self._submit()
        self._follow()
        truth = self.truth()
        self._look_back()
        return truth

    # --- following

    def _follow(self) -> None:
        """Follow to the end; whenever nothing happens the next action comes, or else time passes."""
        actions = list(self.scenario.actions)
        follower = self._follower()
        move, idle = 0, 0
        while True:
            while actions and actions[0][0] <= move:
                follower = self._act(actions.pop(0), follower)
            batch = self._call("follow", partial(next, follower, None))
            if batch is None:
                break
            self._clock.advance(0.001)
            move += 1
            if batch.events:
                idle = 0
                self._chain.append((batch.cursor, documents(batch)))
            elif actions:
                move = max(move, actions[0][0])
            else:
                idle += 1
                if not self._let_time_pass(idle):
                    return
        self.seen.chains["follow"] = [event for _, events in self._chain for event in events]

    def _follower(self) -> Iterator[Batch]:
        cursor = self._chain[-1][0] if self._chain else None
        return self.runner.follow(self.handle, cursor, tick_s=0.0, batch_bytes=self.scenario.batch_bytes)

    def _let_time_pass(self, idle: int) -> bool:
        left = self.app.patience()
        if left is None and self.scenario.holds and idle < _MOST_IDLE // 2:
            self._cancel(reason="the scenario is over")
        self._clock.advance((left or 0.0) + 0.01)
        self.runner.status(self.handle)  # a follower who came first would renew a lease that is over
        if idle > _MOST_IDLE:
            self._note("follow", hung=True, detail=f"of an app that is {self.app.state.phase}")
        return idle <= _MOST_IDLE

    def _look_back(self) -> None:
        """Read the ended app once more, from a cursor in the middle, and delete it."""
        if self._chain:
            place = self.rng.randrange(len(self._chain))
            before = [event for _, events in self._chain[: place + 1] for event in events]
            cursor = self._chain[place][0]
            rest = self._call("again", lambda: list(self.runner.follow(self.handle, cursor, until_now=True)))
            if rest is not None:
                self.seen.chains["again"] = before + [d for batch in rest for d in documents(batch)]
        status = self._call("status", lambda: self.runner.status(self.handle))
        if status is not None:
            self.seen.statuses["status"] = status.to_json()
        self._call("delete", lambda: self.runner.delete(self.handle))
        if self._call("status", lambda: self.runner.status(self.handle)) is not None:
            self.seen.left.append("the status")

    # --- acting

    def _act(self, action: Action, follower: Iterator[Batch]) -> Iterator[Batch]:
        """Carry an action out; returns who follows from now on."""
        _, kind, value = action
        scheduler, handle = "fake", self.handle
        acts: dict[str, Callable[[], object]] = {
            "submit": self._submit,
            "another": self._submit_another,
            "status": lambda: self.runner.status(handle),
            "list": lambda: self.runner.list(scheduler),
            "describe": lambda: self.runner.describe(handle),
            "log": lambda: list(self.runner.log_lines(handle, self.scenario.roles[0].name)),
            "owner": lambda: self.runner.owner(handle),
            "delete": self._delete_too_early,
            "prune": self._prune_too_early,
            "cancel": lambda: self._cancel(reason="because of the oracle"),
            "cancel-slowly": lambda: self._cancel(reason="slowly", grace_s=1000.0),
            "cancel-at-once": lambda: self._cancel(reason="at once", grace_s=0.2),
            "take-over": lambda: self.runner.take_over(handle, "me"),
            "cancel-as-owner": lambda: self._cancel(reason="by its owner", if_owner="me"),
            "cancel-as-another": self._cancel_as_another,
            "clock": lambda: self._clock.advance(10 * value),
            "kill": lambda: self._kill(value),
            "lose": self._lose,
            **dict.fromkeys(("deadline", "lease", "unfollow"), lambda: None),
        }
        self._call(kind, acts[kind])
        if kind == "clock":  # a lease may have ended meanwhile, and nobody has looked
            self._call("status", lambda: self.runner.status(handle))
        return self._follower() if kind == "unfollow" else follower

    def _may_end(self, word: str) -> None:
        self.promises.may_end |= {"CANCELLED"}
        self.promises.words += (word,)

    def _submit(self) -> None:
        handle = self._call("submit", lambda: self._run("oracle"))
        if handle != self.handle:
            self._note("submit", detail=f"returned {handle}")

    def _submit_another(self) -> None:
        try:
            self._run("another")
        except AppIdConflictError:
            return
        self._note("submit", detail="took another app for the same")

    def _run(self, name: str) -> str:
        return self.runner.run(self._app(name), "fake", self._cfg, app_id=self.app_id)

    def _cancel(self, **arguments: Any) -> None:
        ended = self.app.ended
        outcome = self.runner.cancel(self.handle, **arguments)
        if outcome is CancelOutcome.REQUESTED:
            self._may_end(arguments["reason"])
        if ended != (outcome is CancelOutcome.ALREADY_TERMINAL) and outcome is not CancelOutcome.NOT_OWNER:
            self._note("cancel", detail=f"{outcome} of an app that is {self.app.state.phase}")

    def _cancel_as_another(self) -> None:
        outcome = self.runner.cancel(self.handle, if_owner="somebody else", reason="not mine")
        if outcome is not CancelOutcome.NOT_OWNER:
            self._note("cancel if_owner", detail=outcome.name)

    def _delete_too_early(self) -> None:
        if self.app.ended:
            return
        try:
            self.runner.delete(self.handle)
        except AppNotTerminalError:
            return
        self._note("delete", detail="deleted an app that runs")

    def _prune_too_early(self) -> None:
        if not self.app.ended and self.runner.prune("fake", max_count=0):
            self._note("prune", detail="deleted an app that runs")

    def _kill(self, value: float) -> None:
        names = ("SIGKILL", "SIGSEGV", "SIGUSR2")
        name = names[int(value * len(names))]
        self.promises.outside |= {name}
        self.app.kill(name, int(value * 100))

    def _lose(self) -> None:
        self.promises.may_lose = True
        self.promises.may_end |= {"FAILED"}
        self.promises.words += ("supervisor",)
        self.app.lose()

    # --- small things

    def _call(self, name: str, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except Exception as err:  # noqa: BLE001  # the judge decides
            self._note(name, detail=str(error_document(err)))
            return None

    def _note(self, name: str, *, hung: bool = False, detail: str) -> None:
        self.seen.calls.append(Call(name, "wrong", ours=hung, hung=hung, detail=detail))

    def _app(self, name: str) -> AppDef:
        words: Sequence[str] = ["-S", "-E", "witness.py", str(self._truth_dir)]
        return AppDef(
            name,
            [
                Role(
                    role.name,
                    image="",
                    entrypoint="python3",
                    args=[*words, role.name, macros.replica_id],
                    num_replicas=len(role.scripts),
                    max_retries=role.max_retries,
                    retry_policy=RetryPolicy[role.policy],
                )
                for role in self.scenario.roles
            ],
        )
