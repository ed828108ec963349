"""TorchX's page of the Docker scheduler: what it says of requests; on an engine see ``schedulers/docker``."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from typing import Any, cast

import pytest
from local_apps import app_of
from torchx_sides import MISSING, accepts, ours, theirs

from torchx_core.schedulers import DescribeAppResponse
from torchx_core.schedulers.docker_scheduler import DockerJob, DockerScheduler, create_scheduler
from torchx_core.specs import AppDef, CfgVal, DeviceMount, Role, get_type_name, parse_mounts


def config(cfg: dict[str, CfgVal] | None = None, **role: Any) -> dict[str, Any]:
    """Return what the engine would be asked for, for the one container of such a role."""
    given = app_of("true", **{"image": "img:1", **role})
    with closing(DockerScheduler("session")) as scheduler:
        (container,) = scheduler.submit_dryrun(given, cfg or {}).request.containers
    return cast("dict[str, Any]", container.config)


def test_the_scheduler_is_made_so() -> None:
    """Of a session alone, and by a factory with any parameters besides."""
    assert accepts(DockerScheduler.__init__, [("session_name", MISSING)])
    assert accepts(create_scheduler, [("session_name", MISSING)])
    with closing(create_scheduler("session", anything="else")) as scheduler:
        assert isinstance(scheduler, DockerScheduler)


def test_it_has_the_name_local_docker() -> None:
    """By which it is chosen."""
    assert "local_docker" in ours("schedulers.get_scheduler_factories")()
    assert "local_docker" in theirs("schedulers.get_scheduler_factories")()


@pytest.mark.parametrize(("name", "kind"), [("copy_env", "list[str]"), ("image_repo", "str")])
def test_an_option(name: str, kind: str) -> None:
    """Its type; it is not set by default. The same in TorchX."""
    for factory in (create_scheduler, theirs("schedulers.docker_scheduler.create_scheduler")):
        option = dict(factory("session").run_opts())[name]
        assert (get_type_name(option.opt_type), option.default, option.is_required) == (kind, None, False)


def test_the_image_is_the_roles() -> None:
    """As Docker knows it."""
    assert config(image="busybox:9")["Image"] == "busybox:9"


@pytest.mark.parametrize(
    ("patterns", "env", "shown"),
    [
        (["FOO_*"], {}, {"FOO_A": "1", "FOO_B": "2"}),
        (["FOO_A", "BAR"], {}, {"FOO_A": "1", "BAR": "3"}),
        (["FOO_*"], {"FOO_A": "role"}, {"FOO_A": "role", "FOO_B": "2"}),
        ([], {}, {}),
    ],
)
def test_variables_are_copied(
    monkeypatch: pytest.MonkeyPatch, patterns: list[str], env: dict[str, str], shown: dict[str, str]
) -> None:
    """Those that a pattern names, unless the role sets them itself."""
    for name, value in {"FOO_A": "1", "FOO_B": "2", "BAR": "3"}.items():
        monkeypatch.setenv(name, value)
    pairs = dict(pair.split("=", 1) for pair in config({"copy_env": patterns}, env=env)["Env"])
    assert {name: value for name, value in pairs.items() if name in ("FOO_A", "FOO_B", "BAR")} == shown


MOUNTS = {
    "bind": (["type=bind", "src=/host", "dst=/inside"], ("bind", "/host", "/inside", False)),
    "bind, read only": (
        ["type=bind", "src=/host", "dst=/inside", "readonly"],
        ("bind", "/host", "/inside", True),
    ),
    "volume": (["type=volume", "src=name", "dst=/inside"], ("volume", "name", "/inside", False)),
    "volume, read only": (
        ["type=volume", "src=name", "dst=/inside", "readonly"],
        ("volume", "name", "/inside", True),
    ),
}


@pytest.mark.parametrize("name", MOUNTS)
def test_a_mount_reaches_the_engine(name: str) -> None:
    """Kind, source, target, and whether it is read only; written as TorchX writes it."""
    words, (kind, source, target, read_only) = MOUNTS[name]
    mounts = config(mounts=parse_mounts(words))["HostConfig"]["Mounts"]
    assert {"Type": kind, "Source": source, "Target": target, "ReadOnly": read_only}.items() <= {
        "ReadOnly": False,
        **mounts[-1],
    }.items()
    (parsed,), (expected,) = parse_mounts(words), theirs("specs.parse_mounts")(words)
    assert dataclasses.asdict(parsed) == dataclasses.asdict(expected)


@pytest.mark.parametrize(
    ("words", "device"),
    [
        (["type=device", "src=/dev/fuse"], ("/dev/fuse", "/dev/fuse", "rwm")),
        (["type=device", "src=/dev/a", "dst=/dev/b"], ("/dev/a", "/dev/b", "rwm")),
        (["type=device", "src=/dev/a", "dst=/dev/b", "permissions=r"], ("/dev/a", "/dev/b", "r")),
    ],
)
def test_a_device_reaches_the_engine(words: list[str], device: tuple[str, str, str]) -> None:
    """By its own name unless it is given another; readable, writable and to be made unless that is said."""
    (found,) = config(mounts=parse_mounts(words))["HostConfig"]["Devices"]
    assert (found["PathOnHost"], found["PathInContainer"], found["CgroupPermissions"]) == device
    # the page's `permissions` is `perm` to the installed TorchX
    (expected,) = theirs("specs.parse_mounts")([word.replace("permissions", "perm") for word in words])
    (parsed,) = parse_mounts(words)
    assert parsed == DeviceMount(*device)
    assert dataclasses.asdict(parsed) == dataclasses.asdict(expected)


def test_a_job_has_an_id_and_containers() -> None:
    """One for each replica of each role; a job can be made of them."""
    given = AppDef("app", [Role(name, "img", entrypoint="true", num_replicas=2) for name in "ab"])
    with closing(DockerScheduler("session")) as scheduler:
        request = scheduler.submit_dryrun(given, {}).request
    assert isinstance(request, DockerJob)
    job = DockerJob(request.app_id, request.containers)
    assert (job.app_id, len(job.containers)) == (request.app_id, 4)
    assert {container.image for container in job.containers} == {"img"}
    fields = [field.name for field in dataclasses.fields(theirs("schedulers.docker_scheduler.DockerJob"))]
    assert [field.name for field in dataclasses.fields(DockerJob)] == fields


@pytest.mark.parametrize(
    "capability", ["tail", "cancelled_state", "mounts", "workspaces", "separate_streams"]
)
def test_what_it_can_do(capability: str) -> None:
    """Logs, cancelling, mounts and workspaces are there."""
    assert getattr(DockerScheduler.capabilities, capability)


@pytest.mark.parametrize("method", ["describe", "list", "log_iter", "schedule", "cancel", "exists"])
def test_what_can_be_done_with_it(method: str) -> None:
    """By TorchX's names."""
    assert callable(getattr(DockerScheduler, method))
    assert callable(getattr(theirs("schedulers.docker_scheduler.DockerScheduler"), method))


def test_a_description_is_that_of_every_scheduler() -> None:
    """One class for all."""
    assert ours("schedulers.api.DescribeAppResponse") is DescribeAppResponse
