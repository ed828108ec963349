from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from torchx_core.errors import InvalidAppError
from torchx_core.specs import (
    NULL_RESOURCE,
    AppDef,
    AppDryRunInfo,
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    Workspace,
    snapshot_app,
    validate_app,
)

T = TypeVar("T")


class ForeignRetryPolicy(str, Enum):
    """Shaped like TorchX's."""

    REPLICA = "REPLICA"


def foreign_hook(_role: object, _scheduler: str, info: object) -> object:
    """Stand for the hook of TorchX's own Role, which is known by its module."""
    return info


foreign_hook.__module__ = "torchx.specs.api"


@dataclass
class ForeignRole:
    """Shaped like TorchX's: same attributes, and a lock that cannot be copied."""

    name: str
    image: str
    entrypoint: str = "run"
    args: list[str] = field(default_factory=list[str])
    retry_policy: ForeignRetryPolicy = ForeignRetryPolicy.REPLICA
    resource: object = None
    mounts: list[object] = field(default_factory=list[object])
    workspace: object = None
    overrides: dict[str, object] = field(default_factory=lambda: {"image": lambda: "late"})
    lock: Any = field(default_factory=threading.RLock)

    pre_proc = foreign_hook


def foreign_app(**fields: Any) -> SimpleNamespace:
    """An app shaped like TorchX's, with one role that has these fields."""
    fields.setdefault("resource", SimpleNamespace(cpu=1, gpu=0, memMB=2, capabilities={}, devices={}))
    return SimpleNamespace(name="app", roles=[ForeignRole("r", "img", **fields)], metadata={"k": "v"})


@dataclass
class Loud(Role):
    """A role with a field and a hook of its own."""

    volume: int = 0

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        dryrun_info.scheduler = f"{scheduler} x{self.volume}"
        return dryrun_info


@dataclass
class Campaign(AppDef):
    """An app with a field of its own."""

    budget: int = 0


def test_foreign_app_becomes_ours() -> None:
    """An app with TorchX's attributes gives an equal app of our types, ready for any scheduler."""
    workspace = SimpleNamespace(projects={"/a": "sub"})
    mounts = [
        SimpleNamespace(src_path="/a", dst_path="/b", read_only=True),
        SimpleNamespace(src="v", dst_path="/v", read_only=False),
        SimpleNamespace(src_path="/d", dst_path="/d", permissions="r"),
    ]
    snapshot = snapshot_app(foreign_app(args=["x"], workspace=workspace, mounts=mounts))
    role = Role(
        "r",
        "img",
        entrypoint="run",
        args=["x"],
        resource=Resource(1, 0, 2),
        workspace=Workspace({"/a": "sub"}),
    )
    role.mounts = [
        BindMount("/a", "/b", read_only=True),
        VolumeMount("v", "/v"),
        DeviceMount("/d", "/d", "r"),
    ]
    role.retry_policy = RetryPolicy.REPLICA
    assert snapshot == AppDef("app", [role], {"k": "v"})
    assert type(snapshot.roles[0].mounts[1]) is VolumeMount
    validate_app(snapshot)


def test_foreign_app_is_copied() -> None:
    """Later changes of the foreign app do not reach the snapshot."""
    given = foreign_app(args=["x"])
    snapshot = snapshot_app(given)
    given.roles[0].args.append("y")
    given.metadata["new"] = "z"
    assert (snapshot.roles[0].args, snapshot.metadata) == (["x"], {"k": "v"})


def test_foreign_parts_in_our_role() -> None:
    """Mixed imports work: our Role with TorchX's resource, and TorchX's role in our app."""
    ours = Role("o", "img", resource=foreign_app().roles[0].resource)
    snapshot = snapshot_app(AppDef("app", [ours, foreign_app().roles[0]]))
    assert [type(role.resource) for role in snapshot.roles] == [Resource, Resource]


def test_subclasses_keep_their_behaviour() -> None:
    """A Role or AppDef of one's own stays what it is, fields and hooks included."""
    snapshot = snapshot_app(Campaign("app", [Loud("r", "img", volume=3)], budget=7))
    assert snapshot == Campaign("app", [Loud("r", "img", volume=3)], budget=7)
    assert snapshot.roles[0].pre_proc("local", AppDryRunInfo("request", str)).scheduler == "local x3"


def test_overrides_are_applied() -> None:
    """Overrides are the snapshot's fields, and it has none any more; whoever has the role keeps his."""
    role = Role("r", "img", overrides={"image": lambda: "other", "num_replicas": 2})
    snapshot = snapshot_app(AppDef("app", [role])).roles[0]
    assert (snapshot, snapshot.overrides) == (Role("r", "other", num_replicas=2), {})
    assert list(role.overrides) == ["image", "num_replicas"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"imagee": "x"},
            r"roles\[0\].overrides\['imagee'\]: is not a field of a role; .*did you mean 'image'",
        ),
        ({"overrides": {}}, r"overrides\['overrides'\]: is not a field"),
        (
            {"image": lambda: 1 // 0},
            r"roles\[0\].overrides\['image'\]: cannot be resolved: ZeroDivisionError",
        ),
    ],
)
def test_wrong_overrides(overrides: dict[str, object], message: str) -> None:
    """Overrides name fields, and their functions return."""
    with pytest.raises(InvalidAppError, match=message):
        snapshot_app(AppDef("app", [Role("r", "img", overrides=overrides)]))


def test_defaults_of_what_an_older_torchx_lacks() -> None:
    """Attributes that are not there have their default."""
    given = SimpleNamespace(name="app", roles=[SimpleNamespace(name="r", image="img")])
    assert snapshot_app(given) == AppDef("app", [Role("r", "img", resource=NULL_RESOURCE)])


def test_retry_policy_as_text() -> None:
    """A plain string of the right value will do."""
    role = SimpleNamespace(name="r", image="img", retry_policy="ROLE")
    assert snapshot_app(SimpleNamespace(name="a", roles=[role])).roles[0].retry_policy is RetryPolicy.ROLE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "app: must be an AppDef with a list of roles: None"),
        ("app", "must be an AppDef with a list of roles: 'app'"),
        ({"name": "app"}, "use AppDef.from_dict for a map"),
        (SimpleNamespace(roles=[]), "app: has no attribute 'name'"),
        (SimpleNamespace(name="a", roles=["r"]), r"roles\[0\]: has no attribute 'name': 'r'"),
        (foreign_app(retry_policy="NEVER"), r"roles\[0\].retry_policy: must be one of .*: 'NEVER'"),
        (foreign_app(resource="big"), r"roles\[0\].resource: has no attribute 'cpu': 'big'"),
        (foreign_app(mounts=3), r"roles\[0\].mounts: must be a list: 3"),
        (
            foreign_app(mounts=["x"]),
            r"roles\[0\].mounts\[0\]: must be a BindMount, VolumeMount or DeviceMount: 'x'",
        ),
        (foreign_app(workspace="/a"), r"roles\[0\].workspace: has no attribute 'projects'"),
        (foreign_app(args=threading.Lock()), r"roles\[0\].args: cannot be copied: cannot pickle"),
    ],
)
def test_what_is_no_app(given: object, message: str) -> None:
    """Unknown shapes are refused with the path of what is not understood."""
    with pytest.raises(InvalidAppError, match=message):
        snapshot_app(given)


def test_foreign_hook_is_not_dropped_silently() -> None:
    """A TorchX role with a hook of its own is refused: the hook would never run."""

    class Hooked(ForeignRole):
        def pre_proc(self, _scheduler: str, info: object) -> object:
            return info

    with pytest.raises(InvalidAppError, match=r"roles\[0\].pre_proc: is overridden; derive the role from"):
        snapshot_app(SimpleNamespace(name="app", roles=[Hooked("r", "img")]))
