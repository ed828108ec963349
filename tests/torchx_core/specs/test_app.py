from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from torchx_core.specs import MISSING, NULL_RESOURCE, AppDef, AppDryRunInfo, RetryPolicy, Role


def test_fields_of_a_role() -> None:
    """Names and order are TorchX's, so that positional arguments mean the same."""
    assert [f.name for f in fields(Role) if not f.kw_only] == [
        "name",
        "image",
        "min_replicas",
        "entrypoint",
        "args",
        "env",
        "num_replicas",
        "max_retries",
        "retry_policy",
        "resource",
        "port_map",
        "metadata",
        "mounts",
        "workspace",
        "overrides",
    ]


def test_defaults_of_a_role() -> None:
    """Only name and image are needed."""
    role = Role("trainer", "img")
    assert (role.entrypoint, role.num_replicas, role.max_retries) == (MISSING, 1, 0)
    assert role.retry_policy is RetryPolicy.APPLICATION
    assert role.resource == NULL_RESOURCE
    assert role.min_replicas is None
    assert role.workspace is None


def test_roles_by_name() -> None:
    """``app["x"]``, ``get_role`` and ``in`` look roles up by name."""
    app = AppDef("app", roles=[Role("ps", "img"), Role("trainer", "img")])
    assert app["trainer"] is app.get_role("trainer") is app.roles[1]
    assert "ps" in app
    assert "reader" not in app


def test_unknown_role() -> None:
    """A missing role is a KeyError, as in TorchX, that names the close one."""
    app = AppDef("app", roles=[Role("trainer", "img")])
    with pytest.raises(KeyError, match=r"^app 'app' has no role 'trainr'.*did you mean 'trainer'"):
        app["trainr"]


def test_not_iterable() -> None:
    """Iterating over the app is a TypeError, not a puzzle."""
    with pytest.raises(TypeError, match="not iterable"):
        list(AppDef("app"))  # type: ignore[call-overload]  # that is the point


def test_pre_proc_keeps_the_request() -> None:
    """A plain role leaves the request as it is."""
    info = AppDryRunInfo({"cmd": "x"}, repr)
    assert Role("a", "img").pre_proc("local", info) is info


def test_base_image_is_accepted_and_not_read() -> None:
    """By its name only: the positions are those of TorchX today, as dataclass fields tell them."""
    old = Role("trainer", "img", base_image="base")
    assert old == Role("trainer", "img")
    assert "base_image" not in AppDef("app", [old]).to_json()
    theirs = [field.name for field in fields(import_module("torchx.specs").Role)]
    assert [field.name for field in fields(Role) if not field.kw_only] == theirs
