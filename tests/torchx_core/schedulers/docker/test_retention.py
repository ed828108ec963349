# pyright: reportUnknownMemberType=false
"""A submit forgets ended apps on the engine that are old, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest
from docker_apps import app, connected, end, make_runner, new_runner
from docker_engine import DockerEngine
from docker_images import SHELL_IMAGE

from torchx_core.errors import InvalidConfigError, InvalidRunConfigException
from torchx_core.runner import Runner
from torchx_core.schedulers.docker import retention
from torchx_core.schedulers.docker.labels import KIND
from torchx_core.schedulers.option_values import RETENTION_VARIABLE
from torchx_core.testing.steps import Exit, Hold

AT_ONCE = {"retention": "0s"}


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """Return a runner whose apps go with the test, and what is remembered of its session with them."""
    with new_runner(engine.url) as runner:
        yield runner
        runner.prune("local_docker")


def run(runner: Runner, app_id: str, **cfg: str) -> None:
    """Leave an app that has ended, and that somebody has seen end."""
    end(runner, runner.run(app(Exit(0)), "local_docker", cfg, app_id=app_id))


def ids(runner: Runner) -> list[str]:
    """Return the apps that there are."""
    return sorted(row.app_id for row in runner.list("local_docker"))


def test_what_is_old_goes(client: docker.DockerClient, runner: Runner) -> None:
    """With all that it has on the engine; what runs stays, and what was submitted just now."""
    run(runner, "old")
    runner.run(app(Hold()), "local_docker", app_id="lasting")
    run(runner, "fresh", retention="1h")
    assert ids(runner) == ["fresh", "lasting", "old"]
    run(runner, "next", **AT_ONCE)
    assert ids(runner) == ["lasting", "next"]
    names = [str(container.name) for container in client.containers.list(all=True)]
    assert sorted(name.partition("-")[0] for name in names) == ["lasting", "next"]


def test_whoever_attaches_keeps_the_app(runner: Runner) -> None:
    """A retry finds the app of its earlier try, however old that is, and with another retention."""
    run(runner, "mine")
    run(runner, "mine", **AT_ONCE)
    assert ids(runner) == ["mine"]


def test_whom_nobody_saw_end_is_seen_first(client: docker.DockerClient, runner: Runner) -> None:
    """Its age counts from then, as nothing else tells for how long somebody may look for it."""
    runner.run(app(Exit(0)), "local_docker", app_id="unseen")
    for container in client.containers.list(all=True):
        container.wait()
    run(runner, "second", retention="0s")
    assert [row.app_id for row in runner.list("local_docker")] == ["unseen", "second"]
    run(runner, "third", **AT_ONCE)
    assert ids(runner) == ["third"]


def test_one_that_is_held_keeps_no_other(client: docker.DockerClient, runner: Runner) -> None:
    """Somebody else's container is in its network: a later submit takes it, and none waits for it."""
    end(runner, runner.run(app(Exit(0), num_replicas=2), "local_docker", app_id="held"))
    [network] = client.networks.list(filters={"label": KIND})
    guest = client.containers.create(SHELL_IMAGE, ["sleep", "600"], network=network.name)
    try:
        guest.start()
        run(runner, "old")
        run(runner, "next", **AT_ONCE)
        assert "old" not in ids(runner)
    finally:
        guest.remove(force=True)
    run(runner, "third", **AT_ONCE)
    assert ids(runner) == ["third"]


def test_it_can_be_turned_off(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one scheduler by its option, whatever the environment says of all."""
    monkeypatch.setenv(RETENTION_VARIABLE, "0s")
    run(runner, "old")
    run(runner, "next", retention="off")
    assert ids(runner) == ["next", "old"]
    run(runner, "third")
    assert ids(runner) == ["third"]


def test_a_size_alone_is_refused() -> None:
    """It would keep everything; what is said for all schedulers may be one."""
    with (
        make_runner("unix:///nowhere") as runner,
        pytest.raises(InvalidRunConfigException, match=r"an age here.*'5GB'"),
    ):
        runner.dryrun(app(Exit(0)), "local_docker", {"retention": "5GB"})


@pytest.mark.parametrize("wrong", ["30", "10 parsecs"])
def test_a_mistake_submits_nothing(runner: Runner, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """Whoever wrote it learns of it at once, and where."""
    with pytest.raises(InvalidRunConfigException, match=f"retention.*{wrong}"):
        runner.dryrun(app(Exit(0)), "local_docker", {"retention": wrong})
    monkeypatch.setenv(RETENTION_VARIABLE, wrong)
    with pytest.raises(InvalidConfigError, match=RETENTION_VARIABLE):
        runner.run(app(Exit(0)), "local_docker")
    assert not ids(runner)


def test_a_large_session_is_looked_through_once_an_hour(
    engine: DockerEngine, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When that was is written on the engine, for submitters of other hosts; the next look replaces it."""
    monkeypatch.setattr(retention, "FEW", 0)
    run(runner, "old")
    client = connected(engine.url)
    try:
        (first,) = retention.marks(client, "tests")
        run(runner, "next", **AT_ONCE)
        assert ids(runner) == ["next", "old"]
        client.remove_volume(first)
        client.create_volume(f"{first}-earlier", {})
        run(runner, "third", **AT_ONCE)
        assert ids(runner) == ["third"]
        assert retention.marks(client, "tests") == [first]
    finally:
        client.close()
