"""One trial in Prefect: a flow run with one or more apps is begun, disturbed, and looked at at its end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from backends import LocalBackend
from daemons import ends
from engines import Judged
from judge import Promises, Violation
from prefect_api import PrefectApi
from prefect_judge import AppSeen, CallSeen, app_of, judge_call, source_of
from prefect_proxy import ApiProxy
from prefect_runner import KILL_AFTER_S, Channel
from scenarios import Bounds, Scenario, draw
from truth import living, read_truth

from torchx_core import AppDef, Role, Runner, get_runner
from torchx_core.specs import RetryPolicy, is_terminal, macros
from torchx_core.testing import wait_until

__all__ = ["FORMS", "Begin", "Fault", "PrefectTrial"]

HERE = Path(__file__).parent
FORMS: dict[str, tuple[int, ...]] = {
    "direct": (1, 1, 2),
    "submitted": (1, 2, 3),
    "mapped": (2, 3),
    "awaited": (1, 2),
    "pooled": (1, 2),
    "worker": (1, 2),
}
"""The flows of the program, and ``direct`` on a worker; how many apps each may have."""
SESSION = "oracle"
Begin = Callable[[Sequence[str], Mapping[str, str], Path], int]
"""Starts a module with words, variables and a file for its output; returns its process id."""
START = (
    'mkdir -p "$$1"; ln -s "$$0/script.json" "$$1/" 2> /dev/null; '
    'exec python3 -S -E "$$0/witness.py" "$$1" "$$2" "$$3"'
)
"""A program that gives each app a folder of its own for its notes, and becomes the witness."""
CANCELLED = "cancelled because the Prefect flow run was cancelled"
LEFT_OVER = "cancelled because its Prefect flow run is Cancelling"
"""An app of an earlier start of the flow run, to which the one that is cancelled has not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of disturbance."""

    act: Callable[[Any], None]
    """Disturbs a `PrefectTrial`, or one that is derived from it."""
    holds: bool = False
    """The apps run until the disturbance ends them."""
    stretches: bool = True
    """The apps take some seconds."""
    supervised: bool = True
    """Somebody started the flow's process, and tells it when it is to end."""
    leaves: bool = False
    """Nobody comes back for the apps."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `run_app`."""


class PrefectTrial:
    """What a fault may use, and the evidence that is gathered."""

    limit_s: ClassVar[float] = 240.0
    """After how long something that must come counts as hung, on a busy host."""

    def __init__(
        self,
        form: str,
        name: str,
        fault: Fault,
        seed: int,
        root: Path,
        server: str,
        begin: Begin,
    ) -> None:
        """Write down what the flow is to run; nothing is begun."""
        self.form, self.fault, self.root = form, fault, root
        self.rng = random.Random(f"prefect {form} {name} {seed}")
        self.api = PrefectApi(server)
        self.proxy = ApiProxy(server)
        self._begin = begin
        self.pids: list[int] = []
        """The flow run's processes, in the order of their starts."""
        self._channel: Channel | None = None
        self.violations: list[Violation] = []
        self.has_rest = not self.fault.leaves
        """Somebody is there to show the log to its end."""
        self.ends_as: set[str] = set()
        """States of the flow run that the fault brings about; none for what its apps say."""
        self.promises = Promises(exact=True, reports=False)
        column = f"prefect:{form}"
        count = self.rng.choice(FORMS[form])
        bounds = Bounds(
            policies=LocalBackend.policies,
            retries=(0, 0, 1, 2),
            replicas=(1, 1, 2),
            holds=self.fault.holds,
        )
        self.scenarios = [draw(column, name, seed * 10 + call, bounds) for call in range(count)]

    # --- what a fault uses

    def starts(self, number: int = 1) -> None:
        """Wait until the flow has begun so many times, or is over."""
        self.eventually(lambda: len(self._notes("starts")) >= number or self.is_over(), "start")

    def runs(self) -> bool:
        """Wait for the first witness, or the end of the flow; return whether there is a witness."""
        self.eventually(lambda: self._witnesses() or self.is_over(), "app")
        return bool(self._witnesses())

    def begin(self) -> None:
        """Start a process of the flow run."""
        environment = {
            "PREFECT_API_URL": self.proxy.url,
            "PREFECT__FLOW_RUN_ID": self.api.run,
            "PREFECT__FLOW_ENTRYPOINT": f"prefect_program.{self.form}",
            "PREFECT__ENABLE_CANCELLATION_AND_CRASHED_HOOKS": "false",
            "TORCHX_STATE_DIR": str(self.root / "state"),
        }
        if self.fault.supervised:
            self._hang_up()
            self._channel = Channel()
            environment |= self._channel.environment
        self.pids.append(self._begin(["prefect.engine"], environment, self.root / "flow.log"))

    def begin_again(self) -> None:
        """Have the flow run once more, whatever Prefect thinks of it."""
        self.api.set_state("SCHEDULED")
        self.begin()

    def signal(self, number: int) -> None:
        """Send the flow's process a signal, should there be one."""
        with suppress(ProcessLookupError):
            os.kill(self.pids[-1], number)

    def cancel(self, send: Callable[[int, int], None] = os.kill) -> None:
        """Cancel the flow run by the API, and end its process as Prefect's runner does.

        Args:
            send: How the process gets its signal.
        """
        self.api.set_state("CANCELLING")
        self.cancelled()
        self.pause(0.5)
        if self._channel is not None:
            self._channel.cancel()
        with suppress(ProcessLookupError):
            send(self.pids[-1], signal.SIGTERM)
        if not ends(self.pids[-1], KILL_AFTER_S):
            self.has_rest = False
            self.signal(signal.SIGKILL)
            self.wait_for_end()
        self.api.set_state("CANCELLED", force=False)

    def is_over(self) -> bool:
        """Return whether the flow's process has ended."""
        return ends(self.pids[-1], 0)

    def wait_for_end(self) -> None:
        """Wait for the end of the flow's process."""
        if not ends(self.pids[-1], self.limit_s):
            self.broken("hang", "the flow's process does not end")

    def pause(self, most_s: float) -> None:
        """Let a random time pass."""
        with suppress(AssertionError):
            wait_until(lambda: False, self.rng.uniform(0, most_s))

    def eventually(self, condition: Callable[[], object], what: str) -> bool:
        """Wait for something that must come; not coming is a hang."""
        try:
            wait_until(condition, self.limit_s)
        except AssertionError:
            self.broken("hang", f"{what} never came")
            return False
        return True

    def cancelled(self) -> None:
        """Learn that somebody has cancelled the flow run."""
        self.excuse(CANCELLED, LEFT_OVER)
        self.ends_as = {"CANCELLED"}

    def excuse(self, *words: str) -> None:
        """Let the apps be cancelled, with one of the words in their message."""
        self.promises.may_end |= {"CANCELLED"}
        self.promises.words += words

    def broken(self, name: str, detail: str) -> None:
        """Note a broken promise."""
        self.violations.append(Violation(name, detail))

    # --- the run

    def run(self) -> Judged:
        """Carry the trial out and judge it."""
        try:
            self._prepare()
            self._create()
            self.begin()
            self.fault.act(self)
            if not self.fault.leaves:
                self.wait_for_end()
            report = self._judge()
            return Judged(self.violations, report)
        finally:
            self._clean()

    def _create(self) -> None:
        self.api.create(self.form, self.root, supervised=self.fault.supervised)

    def _prepare(self) -> None:
        requests = []
        for call, scenario in enumerate(self.scenarios):
            folder = self.root / "truth" / str(call)
            folder.mkdir(parents=True)
            shutil.copy(HERE / "witness.py", folder)
            script = {
                f"{_role(role.name, call)}/{k}": [self._stretched(attempt) for attempt in each]
                for role in scenario.roles
                for k, each in enumerate(role.scripts)
            }
            (folder / "script.json").write_text(json.dumps(script))
            options = {
                "session": SESSION,
                "scheduler": "local_cwd",
                "cfg": scenario.cfg,
                **self.fault.options,
            }
            requests.append({"app": _app(scenario, call, folder).to_dict(), "options": options})
            for role in scenario.roles:
                self.promises.max_retries[_role(role.name, call)] = role.max_retries
                self.promises.policies[_role(role.name, call)] = role.policy
        (self.root / "requests.json").write_text(json.dumps(requests))

    def _stretched(self, steps: list[list[Any]]) -> list[list[Any]]:
        """Let an attempt take some seconds, where the fault takes some."""
        if not self.fault.stretches:
            return steps
        pauses = [["pause", round(self.rng.uniform(0, 2), 3)] for _ in steps]
        return [each for pair in zip(pauses, steps, strict=True) for each in pair]

    def _judge(self) -> dict[str, object]:
        state = self.api.wait_for(*self._expected_states(), limit_s=60.0)
        self._wait_for_apps()
        records = self.api.records()
        # A task run whose flow is killed at once may keep the name that Prefect gives it first.
        names = {each["id"]: each["name"] for each in self.api.task_runs() if "call-" in each["name"]}
        calls = [self._call(call, records, names) for call in range(len(self.scenarios))]
        starts = len(self._notes("starts"))
        for call in calls:
            self.violations += judge_call(
                call,
                self.promises,
                starts=starts,
                has_rest=self.has_rest,
            )
        self._judge_records(records, names)
        self._judge_state(state, calls)
        return {"scenarios": self.scenarios, "state": state, "records": records, "calls": calls}

    def _expected_states(self) -> set[str]:
        return self.ends_as or {"COMPLETED", "FAILED"}

    def _wait_for_apps(self) -> None:
        """Wait for what a fault lets end after its flow."""
        if self.fault.leaves:
            self.eventually(self._are_over, "end of what nobody follows")

    def _are_over(self) -> bool:
        with self._runner() as runner:
            states = [each.state for each in runner.list("local_cwd")]
        return all(map(is_terminal, states)) and not any(living(path) for path in self._apps())

    def _runner(self) -> Runner:
        return get_runner(SESSION, state_dir=str(self.root / "state"))

    def _call(self, call: int, records: list[dict[str, Any]], names: dict[str, str]) -> CallSeen:
        folders = [path for path in self._apps() if path.parent.name == str(call)]
        # Of a flow that is killed at once Prefect may have a task run's records, and not the task run.
        runs = ((each["task_run_id"], app_of(each)) for each in records)
        of_task = {run: app for run, app in runs if run and app} | names
        own_names = {f"call-{call}", *(path.name for path in folders)}
        own = [each for each in records if of_task.get(each["task_run_id"]) in own_names]
        with self._runner() as runner:
            times = {each.app_id: each.submitted_at or 0.0 for each in runner.list("local_cwd")}
            apps = [
                AppSeen(
                    app_id=path.name,
                    copies=read_truth(path),
                    status=status.to_json() if (status := runner.status(_handle(path.name))) else None,
                    alive=living(path),
                    submitted_at=times.get(path.name, 0.0),
                )
                for path in folders
            ]
        outcomes = [each for each in self._notes("outcomes") if each["call"] == call]
        apps.sort(key=lambda app: app.submitted_at)
        return CallSeen(number=call, apps=apps, records=own, outcomes=outcomes)

    def _judge_records(self, records: list[dict[str, Any]], names: dict[str, str]) -> None:
        """Judge that a task run shows its own app's lines; what nobody followed, the flow run shows."""
        for record in records:
            role = source_of(record).rpartition(".")[0]
            task = names.get(record["task_run_id"], "")
            if role and task and role.removeprefix("head").removeprefix("work") != task.removeprefix("call-"):
                self.broken("wrong-task", f"{task} shows a line of {role}")
                return

    def _judge_state(self, state: dict[str, Any], calls: list[CallSeen]) -> None:
        """Judge how the flow run ended, by how its apps did."""
        if self.ends_as:
            if state["type"] not in self.ends_as:
                self.broken("wrong-run-state", f"{state['type']} {state['message']!r}, not {self.ends_as}")
            return
        ended = [call.apps[-1].status for call in calls if call.apps]
        good = len(ended) == len(calls) and all(each and each["state"] == "SUCCEEDED" for each in ended)
        if state["type"] != ("COMPLETED" if good else "FAILED"):
            log = (self.root / "flow.log").read_text()[-800:] if (self.root / "flow.log").exists() else ""
            self.broken("wrong-run-state", f"{state['type']} {state['message']!r}; {log}")
        elif not good and not any(each["text"].splitlines()[0] in str(state["message"]) for call in calls
                                  for each in call.outcomes[-1:] if each.get("text")):  # fmt: skip
            self.broken("wrong-run-message", f"{state['message']!r}")

    def _clean(self) -> None:
        for pid in self.pids:
            for number in (signal.SIGKILL, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    os.killpg(pid, number)
        for path in self._apps():
            LocalBackend().clean(self.root, path.name, ())
        LocalBackend().clean(self.root, "", ())
        self._hang_up()
        self.proxy.close()
        self.api.close()

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()

    # --- small things

    def _apps(self) -> list[Path]:
        """Return the notes' folders of all apps that ever ran."""
        return [path for path in (self.root / "truth").glob("*/*") if path.is_dir()]

    def _witnesses(self) -> bool:
        return any(True for path in self._apps() for _ in path.glob("*.notes"))

    def _notes(self, name: str) -> list[dict[str, Any]]:
        path = self.root / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _role(name: str, call: int) -> str:
    return f"{name}{call}"


def _handle(app_id: str) -> str:
    return f"local_cwd://{SESSION}/{app_id}"


def _app(scenario: Scenario, call: int, folder: Path) -> AppDef:
    return AppDef(
        "oracle",
        [
            Role(
                _role(role.name, call),
                image="",
                entrypoint="sh",
                args=[
                    "-c",
                    START,
                    str(folder),
                    f"{folder}/{macros.app_id}",
                    _role(role.name, call),
                    macros.replica_id,
                ],
                num_replicas=len(role.scripts),
                max_retries=role.max_retries,
                retry_policy=RetryPolicy[role.policy],
            )
            for role in scenario.roles
        ],
    )
