from __future__ import annotations

import copy
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.specs import Role, macros

VALUES = macros.Values(img_root="/img", app_id="app-1", replica_id="2", rank0_env="RANK0")
MAPPING = {
    "img_root": "/img",
    "app_id": "app-1",
    "replica_id": "2",
    "rank0_env": "RANK0",
    "base_img_root": "DEPRECATED",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (macros.img_root, "/img"),
        (macros.base_img_root, "DEPRECATED"),
        (f"--id={macros.app_id}-{macros.replica_id}", "--id=app-1-2"),
        (f"$${{{macros.rank0_env}:=localhost}}", "${RANK0:=localhost}"),
        ("$app_id", "app-1"),
        ("$$", "$"),
        ("${HOME} $PATH ${} $", "${HOME} $PATH ${} $"),
        ("plain", "plain"),
    ],
)
def test_substitute(text: str, expected: str) -> None:
    """Macros are filled in, ``$$`` is a dollar, everything else stays."""
    assert VALUES.substitute(text) == expected


@given(st.text(st.sampled_from("$${}ab_ \n") | st.characters()))
def test_any_text_follows_the_rules_of_string_template(text: str) -> None:
    """No text fails, and none differs from the standard library's safe_substitute."""
    assert VALUES.substitute(text) == Template(text).safe_substitute(MAPPING)


def test_apply_fills_args_env_and_metadata() -> None:
    """Only args, values of env and metadata, at any depth, are filled in."""
    role = Role(
        name="${app_id}",
        image="${img_root}",
        entrypoint="${app_id}",
        args=["${app_id}", "x"],
        env={"${app_id}": "${replica_id}"},
        metadata={"k": {"l": ["${app_id}", 3, ("t",)]}, "n": 1},
    )
    filled = VALUES.apply(role)
    assert (filled.name, filled.image, filled.entrypoint) == ("${app_id}", "${img_root}", "${app_id}")
    assert filled.args == ["app-1", "x"]
    assert filled.env == {"${app_id}": "2"}
    assert filled.metadata == {"k": {"l": ["app-1", 3, ["t"]]}, "n": 1}


def test_apply_works_on_a_copy() -> None:
    """The role given keeps its macros and shares nothing with the result."""
    role = Role("r", "img", args=["${app_id}"], metadata={"k": ["${app_id}"]}, port_map={"p": 1})
    before = copy.deepcopy(role)
    VALUES.apply(role).port_map["p"] = 2
    assert role == before
