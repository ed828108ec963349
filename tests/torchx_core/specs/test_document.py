from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from app_strategies import apps
from hypothesis import given

from torchx_core.errors import InvalidAppError
from torchx_core.specs import (
    AppDef,
    RetryPolicy,
    Role,
    VolumeMount,
    Workspace,
    macros,
    snapshot_app,
    validate_app,
)


@given(apps)
def test_round_trips(app: AppDef) -> None:
    """Any valid app survives YAML, JSON and plain values unchanged."""
    validate_app(app)
    assert AppDef.from_yaml(app.to_yaml()) == app
    assert AppDef.from_json(app.to_json()) == app
    assert AppDef.from_dict(app.to_dict()) == app


@given(apps)
def test_snapshot_is_equal_and_private(app: AppDef) -> None:
    """A snapshot equals its original and stays so when the original changes."""
    before, snapshot = copy.deepcopy(app), snapshot_app(app)
    app.metadata["new"] = "x"
    app.roles[0].args.append("new")
    app.roles[0].resource.devices["new"] = 1
    app.roles.append(app.roles[0])
    assert snapshot == before


@given(apps)
def test_macros_without_dollars_change_nothing(app: AppDef) -> None:
    """Filling in macros leaves a role without any ``$`` as it was."""
    role = AppDef.from_json(app.to_json().replace("$", "-")).roles[0]
    assert macros.Values("a", "b", "c", "d").apply(role) == role


def test_yaml_is_for_people() -> None:
    """Defaults are left out and the order is that of the fields."""
    role = Role("trainer", "img", entrypoint="python", args=["-m", "x"], mounts=[VolumeMount("v", "/v")])
    assert AppDef("app", [role]).to_yaml() == (
        "name: app\n"
        "roles:\n"
        "- name: trainer\n"
        "  image: img\n"
        "  entrypoint: python\n"
        "  args:\n"
        "  - -m\n"
        "  - x\n"
        "  mounts:\n"
        "  - type: volume\n"
        "    src: v\n"
        "    dst_path: /v\n"
        "    read_only: false\n"
    )


def test_json_is_complete() -> None:
    """Defaults are written out, so that a stored app does not change with a later version."""
    written = json.loads(AppDef("app", [Role("r", "img")]).to_json())
    assert written["roles"][0]["resource"] == {
        "cpu": -1,
        "gpu": -1,
        "memMB": -1,
        "capabilities": {},
        "devices": {},
        "tags": {},
    }
    assert (written["roles"][0]["retry_policy"], written["metadata"]) == ("APPLICATION", {})


def test_tuples_become_lists() -> None:
    """What JSON has no word for, but a list says as well, is written as a list."""
    app = AppDef("app", [Role("r", "img", metadata={"shape": (1, 2)})])
    assert AppDef.from_json(app.to_json())["r"].metadata == {"shape": [1, 2]}


def role_data(**fields: object) -> dict[str, object]:
    """An app document with one role that has these fields."""
    return {"name": "app", "roles": [{"name": "r", "image": "img", **fields}]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "app: field 'name' is missing"),
        ({"name": 1}, r"^name: must be a string: 1 \(int\); in YAML, quote it"),
        (
            {"name": "a", "role": []},
            "app: unknown field 'role'; known: name, roles, metadata; did you mean 'roles'",
        ),
        ({"name": "a", "metadata": {"k": 1}}, r"metadata\['k'\]: must be a string: 1"),
        ({"name": "a", "roles": {}}, r"roles: must be a list: {} \(dict\)"),
        ({"name": "a", "roles": ["r"]}, r"roles\[0\]: must be a map: 'r'"),
        ({"name": "a", "roles": [{"name": "r"}]}, r"roles\[0\]: field 'image' is missing"),
        ({1: "a"}, "app key: must be a string: 1"),
        (role_data(imagee="x"), r"roles\[0\]: unknown field 'imagee'; .*did you mean 'image'\?"),
        (role_data(args="-x"), r"roles\[0\].args: must be a list: '-x' \(str\)"),
        (role_data(args=["a", 1]), r"roles\[0\].args\[1\]: must be a string: 1"),
        (
            role_data(env={"A": True}),
            r"roles\[0\].env\['A'\]: must be a string: True \(bool\); in YAML, quote it",
        ),
        (role_data(num_replicas="2"), r"roles\[0\].num_replicas: must be an integer: '2'"),
        (role_data(num_replicas=True), r"roles\[0\].num_replicas: must be an integer: True"),
        (role_data(min_replicas="1"), r"roles\[0\].min_replicas: must be an integer"),
        (
            role_data(retry_policy="REPLICAS"),
            "must be one of REPLICA, APPLICATION, ROLE: .*did you mean 'REPLICA'",
        ),
        (role_data(retry_policy=1), r"roles\[0\].retry_policy: must be one of .*: 1 \(int\)$"),
        (role_data(resource={"cpu": 1, "gpu": 0}), r"roles\[0\].resource: field 'memMB' is missing"),
        (
            role_data(resource={"cpu": 1.5, "gpu": 0, "memMB": 1}),
            r"roles\[0\].resource.cpu: must be an integer: 1.5",
        ),
        (role_data(port_map={"http": "80"}), r"roles\[0\].port_map\['http'\]: must be an integer"),
        (role_data(metadata={"a": [1, object()]}), r"roles\[0\].metadata\['a'\]\[1\]: must be plain data"),
        (
            role_data(metadata={"a": float("nan")}),
            r"metadata\['a'\]: must be plain data that JSON can hold: nan",
        ),
        (role_data(metadata={"a": {1: 2}}), r"roles\[0\].metadata\['a'\] key: must be a string: 1"),
        (
            role_data(mounts=[{"src": "v"}]),
            r"roles\[0\].mounts\[0\].type: must be one of bind, volume, device: None",
        ),
        (role_data(mounts=[{"type": "bnd"}]), r"mounts\[0\].type: .*did you mean 'bind'\?"),
        (role_data(mounts=[{"type": "bind", "src_path": "/a"}]), r"mounts\[0\]: field 'dst_path' is missing"),
        (
            role_data(
                mounts=[{"type": "volume", "src": "v", "dst_path": "/v"}, {"type": "device", "src": "/d"}]
            ),
            r"roles\[0\].mounts\[1\]: unknown field 'src'; known: src_path, dst_path, permissions",
        ),
        (
            role_data(mounts=[{"type": "bind", "src_path": "/a", "dst_path": "/b", "read_only": "yes"}]),
            r"mounts\[0\].read_only: must be true or false: 'yes'",
        ),
        (role_data(workspace="/a"), r"roles\[0\].workspace: must be a map: '/a'"),
        (role_data(workspace={}), r"roles\[0\].workspace: field 'projects' is missing"),
    ],
)
def test_wrong_documents(data: dict[str, object], message: str) -> None:
    """The error has the path of the wrong value, the value and what was expected."""
    with pytest.raises(InvalidAppError, match=message):
        AppDef.from_dict(data)


@pytest.mark.parametrize("workspace", [None, {"projects": {"/a": ""}}])
def test_workspace_may_be_null(workspace: object) -> None:
    """``workspace: null`` is no workspace."""
    role = AppDef.from_dict(role_data(workspace=workspace)).roles[0]
    assert role.workspace == (Workspace({"/a": ""}) if workspace else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "app: not YAML"),
        ("[" * 2000, "app: not YAML: maximum recursion depth"),
        ("[]", "app: must be a map"),
        ("", "app: must be a map: None"),
        ("name: no", "name: must"),
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_wrong_yaml(text: str, message: str) -> None:
    """Broken YAML, and YAML of something else, is refused."""
    with pytest.raises(InvalidAppError, match=message):
        AppDef.from_yaml(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "app: not JSON"),
        ('{"a":' * 9999, "app: not JSON: maximum recursion"),
        ("[]", "app: must be a map"),
    ],
)
def test_wrong_json(text: str, message: str) -> None:
    """Broken JSON, and JSON of something else, is refused."""
    with pytest.raises(InvalidAppError, match=message):
        AppDef.from_json(text)


def test_yaml_runs_no_code() -> None:
    """A document is data: tags that build objects are refused."""
    with pytest.raises(InvalidAppError, match="not YAML"):
        AppDef.from_yaml("name: !!python/object/apply:os.getcwd []")


def test_endless_nesting_is_refused() -> None:
    """Metadata that holds itself is named instead of overflowing the stack."""
    metadata: dict[str, Any] = {}
    metadata["self"] = metadata
    with pytest.raises(InvalidAppError, match="must not be nested deeper than 100 levels"):
        AppDef("app", [Role("r", "img", metadata=metadata)]).to_dict()


def test_long_values_are_shortened_in_errors() -> None:
    """A megabyte in the wrong place does not make a megabyte of message."""
    with pytest.raises(InvalidAppError) as caught:
        AppDef.from_dict(role_data(env="x" * 10**6))
    assert len(str(caught.value)) < 150


def test_yaml_of_plain_values_only() -> None:
    """What `to_yaml` writes can be read by any YAML reader."""
    app = AppDef("app", [Role("r", "img", retry_policy=RetryPolicy.ROLE)], metadata={"k": "v"})
    assert yaml.safe_load(app.to_yaml()) == {
        "name": "app",
        "roles": [{"name": "r", "image": "img", "retry_policy": "ROLE"}],
        "metadata": {"k": "v"},
    }
