"""An app of the real TorchX is accepted wherever one of ours is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from torchx_core import get_runner
from torchx_core.errors import InvalidAppError
from torchx_core.specs import (
    PUT,
    AppDef,
    AppState,
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    Workspace,
    get_overlay,
    snapshot_app,
    validate_app,
)

upstream: Any = import_module("torchx.specs")
components: Any = import_module("torchx.components.utils")
dist: Any = import_module("torchx.components.dist")


def full_app() -> Any:
    """An app of TorchX in which no field has its default."""
    role = upstream.Role(
        name="trainer",
        image="img:1",
        min_replicas=1,
        entrypoint="sh",
        args=["-c", "echo $$HOME ${app_id}"],
        env={"KEY": "${replica_id}"},
        num_replicas=2,
        max_retries=3,
        retry_policy=upstream.RetryPolicy.REPLICA,
        resource=upstream.Resource(
            cpu=1, gpu=2, memMB=3, capabilities={"c": 1}, devices={"efa": 4}, tags={"t": True}
        ),
        port_map={"http": 8080},
        metadata={"slurm": {"partition": ["a", "b"]}},
        mounts=[
            upstream.BindMount("/src", "/dst", read_only=True),
            upstream.VolumeMount("data", "/data"),
            upstream.DeviceMount("/dev/null", "/dev/zero", permissions="r"),
        ],
        workspace=upstream.Workspace({"/project": "sub"}),
    )
    return upstream.AppDef("full", [role], {"team": "vision"})


def our_full_app() -> AppDef:
    """Return the app of `full_app`, written with our own classes."""
    role = Role(
        name="trainer",
        image="img:1",
        min_replicas=1,
        entrypoint="sh",
        args=["-c", "echo $$HOME ${app_id}"],
        env={"KEY": "${replica_id}"},
        num_replicas=2,
        max_retries=3,
        retry_policy=RetryPolicy.REPLICA,
        resource=Resource(cpu=1, gpu=2, memMB=3, capabilities={"c": 1}, devices={"efa": 4}, tags={"t": True}),
        port_map={"http": 8080},
        metadata={"slurm": {"partition": ["a", "b"]}},
        mounts=[
            BindMount("/src", "/dst", read_only=True),
            VolumeMount("data", "/data"),
            DeviceMount("/dev/null", "/dev/zero", permissions="r"),
        ],
        workspace=Workspace({"/project": "sub"}),
    )
    return AppDef("full", [role], {"team": "vision"})


def with_override(**overrides: Any) -> Any:
    """An app of TorchX whose role overrides fields."""
    role = upstream.Role("r", "authored", entrypoint="true", overrides=overrides)
    return upstream.AppDef("overridden", [role])


def test_every_field_is_taken_over() -> None:
    """Into this package's own types, nested ones included."""
    assert snapshot_app(full_app()) == our_full_app()


def test_what_is_taken_over_is_a_copy() -> None:
    """A change to either app does not reach the other."""
    given = full_app()
    app = snapshot_app(given)
    given.roles[0].metadata["slurm"]["partition"].append("c")
    assert app == our_full_app()
    app.roles[0].env["KEY"] = "changed"
    assert given.roles[0].env == {"KEY": "${replica_id}"}


def test_it_can_be_validated_and_written_down() -> None:
    """The snapshot is valid, and reads back from YAML and JSON as it is."""
    app = snapshot_app(full_app())
    validate_app(app)
    assert AppDef.from_yaml(app.to_yaml()) == app
    assert AppDef.from_json(app.to_json()) == app


def test_overrides_are_resolved() -> None:
    """A function and a coroutine, each once, however often the app is used."""
    calls: list[str] = []

    def late() -> str:
        calls.append("late")
        return "late"

    async def later() -> int:
        return await asyncio.sleep(0, 3)

    app = with_override(image=late, num_replicas=later())
    for _ in range(2):
        role = snapshot_app(app).roles[0]
        assert (role.image, role.num_replicas, role.overrides) == ("late", 3, {})
    assert calls == ["late"]


@pytest.mark.parametrize("error", [RuntimeError("no image yet"), AttributeError("no image yet")])
def test_an_override_that_fails_is_named(error: Exception) -> None:
    """Its error is not taken for an absent field, whose default would be used in its place."""

    def fail() -> str:
        raise error

    with pytest.raises(InvalidAppError, match=r"roles\[0\].overrides\['image'\].*no image yet"):
        snapshot_app(with_override(image=fail))


def test_a_hook_of_the_users_own_is_refused() -> None:
    """`pre_proc` gets the scheduler's request, and ours are not TorchX's."""

    class Hooked(upstream.Role):  # type: ignore[misc]  # TorchX has no types
        def pre_proc(self, scheduler: str, dryrun_info: Any) -> Any:
            del scheduler
            return dryrun_info

    with pytest.raises(InvalidAppError, match=r"roles\[0\].pre_proc"):
        snapshot_app(upstream.AppDef("hooked", [Hooked("r", "", entrypoint="true")]))


@pytest.mark.parametrize("name", sorted(upstream.named_resources))
def test_every_named_resource_is_taken_over(name: str) -> None:
    """With its devices, capabilities and the tag that holds its name."""
    given = upstream.resource(h=name)
    app = snapshot_app(upstream.AppDef("a", [upstream.Role("r", "", entrypoint="true", resource=given)]))
    validate_app(app)
    assert vars(app.roles[0].resource) == vars(given)
    assert AppDef.from_yaml(app.to_yaml()) == app


def test_roles_of_both_kinds_may_be_mixed() -> None:
    """In an app of either kind, and parts of TorchX in a role of ours."""
    theirs = upstream.Role("theirs", "", entrypoint="true")
    ours = Role("ours", "", entrypoint="true")
    ours.resource = upstream.Resource(cpu=1, gpu=0, memMB=2)
    ours.mounts = [upstream.BindMount("/a", "/b")]
    ours.workspace = upstream.Workspace({"/p": ""})
    ours.retry_policy = upstream.RetryPolicy.ROLE
    for mixed in (AppDef("mixed", [theirs, ours]), upstream.AppDef("mixed", [theirs, ours])):
        app = snapshot_app(mixed)
        validate_app(app)
        assert [type(role) for role in app.roles] == [Role, Role]
        assert app.roles[1].resource == Resource(cpu=1, gpu=0, memMB=2)
        assert app.roles[1].mounts == [BindMount("/a", "/b")]
        assert app.roles[1].workspace == Workspace({"/p": ""})
        assert app.roles[1].retry_policy is RetryPolicy.ROLE


@pytest.mark.parametrize("scheduler", ["local_cwd", "torchx:local_cwd"])
def test_an_app_of_a_torchx_component_runs(scheduler: str) -> None:
    """On our scheduler and on TorchX's own."""
    with get_runner("components") as runner:
        handle = runner.run(components.echo("hello from TorchX"), scheduler)
        assert list(runner.log_lines(handle, "echo", should_tail=True)) == ["hello from TorchX\n"]
        status = runner.wait(handle)
        assert status is not None
        assert status.state is AppState.SUCCEEDED
        described = runner.describe(handle)
        assert described is not None
        assert described.roles[0].args == ["hello from TorchX"]
        runner.delete(handle)


def test_an_app_of_the_distributed_component_is_valid() -> None:
    """With its ports, its shell command and the macros in it."""
    app = snapshot_app(dist.torchrun("--lr", "0.1", script="train.py", j="2x4", gpu=4, memMB=1024))
    validate_app(app)
    assert (app.roles[0].num_replicas, app.roles[0].resource.gpu) == (2, 4)
    assert AppDef.from_yaml(app.to_yaml()) == app


def test_importing_the_core_never_imports_torchx() -> None:
    """Listing schedulers, or taking over an app that only looks like TorchX's, does not import it either."""
    program = (
        "import sys, torchx_core, torchx_core.cli, torchx_core.compat\n"
        "from torchx_core import get_runner\n"
        "names = get_runner().scheduler_backends()\n"
        "assert 'torchx:slurm' in names, names\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'torchx']\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_overlays_are_taken_over() -> None:
    """As TorchX stored them, operators included; ours reads them back alike."""
    theirs: Any = import_module("torchx.specs.overlays")
    role = upstream.Role("r", "", entrypoint="true")
    theirs.set_overlay(role, "kubernetes", "V1Pod", {"spec": {"a": 1, theirs.PUT("b"): [2]}})
    given = upstream.AppDef("overlaid", [role])
    theirs.set_overlay(given, "slurm", "Job", {"nice": {"level": 1}})
    app = snapshot_app(given)
    validate_app(app)
    assert get_overlay(app.roles[0], "kubernetes", "V1Pod") == {"spec": {"a": 1, PUT("b"): [2]}}
    assert get_overlay(app, "slurm", "Job") == {"nice": {"level": 1}}
    assert AppDef.from_yaml(app.to_yaml()) == app
