"""What TorchX's page says of its Docker scheduler holds on an engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from docker_engine import DockerEngine
from docker_images import SHELL_IMAGE

from torchx_core.schedulers import Stream
from torchx_core.schedulers.docker_scheduler import DockerScheduler, has_docker
from torchx_core.specs import AppDef, AppState, Role, macros
from torchx_core.testing import wait_until


@pytest.fixture
def scheduler(engine: DockerEngine) -> Iterator[DockerScheduler]:
    """Return a scheduler on the engine; its apps are removed after the test."""
    with closing(DockerScheduler("page", docker_host=engine.url)) as made:
        yield made
        for app in made.list():
            made.cancel(app.app_id, grace_s=0)
            list(made.log_iter(app.app_id, "r", should_tail=True))
            made.delete(app.app_id)


def app(text: str, **role: object) -> AppDef:
    """Return an app that runs a shell's script."""
    fields: dict[str, object] = {
        "name": "r",
        "image": SHELL_IMAGE,
        "entrypoint": "sh",
        "args": ["-c", text],
        **role,
    }
    return AppDef("app", [Role(**fields)])  # type: ignore[arg-type]  # the tests pass what Role takes


def test_whether_there_is_an_engine(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that answers, and the package to ask it."""
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    assert has_docker()
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    assert not has_docker()
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "docker", None)
        assert not has_docker()


def test_a_scheduled_dry_run_runs(scheduler: DockerScheduler) -> None:
    """It has an id, is described, and is listed with its state."""
    info = scheduler.submit_dryrun(app("echo hello"), {})
    assert not scheduler.exists(info.request.app_id)
    app_id = scheduler.schedule(info)
    assert list(scheduler.log_iter(app_id, "r", should_tail=True)) == ["hello\n"]
    described = scheduler.describe(app_id)
    assert described is not None
    assert (described.app_id, described.state) == (app_id, AppState.SUCCEEDED)
    assert [(role.name, role.num_replicas) for role in described.roles] == [("r", 1)]
    assert [replica.state for role in described.roles_statuses for replica in role.replicas] == [
        AppState.SUCCEEDED
    ]
    assert [(each.app_id, each.state) for each in scheduler.list()] == [(app_id, AppState.SUCCEEDED)]


def test_a_request_may_be_changed_before_it_is_scheduled(scheduler: DockerScheduler) -> None:
    """What a scheduler takes and an app cannot say."""
    info = scheduler.submit_dryrun(app("hostname"), {})
    info.request.containers[0].config["Hostname"] = "changed"
    app_id = scheduler.schedule(info)
    assert list(scheduler.log_iter(app_id, "r", should_tail=True)) == ["changed\n"]


def test_an_unknown_app_has_no_description(scheduler: DockerScheduler) -> None:
    """None stands for it, and to cancel it is no error."""
    assert scheduler.describe("nothing") is None
    scheduler.cancel("nothing")


def test_each_replica_and_stream_can_be_read(scheduler: DockerScheduler) -> None:
    """By the replica's number, by stream, and by what is in the line."""
    app_id = scheduler.submit(app(f"echo out {macros.replica_id}; echo err >&2", num_replicas=2))
    assert list(scheduler.log_iter(app_id, "r", 1, should_tail=True, streams=Stream.STDOUT)) == ["out 1\n"]
    assert list(scheduler.log_iter(app_id, "r", 0, "e.r", should_tail=True)) == ["err\n"]
    assert list(scheduler.log_iter(app_id, "r", 0, streams=Stream.STDERR)) == ["err\n"]


def test_what_was_cancelled_is_cancelled(scheduler: DockerScheduler) -> None:
    """And runs until then."""
    app_id = scheduler.submit(app("echo up; sleep 600"))
    assert next(scheduler.log_iter(app_id, "r", should_tail=True)) == "up\n"
    before = scheduler.describe(app_id)
    scheduler.cancel(app_id, grace_s=0)
    assert before is not None
    assert before.state == AppState.RUNNING
    wait_until(lambda: (now := scheduler.describe(app_id)) is not None and now.state == AppState.CANCELLED)
