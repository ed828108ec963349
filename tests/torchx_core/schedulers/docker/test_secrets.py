from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol, cast

import pytest
from docker_engine import DockerEngine
from docker_images import SHELL_IMAGE

from torchx_core import AppDef, Role, Runner, get_runner
from torchx_core.errors import AppIdConflictError, SubmitFailedError
from torchx_core.schedulers.docker import DockerRequest
from torchx_core.schedulers.docker.endpoint import find_endpoint
from torchx_core.schedulers.docker.sdk import sdk_client
from torchx_core.specs import AppState, CfgVal
from torchx_core.testing import wait_until

SECRET = "hunter2"  # noqa: S105  # of our own making
CFG: dict[str, CfgVal] = {"env": {"GIVEN_PASSWORD": f"{SECRET}-given"}, "copy_env": ["COPIED_*"]}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the submitter's environment has."""
    monkeypatch.setenv("COPIED_API_KEY", f"{SECRET}-copied")
    monkeypatch.setenv("COPIED_COLOUR", "blue")
    monkeypatch.setenv("OTHER_COLOUR", "red")


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner on the engine; its apps are deleted."""
    with get_runner("secrets", docker_host=engine.url) as runner:
        yield runner
        for app in runner.list("local_docker"):
            runner.cancel(app.app_handle, grace_s=0)
            wait_until(partial(ended, runner, app.app_handle), 240)
            runner.delete(app.app_handle)


def app_of(script: str = "exit 0", secret: str = SECRET) -> AppDef:
    """Return an app of one shell script that knows a secret."""
    env = {"OWN_TOKEN": secret, "PLAIN": "visible"}
    role = Role(name="main", image=SHELL_IMAGE, entrypoint="sh", args=["-c", script], env=env)
    return AppDef(name="secretive", roles=[role])


def ended(runner: Runner, handle: str) -> bool:
    """Return whether the app is terminal."""
    status = runner.status(handle)
    return status is not None and status.is_terminal()


def environment_of(request: object) -> dict[str, str]:
    """Return the environment of the only container that the request asks for."""
    (container,) = cast("DockerRequest", request).containers
    pairs = [pair.partition("=") for pair in cast("list[str]", container.config["Env"])]
    return {name: value for name, _, value in pairs}


# --- what is shown


def test_the_dry_run_hides_what_is_submitted() -> None:
    """The request holds every value, its text none that looks secret; no engine is needed for either."""
    with get_runner(docker_host="unix:///nowhere.sock") as runner:
        info = runner.dryrun(app_of(), "local_docker", CFG)
    env = environment_of(info.request)
    submitted = [env[name] for name in ("OWN_TOKEN", "GIVEN_PASSWORD", "COPIED_API_KEY")]
    assert submitted == [SECRET, f"{SECRET}-given", f"{SECRET}-copied"]
    assert SECRET not in str(info)
    assert "PLAIN=visible" in str(info)
    assert "OWN_TOKEN=***" in str(info)


@pytest.mark.parametrize(
    ("patterns", "copied"),
    [
        (["COPIED_*"], {"COPIED_API_KEY", "COPIED_COLOUR"}),
        (["*_COLOUR"], {"COPIED_COLOUR", "OTHER_COLOUR"}),
        (["COPIED_COLOUR", "OTHER_?OLOUR"], {"COPIED_COLOUR", "OTHER_COLOUR"}),
        (["COPIED"], set[str]()),
        ([], set[str]()),
    ],
)
def test_patterns_of_what_to_copy(patterns: list[str], copied: set[str]) -> None:
    """Copied is what fits one of the patterns as a whole, and nothing else of the environment."""
    with get_runner(docker_host="unix:///nowhere.sock") as runner:
        info = runner.dryrun(app_of(), "local_docker", {"copy_env": patterns})
    env = environment_of(info.request)
    names = {"COPIED_API_KEY", "COPIED_COLOUR", "OTHER_COLOUR"}
    assert names & set(env) == copied
    assert "PATH" not in env


def test_the_app_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the role wins over ``env``, and that over one that is copied."""
    for name in ("COPIED_A", "COPIED_B", "COPIED_C"):
        monkeypatch.setenv(name, "copied")
    app = app_of()
    app.roles[0].env |= {"COPIED_A": "role"}
    cfg: Mapping[str, CfgVal] = {"copy_env": ["COPIED_*"], "env": {"COPIED_A": "env", "COPIED_B": "env"}}
    with get_runner(docker_host="unix:///nowhere.sock") as runner:
        env = environment_of(runner.dryrun(app, "local_docker", cfg).request)
    assert (env["COPIED_A"], env["COPIED_B"], env["COPIED_C"]) == ("role", "env", "copied")


# --- what reaches the engine


def test_the_program_gets_the_values(runner: Runner) -> None:
    """Masking is for the eyes: the program has every value as it is."""
    script = f'[ "$OWN_TOKEN$GIVEN_PASSWORD$COPIED_API_KEY" = {SECRET}{SECRET}-given{SECRET}-copied ]'
    handle = runner.run(app_of(script), "local_docker", CFG)
    wait_until(lambda: ended(runner, handle), 240)
    status = runner.status(handle)
    assert status is not None
    assert status.state is AppState.SUCCEEDED, status


def test_no_label_holds_a_value(runner: Runner, engine: DockerEngine) -> None:
    """On the engine the values are in the container's environment and nowhere else."""
    runner.run(app_of("sleep 100"), "local_docker", CFG)
    sdk = cast("Sdk", sdk_client(find_endpoint(engine.url, {})))
    (container,) = [sdk.inspect_container(row["Id"]) for row in sdk.containers()]
    in_its_environment = container["Config"].pop("Env")
    stored = json.dumps([container, sdk.volumes(), sdk.networks()])
    sdk.close()
    assert SECRET in str(in_its_environment)
    assert "torchx-core." in stored
    assert SECRET not in stored


class Sdk(Protocol):
    """What is called here of ``docker.APIClient``, which has no types."""

    def containers(self) -> list[dict[str, str]]: ...
    def inspect_container(self, container: str) -> dict[str, dict[str, object]]: ...
    def volumes(self) -> object: ...
    def networks(self) -> object: ...
    def close(self) -> None: ...


def test_the_description_is_masked(runner: Runner) -> None:
    """The app as it comes back has the names, and says which values it does not."""
    handle = runner.run(app_of("sleep 100"), "local_docker", CFG)
    app = runner.describe(handle)
    assert app is not None
    assert (app.roles[0].env["OWN_TOKEN"], app.roles[0].env["PLAIN"]) == ("***", "visible")


# --- what is compared, logged and raised


def test_another_secret_is_another_request(runner: Runner) -> None:
    """An equal secret attaches; another is a conflict that names the variable and neither value."""
    handle = runner.run(app_of("sleep 100"), "local_docker", CFG, app_id="one")
    assert runner.run(app_of("sleep 100"), "local_docker", CFG, app_id="one") == handle
    with pytest.raises(AppIdConflictError, match="OWN_TOKEN") as caught:
        runner.run(app_of("sleep 100", secret=f"{SECRET}-rotated"), "local_docker", CFG, app_id="one")
    assert SECRET not in f"{caught.value} {caught.value.to_json()}"


def test_nothing_is_logged(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """Not even the most talkative logging, the Docker SDK's included, has a value."""
    caplog.set_level(logging.DEBUG)
    handle = runner.run(app_of("sleep 100"), "local_docker", CFG)
    runner.cancel(handle, grace_s=0)
    wait_until(lambda: ended(runner, handle), 240)
    assert caplog.records
    assert SECRET not in caplog.text


@pytest.mark.parametrize("wrong", ["network", "image"])
def test_an_error_of_the_engine_has_no_value(runner: Runner, wrong: str) -> None:
    """What the engine refuses is told without the environment."""
    app, cfg = app_of(), dict(CFG)
    if wrong == "network":
        cfg["network"] = "no-such-network"
    else:
        app.roles[0].image, cfg["pull"] = "no-such-image", "never"
    with pytest.raises(SubmitFailedError) as caught:
        runner.run(app, "local_docker", cfg)
    assert SECRET not in f"{caught.value} {caught.value.to_json()}"
