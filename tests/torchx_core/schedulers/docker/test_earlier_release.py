"""An app of the release before this one, of which only the record is there, on a real engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from docker_apps import SESSION, connected, end, new_runner
from docker_engine import DockerEngine
from docker_images import SHELL_IMAGE
from earlier_records import WORDS_OF_DOCKER, asked_by_docker

from torchx_core import AppState
from torchx_core.errors import AppIdConflictError
from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.difference import request_differences
from torchx_core.schedulers.docker import DockerRequest, records
from torchx_core.schedulers.docker.request import comparable_request, remasked
from torchx_core.schedulers.options.docker import docker_run_opts
from torchx_core.specs import AppDef, Role


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps go with the test."""
    with new_runner(engine.url) as runner:
        yield runner


@pytest.fixture
def data() -> Iterator[Path]:
    """The directory that the app mounts."""
    path = Path.home() / "data"
    path.mkdir()
    yield path
    path.rmdir()


@pytest.mark.usefixtures("data")
@pytest.mark.timeout(900)
def test_a_docker_app_of_the_release_before_goes_on(engine: DockerEngine, runner: Runner) -> None:
    """A repeated submit completes what the earlier release wrote; status, lines and cancel work as ever."""
    words = ["--image", SHELL_IMAGE, *WORDS_OF_DOCKER]
    request = runner.dryrun_component("utils.sh", words, "local_docker", {}, app_id="one").request
    assert isinstance(request, DockerRequest)
    planned = {"index": 0, "role": "sh", "replica": 0, "policy": "APPLICATION", "max_retries": 0}
    replica = {**planned, "container": request.containers[0].planned.container, "by_engine": False}
    spec = {
        "nonce": "9a3f",
        "salt": "5a17",
        "submitted_at": time.time(),
        "asked": asked_by_docker(SESSION, SHELL_IMAGE),
        "replicas": [replica],
    }
    records.create(connected(engine.url), SESSION, "one", spec)
    handle = runner.run_component("utils.sh", words, "local_docker", {}, app_id="one")
    assert [line.text for batch in runner.follow(handle) for line in batch.lines()] == ["hello"]
    assert end(runner, handle).state == AppState.SUCCEEDED
    assert runner.cancel(handle) == CancelOutcome.ALREADY_TERMINAL
    with pytest.raises(AppIdConflictError, match="args"):
        runner.run_component("utils.sh", [*words, "more"], "local_docker", {}, app_id="one")


@pytest.mark.parametrize(("value", "same"), [("false", True), ("true", False)])
def test_what_an_earlier_release_took_for_a_secret_is_compared_by_its_digest(
    *, value: str, same: bool
) -> None:
    """It stored no value of ``TOKENIZERS_PARALLELISM``; the same request attaches to the app all the same."""

    def app(parallel: str) -> AppDef:
        return AppDef("a", [Role("r", "", env={"TOKENIZERS_PARALLELISM": parallel})])

    stored = comparable_request(app("false"), {}, "salt", {"r.env.TOKENIZERS_PARALLELISM"})
    told = AppDef.from_dict(cast("dict[str, object]", stored["app"]))
    assert told.roles[0].env == {"TOKENIZERS_PARALLELISM": "***"}
    asked = comparable_request(app(value), {}, "salt", cast("dict[str, str]", stored["secrets"]))
    found = request_differences(remasked(told, stored, "salt"), asked, docker_run_opts())
    assert (found == []) is same
