"""One trial of the Airflow driver: a task runs the witness, is disturbed, and is judged when it has ended."""

from __future__ import annotations

import fcntl
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from airflow_server import AirflowServer
from backends import LocalBackend
from judge import Evidence, Promises, Violation, judge
from scenarios import Attempt, Bounds, draw
from task_log import judge_task_log
from truth import Copy, living, read_truth

from torchx_core import AppDef, Role, get_runner
from torchx_core.specs import AppStatus, RetryPolicy, is_terminal, macros
from torchx_core.testing import wait_until

__all__ = ["RETRIES", "SharedAirflow", "TaskTrial"]

HERE = Path(__file__).parent
RETRIES = 2
"""Of Airflow's, for each task."""
LIMIT_S = 600.0
"""After how long what must come is called hung."""
SETTLE_S = 30.0

ENDED = {"success", "failed", "skipped", "upstream_failed"}


class SharedAirflow(AirflowServer):
    """An Airflow that several processes use: which process a component is stands in a file."""

    def start(self, dags: str) -> None:
        """Start all components."""
        super().start(dags)
        self._write()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else touch components meanwhile."""
        with (self.home / "pids").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._pids = json.loads(file.read())
            yield
            self._write()

    def stop(self) -> None:
        """End what the file names."""
        with suppress(OSError):
            self._pids = json.loads((self.home / "pids").read_text())
        super().stop()

    def _write(self) -> None:
        (self.home / "pids").write_text(json.dumps(self._pids))

    def state(self, path: str) -> tuple[str, int]:
        """Return the state of a task instance, and its try."""
        found = self._ask("GET", path)
        return str(found["state"]), int(found["try_number"])


class TaskTrial:
    """One run of a DAG, and what its fault may use."""

    def __init__(self, airflow: SharedAirflow, form: str, fault: str, seed: int, root: Path) -> None:
        """Draw the scenario and write it down; nothing runs."""
        self.airflow = airflow
        self.form = form
        self.root = root
        self.rng = random.Random(f"airflow {form} {fault} {seed}")
        bounds = Bounds(policies=("APPLICATION", "REPLICA", "ROLE"), retries=(0, 0, 1), replicas=(1, 1, 2))
        self.scenario = draw(f"airflow:{form}", fault, seed, bounds)
        for role in self.scenario.roles:
            role.scripts = [[_with_gates(attempt) for attempt in script] for script in role.scripts]
        self.truth_dir = root / "truth"
        self.truth_dir.mkdir()
        shutil.copy(HERE / "witness.py", self.truth_dir)
        (self.truth_dir / "script.json").write_text(json.dumps(self.scenario.script))
        (root / "app.json").write_text(json.dumps(self._app().to_dict()))
        self.excused: tuple[str, ...] = ()
        """Words of the message of an app that a user's act has cancelled."""
        self.wants: set[str] = set()
        """In which states the task may end for a user's act; empty: as its last app did."""
        self.cut_short: set[str] = set()
        """Apps of which the log may lack the end, for a user has ended their task."""
        self.log: list[str] = []
        self.found: list[Violation] = []
        self.runner = get_runner(state_dir=str(airflow.state_dir))

    def _app(self) -> AppDef:
        witness = [f"{self.truth_dir}/witness.py", f"{self.truth_dir}/{macros.app_id}"]
        return AppDef(
            "oracle",
            [
                Role(
                    role.name,
                    image="",
                    entrypoint="python3",
                    args=["-S", "-E", *witness, role.name, macros.replica_id],
                    num_replicas=len(role.scripts),
                    max_retries=role.max_retries,
                    retry_policy=RetryPolicy[role.policy],
                )
                for role in self.scenario.roles
            ],
        )

    # --- what a fault uses

    def open(self, gate: str) -> None:
        """Let the witnesses go on."""
        (self.truth_dir / gate).touch()

    def pause(self, most_s: float) -> None:
        """Let a random time pass."""
        with suppress(AssertionError):
            wait_until(lambda: False, self.rng.uniform(0, most_s))

    def eventually(self, condition: Callable[[], object], what: str) -> bool:
        """Wait for something that must come."""
        try:
            wait_until(condition, LIMIT_S)
        except AssertionError:
            self.found.append(Violation("hang", f"{what} never came; task {self.state()}"))
            return False
        return True

    def state(self) -> tuple[str, int]:
        """Return the task's state and try."""
        return self.airflow.state(self.task.path)

    def is_over(self) -> bool:
        """Return whether the task has ended for good."""
        return self.state()[0] in ENDED

    def begun(self) -> None:
        """Wait until a witness runs, and until the triggerer follows it where that is to do so."""
        self.eventually(lambda: self.truth() or self.is_over(), "start")
        if self.form == "worker":
            self.open("middle")
            self.pause(1.0)
            return
        self.eventually(lambda: self.state()[0] == "deferred" or self.is_over(), "deferral")
        before = self._shown()
        self.open("middle")
        self.eventually(lambda: self._shown() > before or self.is_over(), "a line from the triggerer")
        self.pause(1.0)

    def _shown(self) -> int:
        """Return how many lines of witnesses the first try's log shows."""
        return sum("@" in line for line in self.airflow.log(self.task, 1).split("\n"))

    def process(self) -> int:
        """Return the task's process; 0 when it has none."""
        with suppress(Exception):
            return self.airflow.process_of(self.task)
        return 0

    def next_try(self) -> None:
        """Wait for the next try to run, or the end."""
        number = self.state()[1]
        self.eventually(lambda: self.state()[1] > number or self.is_over(), f"a try after {number}")

    # --- truth

    def apps(self) -> dict[str, list[Copy]]:
        """Return what the witnesses of each app noted, in the order of their starts."""
        folders = [path for path in self.truth_dir.iterdir() if path.is_dir()]
        read = {path.name: read_truth(path) for path in folders}
        return dict(sorted(read.items(), key=lambda item: item[1][0].started if item[1] else 0.0))

    def truth(self) -> list[Copy]:
        """Return all of them."""
        return [copy for copies in self.apps().values() for copy in copies]

    def alive(self) -> list[str]:
        """Return the witnesses and grandchildren that run."""
        return [name for path in self.truth_dir.iterdir() if path.is_dir() for name in living(path)]

    def statuses(self) -> dict[str, AppStatus]:
        """Return the status of each app of the task that there is a record of, by id."""
        found: dict[str, AppStatus] = {}
        for app in self.runner.list("local_cwd"):
            described = self.runner.describe(app.app_handle)
            if described is not None and str(self.root) in str(described):
                status = self.runner.status(app.app_handle)
                if status is not None:
                    found[app.app_handle] = status
        return found

    # --- the run

    def run(self, act: Callable[[TaskTrial], None]) -> list[Violation]:
        """Carry the trial out and judge it."""
        try:
            self.task = self.airflow.trigger(self.form, folder=str(self.root))
            act(self)
            self.open("middle")
            self.open("end")
            if self.eventually(self.is_over, "the task's end"):
                self._judge()
        finally:
            self._clean()
        return self.found

    def _judge(self) -> None:
        state, number = self.state()
        self.eventually(lambda: all(is_terminal(s.state) for s in self.statuses().values()), "the apps' ends")
        self.found += [Violation("left-running", name) for name in self.alive()]
        apps, statuses = self.apps(), self.statuses()
        last: AppStatus | None = None
        for handle, status in statuses.items():
            copies = apps.pop(handle.rpartition("/")[2], [])
            last = status
            self._judge_app(handle, status, copies)
        self.found += [Violation("unknown-app", app) for app in apps]
        self._judge_order()
        truth = self.truth()
        with suppress(AssertionError):  # what the triggerer was told last reaches its files a little later
            wait_until(lambda: not self._judge_log(truth), SETTLE_S)
        self.found += self._judge_log(truth)
        self._judge_end(state, number, last)

    def _judge_app(self, handle: str, status: AppStatus, copies: list[Copy]) -> None:
        promises = Promises(
            max_retries={role.name: role.max_retries for role in self.scenario.roles},
            policies={role.name: role.policy for role in self.scenario.roles},
            may_end=frozenset({"CANCELLED"} if self.excused else ()),
            words=self.excused,
        )
        seen = Evidence(statuses={"status": status.to_json()})
        told = judge(copies, seen, promises)
        self.found += [Violation(each.name, f"{handle}: {each.detail}") for each in told]

    def _judge_order(self) -> None:
        """Judge that an app begins only when the one before it is over."""
        apps = [copies for copies in self.apps().values() if copies]
        for before, after in pairwise(apps):
            if max(copy.last for copy in before) > min(copy.started for copy in after):
                self.found.append(Violation("two-apps", f"{before[0].who} and {after[0].who} ran at once"))

    def _judge_log(self, truth: list[Copy]) -> list[Violation]:
        self.log = [self.airflow.log(self.task, each) for each in self.airflow.tries(self.task)]
        lines = [line for page in self.log for line in page.split("\n")]
        is_merged = any(".log.trigger." in line for line in lines)
        return judge_task_log(truth, lines, cut_short=self.cut_short, is_merged=is_merged)

    def _judge_end(self, state: str, number: int, last: AppStatus | None) -> None:
        if last is None:
            if not self.wants:
                self.found.append(Violation("no-app", f"the task is {state}, and no app is known"))
            return
        good = last.state.name == "SUCCEEDED"
        wanted = self.wants or {"success" if good else "failed"}
        if state not in wanted:
            self.found.append(Violation("wrong-task-state", f"{state} in try {number}, the app {last.state}"))
        if self.wants:
            return
        told = dict(self.airflow.xcom(self.task, "app"))
        told.pop("handle")
        if told != last.to_json():
            self.found.append(Violation("wrong-xcom", f"{told} is not {last.to_json()}"[:600]))
        if good and last.result is not None:
            result = self.airflow.xcom(self.task, "return_value")
            if result != last.result:
                self.found.append(Violation("wrong-result", f"{result!r}, the app's is {last.result!r}"))
        if not good and not any(
            cause in page for cause in _causes(last, self.truth()) for page in self.log[-1:]
        ):
            self.found.append(
                Violation("wrong-cause", f"the log does not name one of {_causes(last, self.truth())}")
            )

    def _clean(self) -> None:
        with suppress(Exception):
            if not self.is_over():
                self.airflow.mark(self.task, "failed")
        for handle in self.statuses():
            with suppress(Exception):
                self.runner.cancel(handle, grace_s=0.1)
                self.runner.wait(handle, timeout_s=30)
                self.runner.delete(handle)
                left = [str(p) for p in self.airflow.state_dir.rglob(handle.rpartition("/")[2])]
                self.found += [Violation("left-behind", path) for path in left]
        self.runner.close()
        LocalBackend().clean(self.root, "", ())


def _with_gates(attempt: Attempt) -> Attempt:
    """Let an attempt wait in its middle and before its end, and print slowly between."""
    *steps, last = attempt or [["print", "stdout", 1, 1, 1]]
    is_end = last[0] in {"exit", "die", "open"}
    steps, end = (steps, [last]) if is_end else ([*steps, last], [])
    slowly = [each for _ in range(8) for each in (["print", "stdout", 1, 1, 8], ["pause", 0.05])]
    return [*steps, ["gate", "middle"], *slowly, ["gate", "end"], ["both", 4], *end]


def _causes(status: AppStatus, truth: list[Copy]) -> list[str]:
    """Return the words of which a failed task's log has one, by what the witnesses noted."""
    del status
    words = [f"exit code {copy.exit_code}" for copy in truth if copy.exit_code]
    return [*words, *(copy.signal for copy in truth if copy.signal)]
