"""The app id of ours is filled in before TorchX fills in the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core import AppDef, Role
from torchx_core.compat.request import masked, with_app_id
from torchx_core.specs import BindMount, VolumeMount, macros


def app_with(text: str) -> AppDef:
    """Return an app that has the text wherever macros are filled in."""
    role = Role("r", "", entrypoint="true", args=[text], env={"A": text}, metadata={"m": [{"k": text}, 1]})
    return AppDef("a", [role])


@given(st.text("${}_abdip ", max_size=30), st.text("a$-{}", min_size=1, max_size=8))
def test_two_steps_give_what_one_step_gives(text: str, app_id: str) -> None:
    """Ours, then all macros as TorchX fills them in, is the same as all macros with our id."""
    in_steps = with_app_id(app_with(f"${{app_id}}{text}$app_id"), app_id)
    ours = macros.Values(img_root="I", app_id=app_id, replica_id="0", rank0_env="R")
    theirs = macros.Values(img_root="I", app_id="theirs", replica_id="0", rank0_env="R")
    expected = ours.apply(app_with(f"${{app_id}}{text}$app_id").roles[0])
    assert theirs.apply(in_steps.roles[0]) == expected


def test_the_given_app_is_not_changed() -> None:
    """It is what the record says was submitted."""
    app = app_with("${app_id}")
    with_app_id(app, "mine")
    assert app == app_with("${app_id}")


def test_a_mount_below_the_home_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchX takes a source as it is; what the record says was asked for stays as it was written."""
    monkeypatch.setenv("HOME", "/home/me")
    app = app_with("x")
    app.roles[0].mounts = [BindMount("~/data", "/in"), VolumeMount("~v", "/v")]
    assert with_app_id(app, "mine").roles[0].mounts == [
        BindMount("/home/me/data", "/in"),
        VolumeMount("~v", "/v"),
    ]
    assert app.roles[0].mounts[0] == BindMount("~/data", "/in")


def test_only_secrets_are_masked() -> None:
    """Short values stay: replacing them would garble the text and hide nothing."""
    app = app_with("x")
    app.roles[0].env = {"API_KEY": "secret-1", "DB_PASSWORD": "x", "PLAIN": "plain"}
    assert masked("secret-1 x plain", app) == "*** x plain"
