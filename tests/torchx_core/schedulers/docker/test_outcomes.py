# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""How apps end on a real engine, also when nobody looks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta

import docker
import pytest
from docker_apps import app, connected, end, make_runner, new_runner, role, states
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE, SHELL_IMAGE

from torchx_core.errors import InvalidRunConfigException, SchedulerError
from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.docker import decide, watch
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.labels import app_key
from torchx_core.schedulers.docker.polling import look
from torchx_core.specs import AppDef, AppState, AppStatus, CfgVal, Resource, RetryPolicy, Role
from torchx_core.testing import wait_until
from torchx_core.testing.steps import Exit, FailUntil, Hold, Print

_RUN_AND_DIE = """
import os, pickle, signal, sys
from docker_apps import make_runner
url, app, cfg = pickle.load(sys.stdin.buffer)
make_runner(url).run(app, "local_docker", cfg, app_id="one")
os.kill(os.getpid(), signal.SIGKILL)
"""
_ONE = "local_docker://tests/one"
TOO_MANY = 15


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps go with the test."""
    with new_runner(engine.url) as runner:
        yield runner


def submitted_by_the_dead(engine: DockerEngine, submitted: AppDef, cfg: dict[str, CfgVal]) -> None:
    """Submit the app as ``one`` from a process that is killed right afterwards."""
    import os
    import pickle

    request = pickle.dumps((engine.url, submitted, cfg))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _RUN_AND_DIE], input=request, check=False, env=env)
    assert done.returncode == -signal.SIGKILL


def all_down(client: docker.DockerClient) -> bool:
    """Ask the engine alone: nobody looks at the app, so nobody does anything about it."""
    return not client.containers.list()


def shell(script: str, **fields: object) -> Role:
    """A role that runs the script."""
    return Role("worker", SHELL_IMAGE, entrypoint="sh", args=["-c", script], **fields)  # type: ignore[arg-type]  # a test's own


def finished_at(client: docker.DockerClient) -> list[datetime]:
    """Return when each container ended, by the engine, in whole seconds."""
    ends = [c.attrs["State"]["FinishedAt"] for c in client.containers.list(all=True)]
    return sorted(datetime.fromisoformat(f"{end[:19]}+00:00") for end in ends)


def test_ten_that_ignore_sigterm_are_cancelled_at_once(client: docker.DockerClient, runner: Runner) -> None:
    """Cancel does not wait for the grace period, which is over for all at the same time; all CANCELLED."""
    stubborn = shell("trap '' TERM; echo up; while :; do sleep 0.2; done", num_replicas=10)
    handle = runner.run(AppDef("app", [stubborn]), "local_docker")
    wait_until(lambda: all(b"up" in c.logs() for c in client.containers.list()), 240)
    assert runner.cancel(handle, grace_s=10, reason="a good reason") == CancelOutcome.REQUESTED
    assert len(client.containers.list()) == 10
    wait_until(lambda: all_down(client), 240)
    ends = finished_at(client)
    assert ends[-1] - ends[0] < timedelta(seconds=45)  # one after the other: 90; benchmarks/ measures it
    status = end(runner, handle)
    assert (status.state, status.msg) == (AppState.CANCELLED, "a good reason")
    assert {(r.state, r.signal) for r in status.roles[0].replicas} == {(AppState.CANCELLED, "SIGKILL")}


def test_the_grace_period_is_the_programs_to_use(runner: Runner, client: docker.DockerClient) -> None:
    """It gets SIGTERM as if the script were not there; its exit code is told, the app is CANCELLED."""
    polite = shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done")
    handle = runner.run(AppDef("app", [polite]), "local_docker")
    wait_until(lambda: all(b"up" in c.logs() for c in client.containers.list()), 240)
    runner.cancel(handle)
    status = end(runner, handle)
    assert status.state == AppState.CANCELLED
    assert status.roles[0].replicas[0].exit_code == 7


def test_a_cancel_that_nobody_served_is_served_by_who_looks(
    engine: DockerEngine, runner: Runner, client: docker.DockerClient
) -> None:
    """The canceller died between writing the request and asking the engine."""
    from torchx_core.schedulers.docker import records as store

    handle = runner.run(app(Hold()), "local_docker", app_id="one")
    with closing(connected(engine.url)) as mine:
        records = store.read(mine, "tests", "one")
        assert records is not None
        cancel_request = store.Stop(outcome="CANCELLED", msg="late", grace_s=0, time=time.time() - 60)
        store.write(mine, records.app, store.STOP, store.dump_stop(cancel_request))
    assert not all_down(client)
    status = end(runner, handle)
    assert (status.state, status.msg) == (AppState.CANCELLED, "late")


def test_an_engine_that_cannot_kill_is_asked_now_and_then_and_told_of(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on 28.5.2: it says nothing, and works at each request for twenty seconds."""
    monkeypatch.setattr(decide, "_PATIENCE_S", -1.0)
    monkeypatch.setattr(watch, "_AWAY_S", 2.0)
    asked: list[str] = []
    stop = Engine.stop

    def do_nothing(_engine: Engine, container: str, _grace_s: int) -> None:
        asked.append(container)

    monkeypatch.setattr(Engine, "stop", do_nothing)
    handle = runner.run(app(Hold()), "local_docker", {"grace_s": 0.0})
    runner.cancel(handle)
    with pytest.raises(SchedulerError, match=r"cannot kill \S+; restart the engine"):
        list(runner.follow(handle))
    assert 2 < len(asked) < TOO_MANY  # the cancel's own, and then less and less often
    monkeypatch.setattr(Engine, "stop", stop)
    assert end(runner, handle).state == AppState.CANCELLED


@pytest.mark.parametrize(("cfg", "reason"), [({"lease_s": 2.0}, "lease"), ({"timeout_s": 2.0}, "deadline")])
def test_lease_and_deadline_hold_when_everybody_is_dead(
    engine: DockerEngine,
    client: docker.DockerClient,
    runner: Runner,
    cfg: dict[str, CfgVal],
    reason: str,
) -> None:
    """The submitting process is killed, and nobody asks: the containers end by themselves."""
    submitted_by_the_dead(engine, app(Hold(), num_replicas=2, max_retries=3), {**cfg, "grace_s": 1.0})
    assert [c.status != "created" for c in client.containers.list(all=True)] == [True] * 2
    wait_until(lambda: all_down(client), 240)
    status = end(runner, _ONE)
    assert status.state == AppState.CANCELLED
    assert reason in status.msg
    assert set(states(status).values()) == {"CANCELLED"}


def test_an_absolute_deadline(runner: Runner, client: docker.DockerClient) -> None:
    """It is kept by the replicas as well."""
    handle = runner.run(app(Hold()), "local_docker", {"deadline": time.time() + 3})
    wait_until(lambda: all_down(client), 240)
    status = end(runner, handle)
    assert (status.state, status.msg) == (AppState.CANCELLED, "deadline passed")


def test_one_failure_stops_the_gang_though_nobody_looks(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """The others notice by themselves, and the app is FAILED by the one that failed."""
    gang = AppDef("gang", [role("bad", Exit(7)), role("good", Hold(), num_replicas=2)])
    submitted_by_the_dead(engine, gang, {})
    wait_until(lambda: all_down(client), 240)
    status = end(runner, _ONE)
    assert (status.state, status.msg) == (AppState.FAILED, "bad/0 failed: exit code 7")
    assert states(status) == {"bad/0": "FAILED", "good/0": "CANCELLED", "good/1": "CANCELLED"}


@pytest.mark.parametrize(("policy", "attempts"), [("ROLE", (1, 1, 0)), ("APPLICATION", (1, 1, 1))])
def test_restarts_of_several_replicas(runner: Runner, policy: str, attempts: tuple[int, ...]) -> None:
    """Whoever looks orders them; each of the scope runs once more, the rest does not."""
    fails = shell("exit $((1 - TORCHX_ATTEMPT))", max_retries=1, retry_policy=RetryPolicy(policy))
    waits = shell("[ $TORCHX_ATTEMPT = 1 ] || sleep 60", num_replicas=1)
    waits.name = "waits"
    if policy == "ROLE":
        fails = shell(
            "[ $TORCHX_ATTEMPT = 1 ] || exit 3", num_replicas=2, max_retries=1, retry_policy=RetryPolicy.ROLE
        )
        roles = [fails, Role("other", SHELL_IMAGE, entrypoint="true")]
    else:
        roles = [fails, waits, Role("other", SHELL_IMAGE, entrypoint="true")]
    status = end(runner, runner.run(AppDef("app", roles), "local_docker"))
    assert status.state == AppState.SUCCEEDED
    assert tuple(r.attempt for group in status.roles for r in group.replicas) == attempts
    assert status.num_restarts == 1


def test_what_is_killed_for_a_restart_is_remembered(engine: DockerEngine, runner: Runner) -> None:
    """The script dies with its container; whoever orders the restart knows how the attempt ended."""
    ready = "/run/torchx/ready"
    fails = shell(f"until [ -e {ready} ]; do sleep 0.1; done; exit $((1 - TORCHX_ATTEMPT))", max_retries=1)
    stubborn = shell(f"trap '' TERM; touch {ready}; [ $TORCHX_ATTEMPT = 1 ] || while :; do sleep 0.2; done")
    stubborn.name = "stubborn"
    handle = runner.run(AppDef("app", [fails, stubborn]), "local_docker", {"grace_s": 1.0}, app_id="one")
    assert end(runner, handle).state == AppState.SUCCEEDED
    with closing(connected(engine.url)) as mine:
        view = mine.ask(lambda: look(app_key("tests", "one")))
        assert view is not None
        first, second = view.replicas[1].attempts
    assert (first.code, first.told, second.code) == (137, True, 0)
    assert (first.ended_at or 0) % 1  # the engine's time, which is exact


def test_many_who_look_restart_once(engine: DockerEngine, runner: Runner) -> None:
    """Eight ask for the status at the same time, again and again: no attempt too many."""
    roles = [role("bad", FailUntil(2), max_retries=2), role("good", FailUntil(0), Print("x"))]
    handle = runner.run(AppDef("app", roles), "local_docker")

    def watch(_number: int) -> AppStatus:
        with make_runner(engine.url) as mine:
            return end(mine, handle)

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(watch, range(8)))
    assert all(status == seen[0] for status in seen)
    assert [(g.role, g.replicas[0].attempt) for g in seen[0].roles] == [("bad", 2), ("good", 2)]
    assert (seen[0].state, seen[0].num_restarts) == (AppState.SUCCEEDED, 2)


def test_every_attempt_is_remembered(engine: DockerEngine, runner: Runner) -> None:
    """With its exit code and times, by a reader who comes when all is over."""
    one = app(FailUntil(1, 4), FailUntil(2, 5), Exit(6), max_retries=2, retry_policy=RetryPolicy.REPLICA)
    end(runner, runner.run(one, "local_docker", app_id="one"))
    with closing(connected(engine.url)) as mine:
        view = mine.ask(lambda: look(app_key("tests", "one")))
        assert view is not None
        (replica,) = view.replicas
    assert [(a.number, a.code, a.told) for a in replica.attempts] == [
        (0, 4, False),
        (1, 5, False),
        (2, 6, False),
    ]
    times = [t for a in replica.attempts for t in (a.started_at, a.ended_at)]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]  # none is None


def test_too_much_memory_is_told(runner: Runner) -> None:
    """Killed by SIGKILL alone would send people the wrong way."""
    eater = Role("worker", PYTHON_IMAGE, entrypoint="python3", args=["-c", "x = b'x' * 200_000_000"])
    eater.resource = Resource(cpu=-1, gpu=-1, memMB=32)
    status = end(runner, runner.run(AppDef("app", [eater]), "local_docker"))
    assert (
        status.msg
        == "worker/0 failed: killed by SIGKILL (out of memory: peak 32 MB of 32 MB allowed by memMB)"
    )


def test_a_container_that_is_stopped_by_hand_is_told(runner: Runner, client: docker.DockerClient) -> None:
    """The app did not fail by itself."""
    handle = runner.run(app(Print("up"), Hold()), "local_docker")
    wait_until(lambda: b"up" in client.containers.list()[0].logs(), 240)
    client.containers.list()[0].stop(timeout=30)
    status = end(runner, handle)
    assert status.state == AppState.FAILED
    assert "killed by SIGTERM (from outside" in status.msg


def test_users_without_rights_write_reports(runner: Runner, client: docker.DockerClient) -> None:
    """An image whose user is not root: reports, error files and journals work as for root."""
    base = client.api.create_container(SHELL_IMAGE, command="x")
    client.api.commit(base["Id"], "torchx-test-nobody", "latest", changes=["USER 65534"])
    client.api.remove_container(base["Id"])
    script = """echo '{"type": "result", "value": 5}' >>$TORCHX_REPORT_FILE; [ $(id -u) = 65534 ] && exit 3"""
    fails = shell(script)
    fails.image = "torchx-test-nobody:latest"
    status = end(runner, runner.run(AppDef("app", [fails]), "local_docker"))
    client.images.remove("torchx-test-nobody:latest", force=True)
    assert (status.result, status.roles[0].replicas[0].exit_code) == (5, 3)


def test_an_error_file_is_in_the_status(runner: Runner) -> None:
    """As text, and it leads the failure's message."""
    script = """echo '{"message": "no luck"}' >$TORCHELASTIC_ERROR_FILE; exit 1"""
    status = end(runner, runner.run(AppDef("app", [shell(script)]), "local_docker"))
    assert status.structured_error_msg == '{"message": "no luck"}\n'
    assert "no luck" in status.failure_summary()


def test_replicas_find_each_other(runner: Runner) -> None:
    """By the name in TORCHX_RANK0_HOST, and by role and number, once both have been started."""
    meet = "for peer in $TORCHX_RANK0_HOST worker-1; do until ping -c 1 -w 20 $peer; do sleep 0.1; done; done"
    # Nobody leaves before both have found everybody.
    stay = "cd /run/torchx; touch met.$(hostname); until [ $(ls | grep -c met) = 2 ]; do sleep 0.1; done"
    pings = shell(f"{meet}; {stay}", num_replicas=2)
    assert end(runner, runner.run(AppDef("app", [pings]), "local_docker")).state == AppState.SUCCEEDED


def test_only_one_of_eight_takes_over(engine: DockerEngine, runner: Runner) -> None:
    """Compare-and-set, also when all compare at the same moment."""
    handle = runner.run(app(Hold()), "local_docker")
    for expected in (None, "0"):
        tokens = [f"{expected}-{i}" for i in range(8)]

        def take(token: str, expected: str | None = expected) -> bool:
            with make_runner(engine.url) as mine:
                return mine.take_over(handle, token, expected=expected)

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(take, tokens))
        assert won.count(True) == 1
        assert runner.owner(handle) == tokens[won.index(True)]
        assert runner.take_over(handle, "0", force=True)


def test_without_the_script_whoever_looks_keeps_the_deadline(runner: Runner) -> None:
    """Exit codes, times and the gang are as with it."""
    cfg: dict[str, CfgVal] = {"shim": "none", "grace_s": 1.0}
    handle = runner.run(app(Hold()), "local_docker", {**cfg, "timeout_s": 2.0})
    assert end(runner, handle).msg == "deadline passed: it ran for 2 s"
    gang = AppDef("gang", [role("bad", Exit(7)), role("good", Hold())])
    status = end(runner, runner.run(gang, "local_docker", cfg))
    assert states(status) == {"bad/0": "FAILED", "good/0": "CANCELLED"}
    replica = status.roles[0].replicas[0]
    assert replica.started_at is not None
    assert replica.started_at <= (replica.ended_at or 0)
    with pytest.raises(InvalidRunConfigException, match="shim=none keeps no count"):
        runner.dryrun(AppDef("app", [role("a", Exit(1), max_retries=1, num_replicas=2)]), "local_docker", cfg)
