# pyright: reportUnknownMemberType=false
"""Records that no container mounts, after the engine was restarted: they say what they said before."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import docker
import pytest
from docker_apps import app, connected, end, new_runner, role
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.errors import CorruptRecordError, SubmitOutcomeUnknownError
from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.docker import records as store
from torchx_core.schedulers.docker import submit as submitting
from torchx_core.schedulers.docker.labels import app_name, of_replica
from torchx_core.schedulers.docker.removing import remove_everything
from torchx_core.specs import AppDef, AppState
from torchx_core.testing.steps import Print

pytestmark = pytest.mark.slow

HANDLE = "local_docker://tests/one"
NAME = app_name("tests", "one")
TWO = app(Print("first"), Print("second"), num_replicas=2)
LINES = [(k, word) for k in (0, 1) for word in ("first", "second")]
LIVE = "--live-restore"
SUBMIT_AND_DIE = """
import pickle, sys
from docker_apps import DyingApi, connected
from torchx_core.schedulers.docker.submit import submit
url, request, calls = pickle.load(sys.stdin.buffer)
submit(connected(url, lambda api: DyingApi(api, calls)), request)
"""
ends = pytest.mark.parametrize(
    ("end_engine", "options"), [(DockerEngine.kill, [LIVE]), (DockerEngine.terminate, [])]
)


@pytest.fixture
def runner(frail_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner whose apps are removed afterwards, and whom no dead submitter keeps waiting."""
    monkeypatch.setattr(submitting, "_CREATOR_PATIENCE_S", 0.2)
    with new_runner(frail_engine.url) as runner:
        yield runner
    with closing(connected(frail_engine.url)) as engine:
        remove_everything(engine, "tests", "one")


@pytest.fixture
def client(frail_engine: DockerEngine) -> Iterator[docker.DockerClient]:
    """The SDK's client of the engine."""
    with closing(docker.DockerClient(base_url=frail_engine.url)) as client:
        yield client


def die_while_submitting(engine: DockerEngine, runner: Runner, one: AppDef, calls: int) -> None:
    """Submit from a process that is killed when the engine has answered so often."""
    request = runner.dryrun(one, "local_docker", app_id="one").request
    done = subprocess.run(
        [sys.executable, "-c", SUBMIT_AND_DIE],
        input=pickle.dumps((engine.url, request, calls)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -9


def lines(runner: Runner, handle: str) -> list[tuple[int, str]]:
    """Return replica and text of every line of every attempt."""
    found = [line for batch in runner.follow(handle) for line in batch.lines()]
    assert {line.attempt for line in found} <= {0}
    return sorted((line.replica, line.text) for line in found)


def restart(engine: DockerEngine, end_engine: Callable[[DockerEngine], None], options: list[str]) -> None:
    """End the engine and start it again."""
    end_engine(engine)
    engine.start(*options)


@ends
@pytest.mark.parametrize("calls", [1, 2, 3, 5, 7])
def test_a_submit_that_died_before_a_restart_is_completed_after_it(
    frail_engine: DockerEngine,
    runner: Runner,
    calls: int,
    end_engine: Callable[[DockerEngine], None],
    options: list[str],
) -> None:
    """The next submit of the id finds what the first had written, and every replica prints each line once."""
    die_while_submitting(frail_engine, runner, TWO, calls)
    restart(frail_engine, end_engine, options)
    assert [row.app_id for row in runner.list("local_docker")] == ["one"]
    handle = runner.run(TWO, "local_docker", app_id="one")
    assert lines(runner, handle) == LINES
    assert end(runner, handle).state == AppState.SUCCEEDED


@ends
def test_an_engine_that_ends_while_it_pulls_the_image(
    frail_engine: DockerEngine,
    client: docker.DockerClient,
    runner: Runner,
    end_engine: Callable[[DockerEngine], None],
    options: list[str],
) -> None:
    """The submit's outcome is unknown, and the next one runs the app once."""
    with socket.create_server((frail_engine.host_address, 0)) as registry, ThreadPoolExecutor(1) as pool:
        image = f"{frail_engine.host_address}:{registry.getsockname()[1]}/pulled"
        one = app(Print("first"), Print("second"), image=f"{image}:latest", num_replicas=2)
        first = pool.submit(runner.run, one, "local_docker", app_id="one")
        asked, _ = registry.accept()  # and no answer
        restart(frail_engine, end_engine, options)
        asked.close()
    with pytest.raises(SubmitOutcomeUnknownError, match="one"):
        first.result()
    assert client.images.get(PYTHON_IMAGE).tag(image, "latest")
    handle = runner.run(one, "local_docker", app_id="one")
    assert lines(runner, handle) == LINES
    assert end(runner, handle).state == AppState.SUCCEEDED
    runner.delete(handle)
    client.images.remove(f"{image}:latest")


def test_a_second_cancel_after_a_restart(
    frail_engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """The request of the first is read, and the app ends with its reason."""
    restart(frail_engine, DockerEngine.terminate, [LIVE])
    deaf = role("worker", image=PYTHON_IMAGE)
    deaf.entrypoint, deaf.args = "sh", ["-c", "trap '' TERM; echo up; while :; do sleep 1; done"]
    handle = runner.run(AppDef("app", [deaf]), "local_docker", app_id="one")
    next(batch for batch in runner.follow(handle) if any(batch.lines()))
    assert runner.cancel(handle, grace_s=600, reason="first") is CancelOutcome.REQUESTED
    restart(frail_engine, DockerEngine.kill, [LIVE])
    assert runner.cancel(handle, grace_s=600, reason="second") is CancelOutcome.REQUESTED
    (container,) = client.containers.list()
    container.kill()
    status = end(runner, handle)
    assert (status.state, status.msg) == (AppState.CANCELLED, "first")
    assert lines(runner, handle) == [(0, "up")]


def test_a_submit_over_a_volume_without_labels(client: docker.DockerClient, runner: Runner) -> None:
    """An engine that dies while it makes a record leaves one that says nothing: it is made anew."""
    client.volumes.create(NAME)
    assert runner.list("local_docker") == []
    handle = runner.run(TWO, "local_docker", app_id="one")
    assert lines(runner, handle) == LINES
    assert end(runner, handle).state == AppState.SUCCEEDED


@pytest.mark.parametrize("kind", [store.BEGUN, store.STOP, store.FINAL])
def test_a_record_without_labels_is_written_beside(
    frail_engine: DockerEngine, client: docker.DockerClient, runner: Runner, kind: str
) -> None:
    """The first who has something to say counts all the same, and a delete removes all of it."""
    die_while_submitting(frail_engine, runner, TWO, 2)
    with closing(connected(frail_engine.url)) as engine:
        records = store.read(engine, "tests", "one")
    assert records is not None
    nonce = records.app.nonce
    client.volumes.create(f"{NAME}.{nonce}.{kind}")
    handle = runner.run(TWO, "local_docker", app_id="one")
    assert lines(runner, handle) == LINES
    assert end(runner, handle).state == AppState.SUCCEEDED
    runner.delete(handle)
    assert client.volumes.list() == []


def test_what_has_no_labels_can_be_deleted(client: docker.DockerClient, runner: Runner) -> None:
    """A submit says what to do about one that a container holds."""
    labels = of_replica("tests", "one", "worker", 0, 0)
    client.containers.create(PYTHON_IMAGE, "true", volumes=[f"{NAME}:/x"], labels=labels)
    with pytest.raises(CorruptRecordError, match=f"volume {NAME}.*delete the app"):
        runner.run(TWO, "local_docker", app_id="one")
    runner.delete(HANDLE)
    assert client.volumes.list() == client.containers.list(all=True) == []


def test_pruning_removes_records_without_labels(client: docker.DockerClient, runner: Runner) -> None:
    """Prune removes no volume that may be somebody else's, and none of an app that is there."""
    handle = runner.run(TWO, "local_docker", app_id="one")
    end(runner, handle)
    nonce = next(v.name for v in client.volumes.list() if v.name.endswith(".begun")).split(".")[1]
    kept = [f"{NAME}.{nonce}.stop", "data", "data-0123456789ab", "a.b.stop"]
    for name in [*kept, "gone-0123456789ab.0123456789ab.stop", "gone-0123456789ab.0123456789ab.owner.3"]:
        client.volumes.create(name)
    runner.prune("local_docker")
    left = {volume.name for volume in client.volumes.list()}
    assert left >= set(kept)
    assert not any(name.startswith("gone-") for name in left)
    for name in kept:
        client.volumes.get(name).remove()
