"""Many tasks at once: killed at random, deferred by the hundred."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import psutil
import pytest
from airflow_server import AirflowServer, Task

from airflow_torchx._deferral import CURSOR_KEY
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(3600)]

FULL = os.environ.get("TORCHX_FULL_CROWDS") == "1"
"""Whether to run at full size, half an hour on two cores."""
DOOMED = 50 if FULL else 5
DEFERRED = 300 if FULL else 40
KILLS = 5
PATIENCE_S = 1800.0
IDLE_S = 10.0

DAGS = '''
import os, random, signal, threading
from itertools import count
from pathlib import Path

import airflow_torchx
from airflow.sdk.exceptions import TaskDeferred
from airflow_torchx.operators import torchx
torchx.DEFER_AFTER_S = 0.5

OURS = str(Path(airflow_torchx.__file__).parent)

def doom(context, phase):
    """Have this process killed in the first tries: at one of our lines, or some time from now."""
    ti, params = context["ti"], context["params"]
    if ti.try_number >= params["kills"]:
        let_end(context)
    if ti.try_number > params["kills"]:
        return
    draw = random.Random(f"{params['seed']} {ti.map_index} {ti.try_number} {phase}")

    def die():
        Path(params["folder"], f"killed-{ti.map_index}-{ti.try_number}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if draw.random() < 0.5:
        timer = threading.Timer(draw.uniform(0, 0.5), die)
        timer.daemon = True
        timer.start()
    else:
        die_at_line(draw.randrange(300), die)

def let_end(context):
    Path(context["params"]["folder"], f"go-{context['ti'].map_index}").touch()

def die_at_line(number, die):
    """Die at the so-manieth line of our package that runs."""
    passed = count()

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if event == "line" and next(passed) == number:
            die()
        return trace

    threading.settrace(trace)
    sys.settrace(trace)

class Doomed(TorchXRunOperator):
    def execute(self, context):
        doom(context, "execute")
        try:
            return super().execute(context)
        except TaskDeferred:
            let_end(context)  # or no trigger would ever fire
            raise

    def resume(self, context, event=None):
        doom(context, "resume")
        return super().resume(context, event)

SCRIPT = """
echo started >> "$1/started-$0"
until [ -e "$1/go-$0" ]; do sleep 0.2; done
printf '{"type": "result", "value": %s}\\\\n' "$0" >> "$TORCHX_REPORT_FILE"
"""
PARAMS = {"folder": "", "size": 1, "kills": 0, "seed": 0}

@task
def apps(script, params=None):
    """Return an app for each number below the size that the run was given."""
    numbers = range(params["size"])
    return [app("sh", "-c", script, str(number), params["folder"]).to_dict() for number in numbers]

for deferrable in (False, True):
    with DAG(f"doomed-{deferrable}".lower(), schedule=None, params=PARAMS, is_paused_upon_creation=False):
        Doomed.partial(
            task_id="t",
            deferrable=deferrable,
            retries=100,
            retry_delay=timedelta(0),
            on_success_callback=print,
        ).expand(app=apps(SCRIPT))

# Says one line when told to, and ends when told again.
OBEDIENT = """
exec 3<"$1/fifo-$0"
read -r _ <&3
echo "line 0"
read -r _ <&3
"""

with DAG("crowd", schedule=None, params=PARAMS, is_paused_upon_creation=False):
    TorchXRunOperator.partial(
        task_id="t", deferrable=True, lease_s=PATIENCE_S, cfg="grace_s=1"
    ).expand(app=apps(OBEDIENT))
'''.replace("PATIENCE_S", str(PATIENCE_S))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """Return an Airflow that runs the DAGs above."""
    server = AirflowServer(tmp_path_factory.mktemp("airflow"))
    try:
        server.start(DAGS)
        yield server
    finally:
        server.stop()


@pytest.fixture
def runner(airflow: AirflowServer) -> Iterator[Runner]:
    """Return what sees the apps of that Airflow; none is left afterwards."""
    with get_runner(state_dir=str(airflow.state_dir)) as runner:
        yield runner
        apps = runner.list("local_cwd")
        for app in apps:
            runner.cancel(app.app_handle, grace_s=0)
        for app in apps:
            runner.wait(app.app_handle, timeout_s=240)
            runner.delete(app.app_handle)


@pytest.mark.parametrize(
    ("dag_id", "seed", "at_least"),
    [("doomed-false", 1, KILLS - 1), ("doomed-true", 2, 2)],
    ids=["worker", "deferred"],
)
def test_tasks_killed_at_random_run_their_apps_once(
    airflow: AirflowServer,
    runner: Runner,
    tmp_path: Path,
    dag_id: str,
    seed: int,
    at_least: int,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """Whatever line of ours the process dies at, each task has one app, which ran once, and its result.

    At full size that is 200 kills of 50 tasks whose workers follow their apps.
    """
    run = airflow.trigger(dag_id, folder=str(tmp_path), size=DOOMED, kills=KILLS, seed=seed)
    airflow.wait_for_run(run, "success", PATIENCE_S)
    assert [airflow.xcom(run, "return_value", index) for index in range(DOOMED)] == list(range(DOOMED))
    apps = [runner.status(app.app_handle) for app in runner.list("local_cwd")]
    assert [app and (app.state, app.msg) for app in apps] == [(AppState.SUCCEEDED, "")] * DOOMED
    starts = [(tmp_path / f"started-{index}").read_text() for index in range(DOOMED)]
    assert starts == ["started\n"] * DOOMED
    kills = len(list(tmp_path.glob("killed-*")))
    record_testsuite_property(f"kills of {DOOMED} tasks of {dag_id}", kills)
    assert kills >= at_least * DOOMED


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """Return what tells the app of a number to go on."""
    ends: dict[int, int] = {}
    for number in range(DEFERRED):
        fifo = tmp_path / f"fifo-{number}"
        os.mkfifo(fifo)
        ends[number] = os.open(fifo, os.O_RDWR)  # open at both ends: neither side waits for the other

    def command(number: int) -> None:
        os.write(ends[number], b"\n")

    yield command
    for end in ends.values():
        os.close(end)


def test_a_triggerer_follows_a_crowd_and_misses_no_kill(
    airflow: AirflowServer,
    runner: Runner,
    tmp_path: Path,
    commands: Callable[[int], None],
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """However many tasks are deferred, a stopped run leaves none of their apps running."""
    _warm_up(airflow, runner, tmp_path, commands)
    triggerer = _Usage(airflow.pid_of("triggerer"))
    begin = monotonic()
    run = airflow.trigger("crowd", folder=str(tmp_path), size=DEFERRED)
    wait_until(lambda: airflow.count(run, "deferred") == DEFERRED, PATIENCE_S)
    record_testsuite_property("seconds until all are deferred", monotonic() - begin)
    for number in range(DEFERRED):
        commands(number)
    wait_until(lambda: _is_followed(airflow, run, DEFERRED), 240)
    for name, value in triggerer.per_app(DEFERRED).items():
        record_testsuite_property(name, value)

    commands(0)
    begin = monotonic()
    wait_until(lambda: airflow.count(run, "success") == 2, 240)  # the task that made the apps is the other
    record_testsuite_property("seconds from an app's end to its task's", monotonic() - begin)

    begin = monotonic()
    airflow.fail_run(run)
    wait_until(lambda: _states(runner) == {AppState.SUCCEEDED: 1, AppState.CANCELLED: DEFERRED - 1}, 240)
    record_testsuite_property("seconds until all are cancelled", monotonic() - begin)


def _warm_up(airflow: AirflowServer, runner: Runner, folder: Path, commands: Callable[[int], None]) -> None:
    """Have the triggerer load what it needs to follow an app and to cancel it."""
    run = airflow.trigger("crowd", folder=str(folder), size=1)
    wait_until(lambda: airflow.count(run, "deferred") == 1, 240)
    commands(0)
    wait_until(lambda: _is_followed(airflow, run, 1), 240)
    airflow.fail_run(run)
    wait_until(lambda: _states(runner) == {AppState.CANCELLED: 1}, 240)
    for app in runner.list("local_cwd"):
        runner.delete(app.app_handle)


def _is_followed(airflow: AirflowServer, run: Task, size: int) -> bool:
    """Return whether the triggerer has shown lines of all apps."""
    return all(airflow.xcom(run, CURSOR_KEY, index)["cursor"] is not None for index in range(size))


def _states(runner: Runner) -> Counter[AppState]:
    return Counter(app.state for app in runner.list("local_cwd"))


class _Usage:
    """What a triggerer needs, and how much more than before."""

    def __init__(self, pid: int) -> None:
        process = psutil.Process(pid)
        self._processes = [process, *process.children(recursive=True)]
        self._before = self._now()

    def per_app(self, apps: int) -> dict[str, float]:
        """Return what each app costs: memory, descriptors, and CPU while nothing happens."""
        after = self._now()
        begin = monotonic()
        wait_until(lambda: monotonic() - begin > IDLE_S, IDLE_S + 10)
        busy_s = self._cpu_s() - after[2]
        return {
            "KB of memory per app": (after[0] - self._before[0]) / apps / 1e3,
            "descriptors per app": (after[1] - self._before[1]) / apps,
            "CPU for all, % of a core": 100 * busy_s / (monotonic() - begin),
        }

    def _now(self) -> tuple[int, int, float]:
        memory = sum(each.memory_full_info().uss for each in self._processes)
        return memory, sum(each.num_fds() for each in self._processes), self._cpu_s()

    def _cpu_s(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._processes)
