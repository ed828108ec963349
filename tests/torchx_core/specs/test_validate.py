from __future__ import annotations

from typing import Any

import pytest

from torchx_core.errors import InvalidAppError
from torchx_core.specs import (
    MISSING,
    AppDef,
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    Workspace,
    validate_app,
)


def app(**fields: Any) -> AppDef:
    """A valid app but for these fields of its role."""
    role = Role("r", "img", entrypoint="run")
    for name, value in fields.items():
        setattr(role, name, value)
    return AppDef("app", roles=[role])


def test_a_valid_app() -> None:
    """A role that uses everything passes."""
    validate_app(
        app(
            min_replicas=2,
            num_replicas=2,
            args=["${app_id}", ""],
            env={"A": "", "b.c": "x=y"},
            max_retries=3,
            retry_policy=RetryPolicy.ROLE,
            resource=Resource(1, 0, 64, {"a": [1, None]}, {"efa": 1}, {"name": "x"}),
            port_map={"low": 1, "high": 65535},
            metadata={"k": {"l": [1.5, True, None]}},
            mounts=[
                BindMount("/a", "/b"),
                VolumeMount("v", "/v", read_only=True),
                DeviceMount("/d", "/d", "r"),
            ],
            workspace=Workspace({"/a": ""}),
        )
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("app", r"app: must be a AppDef of torchx_core.specs: 'app'"),
        (AppDef("app"), "roles: an app needs at least one role"),
        (AppDef("", [Role("r", "i", entrypoint="x")]), "name: must not be empty"),
        (AppDef("a\0b", [Role("r", "i", entrypoint="x")]), "name: must not have a NUL byte"),
        (AppDef("a", ["r"]), r"roles\[0\]: must be a Role"),  # type: ignore[list-item]
        (AppDef("a", None), "roles: must be a list: None"),  # type: ignore[arg-type]
        (AppDef("a", [Role("r", "i", entrypoint="x")], {"k": 1}), r"metadata\['k'\]: must be a string"),  # type: ignore[dict-item]
        (
            AppDef("a", [Role("r", "i", entrypoint="x")] * 2),
            r"roles\[1\].name: 'r' is the name of roles\[0\] already",
        ),
    ],
)
def test_invalid_apps(given: AppDef, message: str) -> None:
    """What is wrong with the app itself is named with its path."""
    with pytest.raises(InvalidAppError, match=message):
        validate_app(given)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "", r"roles\[0\].name: must not be empty"),
        ("name", "a/b", r"roles\[0\].name: must not have '/' or control characters: 'a/b'"),
        ("name", "a\nb", "control characters"),
        ("name", None, "must be a string: None"),
        ("image", None, r"roles\[0\].image: must be a string"),
        ("image", "a\0", r"roles\[0\].image: must not have a NUL byte"),
        ("entrypoint", "", r"roles\[0\].entrypoint: is not set; name the program to run"),
        ("entrypoint", MISSING, r"roles\[0\].entrypoint: is not set"),
        ("args", "abc", r"roles\[0\].args: must be a list: 'abc'"),
        ("args", ["a", 1], r"roles\[0\].args\[1\]: must be a string: 1"),
        ("args", ["a\0"], r"roles\[0\].args\[0\]: must not have a NUL byte"),
        ("env", ["A=1"], r"roles\[0\].env: must be a map"),
        ("env", {"A": 1}, r"roles\[0\].env\['A'\]: must be a string: 1"),
        ("env", {1: "A"}, r"roles\[0\].env key: must be a string: 1"),
        ("env", {"": "x"}, "not a name of an environment variable: ''"),
        ("env", {"A=B": "x"}, "not a name of an environment variable: 'A=B'"),
        ("env", {"A\0": "x"}, "not a name of an environment variable"),
        ("env", {"A": "x\0"}, r"roles\[0\].env\['A'\]: must not have a NUL byte"),
        ("num_replicas", 0, r"roles\[0\].num_replicas: must be at least 1: 0"),
        ("num_replicas", 1.0, r"roles\[0\].num_replicas: must be an integer: 1.0"),
        ("num_replicas", True, r"roles\[0\].num_replicas: must be an integer: True"),
        ("min_replicas", 0, r"roles\[0\].min_replicas: must be at least 1: 0"),
        ("min_replicas", 2, r"roles\[0\].min_replicas: must not exceed num_replicas \(1\): 2"),
        ("max_retries", -1, r"roles\[0\].max_retries: must be at least 0: -1"),
        ("retry_policy", "REPLICA", r"roles\[0\].retry_policy: must be a RetryPolicy"),
        ("resource", None, r"roles\[0\].resource: must be a Resource"),
        ("resource", Resource("1", 0, 0), r"resource.cpu: must be an integer: '1'"),  # type: ignore[arg-type]
        ("resource", Resource(1, 0.5, 0), r"resource.gpu: must be an integer"),  # type: ignore[arg-type]
        ("resource", Resource(1, 0, None), r"resource.memMB: must be an integer"),  # type: ignore[arg-type]
        ("resource", Resource(1, 0, 1, devices={"x": "1"}), r"devices\['x'\]: must be an"),  # type: ignore[dict-item]
        (
            "resource",
            Resource(1, 0, 1, capabilities={"x": object()}),
            r"capabilities\['x'\]: must be plain data",
        ),
        ("resource", Resource(1, 0, 1, tags={"x": {1}}), r"tags\['x'\]: must be plain data"),
        ("port_map", {"http": 0}, r"roles\[0\].port_map\['http'\]: must be a port from 1 to 65535: 0"),
        ("port_map", {"http": 65536}, "must be a port from 1 to 65535: 65536"),
        ("port_map", {"http": "80"}, "must be an integer: '80'"),
        ("metadata", {"k": object()}, r"roles\[0\].metadata\['k'\]: must be plain data"),
        ("metadata", {1: "k"}, r"roles\[0\].metadata key: must be a string"),
        ("mounts", None, r"roles\[0\].mounts: must be a list"),
        (
            "mounts",
            ["type=bind"],
            r"roles\[0\].mounts\[0\]: must be a BindMount, VolumeMount or DeviceMount: 'type",
        ),
        ("mounts", [BindMount("", "/b")], r"mounts\[0\].src_path: must not be empty"),
        ("mounts", [BindMount("/a", "")], r"mounts\[0\].dst_path: must not be empty"),
        ("mounts", [BindMount("/a", "/b", 1)], r"mounts\[0\].read_only: must be true or false"),  # type: ignore[arg-type]
        ("mounts", [VolumeMount("", "/b")], r"mounts\[0\].src: must not be empty"),
        ("mounts", [DeviceMount("", "/b")], r"mounts\[0\].src_path: must not be empty"),
        (
            "mounts",
            [DeviceMount("/a", "/b", "x")],
            r"mounts\[0\].permissions: must be some of the letters r, w, m: 'x'",
        ),
        ("mounts", [DeviceMount("/a", "/b", "")], "must be some of the letters"),
        ("workspace", "/a", r"roles\[0\].workspace: must be a Workspace"),
        ("workspace", Workspace({"/a": None}), r"workspace.projects\['/a'\]: must be a str"),  # type: ignore[dict-item]
    ],
)
def test_invalid_roles(field: str, value: object, message: str) -> None:
    """What is wrong with a role is named with its path, its value and what was expected."""
    with pytest.raises(InvalidAppError, match=message):
        validate_app(app(**{field: value}))
