# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Submitting on a real engine: once, whole, or not at all, whoever dies when."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import cast

import docker
import pytest
from docker.errors import APIError
from docker_apps import SESSION, app, connected, end, logs, make_runner, new_runner, role, states
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE, SHELL_IMAGE

from torchx_core.errors import (
    AppIdConflictError,
    AppNotTerminalError,
    SchedulerError,
    SubmitFailedError,
    SubmitOutcomeUnknownError,
)
from torchx_core.runner import Runner
from torchx_core.schedulers.docker import DockerRequest
from torchx_core.schedulers.docker import submit as submitting
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.sdk import Api
from torchx_core.schedulers.docker.submit import submit
from torchx_core.specs import AppDef, AppState, BindMount, CfgVal, Resource, Role
from torchx_core.testing import wait_until
from torchx_core.testing.steps import Hold, Print

_CALLS = 14
"""More than submitting two replicas takes; the test says how many there are."""

_SUBMIT_AND_DIE = """
import pickle, sys
from docker_apps import DyingApi, connected
from torchx_core.schedulers.docker.submit import submit
url, request, calls = pickle.load(sys.stdin.buffer)
submit(connected(url, lambda api: DyingApi(api, calls)), request)
"""


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps go with the test."""
    with new_runner(engine.url) as runner:
        yield runner


def names(client: docker.DockerClient) -> list[str]:
    """What the engine has beside its images."""
    things = [*client.containers.list(all=True), *client.volumes.list()]
    return sorted([str(t.name) for t in things] + networks(client))


def networks(client: docker.DockerClient) -> list[str]:
    """The networks that the engine does not have by itself."""
    return sorted(str(n.name) for n in client.networks.list() if "-" in str(n.name))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("calls", range(_CALLS))
def test_whoever_dies_the_next_submit_completes(
    engine: DockerEngine,
    client: docker.DockerClient,
    runner: Runner,
    calls: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After any number of the engine's answers: one app, each program run once."""
    monkeypatch.setattr(submitting, "_CREATOR_PATIENCE_S", 0.2)
    two = app(Print("once"), num_replicas=2)
    request = runner.dryrun(two, "local_docker", app_id="one").request
    payload = pickle.dumps((engine.url, request, calls))
    done = subprocess.run([sys.executable, "-c", _SUBMIT_AND_DIE], input=payload, check=False, env=_env())
    assert done.returncode in (-9, 0)
    if calls == _CALLS - 1:
        assert done.returncode == 0, "there are more calls than this test knows"
    handle = runner.run(two, "local_docker", app_id="one")
    status = end(runner, handle)
    assert status.state == AppState.SUCCEEDED
    assert logs(client) == ["once", "once"]
    assert [(r.id, r.attempt) for r in status.roles[0].replicas] == [(0, 0), (1, 0)]


def _env() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_eight_at_once_are_one_app(engine: DockerEngine, client: docker.DockerClient, runner: Runner) -> None:
    """There is one network, one of each thing, and each program runs once."""
    two = app(Print("once"), num_replicas=2)

    def run(_number: int) -> str:
        with make_runner(engine.url) as mine:
            return mine.run(two, "local_docker", app_id="one")

    with ThreadPoolExecutor(8) as pool:
        (handle,) = set(pool.map(run, range(8)))
    assert end(runner, handle).state == AppState.SUCCEEDED
    assert logs(client) == ["once", "once"]
    assert len(networks(client)) == 1


class AtStart:
    """Passes calls on, and does something before a container is started."""

    def __init__(self, api: object, act: Callable[[], None]) -> None:
        self._api, self._act = api, act

    def __getattr__(self, name: str) -> object:
        return getattr(self._api, name)

    def start(self, container: str) -> None:
        """Act, then start it."""
        self._act()
        self._api.start(container)  # type: ignore[attr-defined]  # the SDK's client


def connected_at_start(engine: DockerEngine, act: Callable[[], None]) -> Engine:
    """Return a client of ours that acts before each start."""
    return connected(engine.url, lambda api: cast("Api", AtStart(api, act)))


def refuse() -> None:
    """Be an engine that does not want to."""
    raise APIError("refused", explanation="in the way")


def test_a_refusal_of_one_takes_nothing_from_the_others(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """The one who wrote the record goes on, slowly; the one who was refused waits for it, and attaches."""
    two = app(Print("once"), num_replicas=2)
    request = cast("DockerRequest", runner.dryrun(two, "local_docker", app_id="one").request)
    was_refused = Event()

    def refuse_once() -> None:
        if not was_refused.is_set():
            was_refused.set()
            refuse()

    slow = connected_at_start(engine, lambda: None if was_refused.wait(240) else refuse())
    hasty = connected_at_start(engine, refuse_once)
    with ThreadPoolExecutor() as pool, closing(slow), closing(hasty):
        first = pool.submit(submit, slow, request)
        wait_until(client.volumes.list, 240)
        second = pool.submit(submit, hasty, request)
        for done in (first, second):
            done.result()
    assert end(runner, "local_docker://tests/one").state == AppState.SUCCEEDED
    assert logs(client) == ["once", "once"]


def test_what_starts_after_the_end_of_its_app_is_stopped(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """An app may be cancelled, and end, before its submitter starts it: what he starts then is stopped."""
    request = cast("DockerRequest", runner.dryrun(app(Hold()), "local_docker", app_id="one").request)
    handle = "local_docker://tests/one"

    def cancel() -> None:
        runner.cancel(handle, grace_s=1)
        status = runner.status(handle)
        assert status
        assert status.state == AppState.CANCELLED

    with closing(connected_at_start(engine, cancel)) as slow:
        submit(slow, request)
    wait_until(lambda: not client.containers.list(), 240)


@pytest.mark.parametrize("calls", [1, 8])
def test_a_refusal_leaves_nothing_of_a_submit_whose_author_is_dead(
    engine: DockerEngine,
    client: docker.DockerClient,
    runner: Runner,
    monkeypatch: pytest.MonkeyPatch,
    calls: int,
) -> None:
    """It does not decide any more, so whoever is refused does."""
    monkeypatch.setattr(submitting, "_CREATOR_PATIENCE_S", 0.2)
    request = runner.dryrun(app(Print("x"), num_replicas=2), "local_docker", app_id="one").request
    payload = pickle.dumps((engine.url, request, calls))
    subprocess.run([sys.executable, "-c", _SUBMIT_AND_DIE], input=payload, check=False, env=_env())
    assert names(client)
    with (
        closing(connected_at_start(engine, refuse)) as mine,
        pytest.raises(SubmitFailedError, match="in the way"),
    ):
        submit(mine, cast("DockerRequest", request))
    assert names(client) == []


def test_a_conflict_tells_what_differs_and_no_secret(runner: Runner) -> None:
    """Secrets are compared, and masked."""
    one = app(Hold(), env={"API_KEY": "old-secret", "PLAIN": "1"})
    handle = runner.run(one, "local_docker", app_id="one")
    assert runner.run(app(Hold(), env=dict(one.roles[0].env)), "local_docker", app_id="one") == handle
    with pytest.raises(AppIdConflictError) as caught:
        runner.run(app(Hold(), env={"API_KEY": "new-secret", "PLAIN": "2"}), "local_docker", app_id="one")
    assert "PLAIN: '1' -> '2'" in str(caught.value)
    assert "API_KEY: *** -> ***" in str(caught.value)


def test_secrets_are_in_no_label_and_no_dry_run(client: docker.DockerClient, runner: Runner) -> None:
    """The program has them, and nobody else: not the records, the dry run or the description."""
    told = {"MY_TOKEN": "s3cret-a"}
    one = app(Print("x"), env=told)
    one.roles[0].entrypoint, one.roles[0].args = "sh", ["-c", "echo $MY_TOKEN $$OTHER_PASSWORD"]
    cfg: dict[str, CfgVal] = {"env": {"OTHER_PASSWORD": "s3cret-b"}}
    info = runner.dryrun(one, "local_docker", cfg)
    handle = runner.schedule(info)
    assert end(runner, handle).state == AppState.SUCCEEDED
    assert logs(client) == ["s3cret-a s3cret-b"]
    labels = [v.attrs["Labels"] for v in client.volumes.list()]
    labels += [c.labels for c in client.containers.list(all=True)]
    native = runner.scheduler("local_docker").describe_native(handle.rpartition("/")[2])
    assert "MY_TOKEN" in str(native)
    for shown in (labels, repr(info), runner.describe(handle), native):
        assert "s3cret" not in str(shown)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": "no-such-image:x"}, "no-such-image:x"),
        ({"port_map": {"a": 7011}}, "another port"),
        ({"mounts": [BindMount("/no/such/dir", "/mnt")]}, "engine's host"),
        ({"resource": Resource(cpu=-1, gpu=1, memMB=-1)}, "no GPUs"),
        ({"resource": Resource(cpu=4096, gpu=0, memMB=-1)}, "CPUs"),
    ],
)
def test_a_refusal_leaves_nothing(
    client: docker.DockerClient, runner: Runner, change: dict[str, object], message: str
) -> None:
    """The second role cannot be had: the error says which replica and what to do, and all is as before."""
    blocker = runner.run(app(Hold(), port_map={"a": 7011}), "local_docker", app_id="blocker")
    before = names(client)
    good = role("good", Print("x"), num_replicas=2)
    bad = AppDef("half", [good, role("bad", Print("x"), **change)])
    with pytest.raises(SubmitFailedError, match=message) as caught:
        runner.run(bad, "local_docker", {"pull": "never"}, app_id="one")
    assert "one" in str(caught.value)
    assert names(client) == before
    assert runner.status("local_docker://tests/one") is None
    assert runner.run(app(Print("x")), "local_docker", app_id="one")
    runner.cancel(blocker, grace_s=0)


def test_an_unknown_network_is_refused(client: docker.DockerClient, runner: Runner) -> None:
    """The message names the option; nothing is left."""
    with pytest.raises(SubmitFailedError, match="network=app"):
        runner.run(app(Print("x")), "local_docker", {"network": "no-such-net"})
    assert names(client) == []


def test_an_image_without_a_shell_needs_no_shim(client: docker.DockerClient, runner: Runner) -> None:
    """The status says so; without the script the program runs, and its exit code is told."""
    bare = Role("bare", "torchx-test-bare:latest", entrypoint="/busybox", args=["sh", "-c", "exit 5"])
    _import_bare(client)
    status = end(runner, runner.run(AppDef("bare", [bare]), "local_docker"))
    assert status.msg == "bare/0 failed: the image has no /bin/sh; use shim=none"
    status = end(runner, runner.run(AppDef("bare", [bare]), "local_docker", {"shim": "none"}))
    assert status.state == AppState.FAILED
    assert status.roles[0].replicas[0].exit_code == 5
    assert states(status) == {"bare/0": "FAILED"}
    client.images.remove("torchx-test-bare:latest", force=True)


def _import_bare(client: docker.DockerClient) -> None:
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add("/bin/busybox", arcname="busybox")
    client.api.import_image_from_data(buffer.getvalue(), repository="torchx-test-bare", tag="latest")


@pytest.mark.parametrize(
    ("entrypoint", "code", "hint"),
    [("no-such", 127, "no program 'no-such'"), ("/etc/passwd", 126, "executed")],
)
def test_a_program_that_cannot_run_tells_why(runner: Runner, entrypoint: str, code: int, hint: str) -> None:
    """With the exit code that a shell gives."""
    one = AppDef("app", [Role("worker", SHELL_IMAGE, entrypoint=entrypoint)])
    status = end(runner, runner.run(one, "local_docker"))
    assert status.roles[0].replicas[0].exit_code == code
    assert hint in status.msg


def test_a_submit_that_was_never_completed_can_be_ended(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """It is SUBMITTED, may be cancelled and deleted, and after that nothing is left."""
    request = runner.dryrun(app(Print("x")), "local_docker", app_id="one").request
    payload = pickle.dumps((engine.url, request, 4))
    subprocess.run([sys.executable, "-c", _SUBMIT_AND_DIE], input=payload, check=False, env=_env())
    handle = "local_docker://tests/one"
    status = runner.status(handle)
    assert status is not None
    assert status.state == AppState.SUBMITTED
    with pytest.raises(AppNotTerminalError, match="SUBMITTED"):
        runner.delete(handle)
    runner.cancel(handle)
    assert states(end(runner, handle)) == {"worker/0": "CANCELLED"}
    assert runner.run(app(Print("x")), "local_docker", app_id="one") == handle
    assert end(runner, handle).state == AppState.CANCELLED
    runner.delete(handle)
    assert names(client) == []


def test_an_engine_that_is_not_there_says_so() -> None:
    """The error is retryable and tells where it was looked for, and by whose word."""
    with make_runner("unix:///no/such.sock") as runner:
        assert "one" in repr(runner.dryrun(app(Print("x")), "local_docker", app_id="one"))
        with pytest.raises(SchedulerError, match=r"unix:///no/such.sock \(docker_host\)") as caught:
            runner.run(app(Print("x")), "local_docker")
        assert caught.value.retryable
        assert [f.subject for f in runner.scheduler("local_docker").diagnose()] == ["engine"]


def test_an_engine_that_goes_away_leaves_the_outcome_open(engine: DockerEngine, runner: Runner) -> None:
    """Calling again with the same id settles it."""
    request = cast("DockerRequest", runner.dryrun(app(Print("x")), "local_docker", app_id="one").request)

    class Leaving:
        def __init__(self, api: object) -> None:
            self._api = api

        def __getattr__(self, name: str) -> object:
            if name == "start":
                raise ConnectionError("gone")
            return getattr(self._api, name)

    mine = connected(engine.url, Leaving)  # type: ignore[arg-type]  # passes calls on
    with pytest.raises(SubmitOutcomeUnknownError, match="same app id"):
        submit(mine, request)
    mine.close()
    handle = runner.run(app(Print("x")), "local_docker", app_id="one")
    assert end(runner, handle).state == AppState.SUCCEEDED


def test_a_pruned_container_is_not_run_again(client: docker.DockerClient, runner: Runner) -> None:
    """An app that has begun never gets another container: what somebody removed is a failure."""
    handle = runner.run(app(Print("x")), "local_docker", app_id="one")
    wait_until(lambda: not client.containers.list(), 240)
    for container in client.containers.list(all=True):
        container.remove()
    assert runner.run(app(Print("x")), "local_docker", app_id="one") == handle
    status = end(runner, handle)
    assert (status.state, status.msg) == (AppState.FAILED, "worker/0 failed: its container was removed")


def test_deleting_leaves_nothing(client: docker.DockerClient, runner: Runner) -> None:
    """No container, volume or network; also of an app that had an owner, restarts and a network."""
    handle = runner.run(app(Hold(), num_replicas=2), "local_docker")
    runner.take_over(handle, "me")
    runner.cancel(handle, grace_s=0)
    end(runner, handle)
    runner.delete(handle)
    assert names(client) == []


def test_pruning_deletes_what_has_ended(client: docker.DockerClient, runner: Runner) -> None:
    """Records that were written while their app was deleted go as well."""
    handle = runner.run(app(Print("x")), "local_docker")
    end(runner, handle)
    orphan = {"torchx-core.app": "gone", "torchx-core.session": SESSION, "torchx-core.kind": "stop"}
    client.volumes.create("gone-1234.5678.stop", labels=orphan)
    assert runner.prune("local_docker", max_count=0) == [handle.rpartition("/")[2]]
    assert names(client) == []


def test_a_record_that_cannot_be_read_is_listed(client: docker.DockerClient, runner: Runner) -> None:
    """As UNKNOWN, and it hides no other app."""
    handle = runner.run(app(Print("x")), "local_docker", app_id="good")
    labels = {"torchx-core.app": "bad", "torchx-core.session": SESSION, "torchx-core.kind": "spec"}
    volume = client.volumes.create("bad", labels={**labels, "torchx-core.content": "{"})
    rows = {row.app_id: row.state for row in runner.list("local_docker")}
    volume.remove()
    assert rows["bad"] == AppState.UNKNOWN
    assert rows.keys() == {"good", "bad"}
    end(runner, handle)


@pytest.mark.parametrize("name", ["ünï", "a'; echo", "-rf", "x" * 180, "..", "$(id)", "{}%s", "🙂"])
def test_hostile_names(runner: Runner, name: str) -> None:
    """App id, role and arguments may be anything that a handle can hold."""
    one = AppDef(name, [role(name, Print(name), image=PYTHON_IMAGE)])
    app_id = name.replace(" ", "_")
    handle = runner.run(one, "local_docker", app_id=app_id)
    status = end(runner, handle)
    assert states(status) == {f"{name}/0": "SUCCEEDED"}
    assert [row.app_id for row in runner.list("local_docker")] == [app_id]
