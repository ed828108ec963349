from __future__ import annotations

from dataclasses import dataclass

import pytest

from torchx_core.launch import make_app, to_document
from torchx_core.specs import AppDef, Role

APP = AppDef("a", [Role("r", image="", entrypoint="echo", args=["{{ ds }}"])])


@pytest.mark.parametrize("app", [APP, APP.to_dict(), APP.to_yaml()], ids=["AppDef", "map", "YAML"])
def test_every_form_of_an_app_is_the_same_app(app: object) -> None:
    """An AppDef, its fields and its YAML all come out as the same app."""
    assert make_app(to_document(app), app) == APP


def test_an_app_becomes_plain_values() -> None:
    """Engines render, show and store plain values only, so that is what they get."""
    rendered = to_document(APP)
    assert isinstance(rendered, dict)
    assert rendered["roles"][0]["args"] == ["{{ ds }}"]


def test_yaml_that_templates_make_unreadable_stays_text() -> None:
    """An unquoted template may stand for a number, once it is rendered."""
    text = "{name: a, roles: [{name: r, image: '', entrypoint: echo, num_replicas: {{ n }}}]}"
    assert to_document(text) == text
    assert make_app(text.replace("{{ n }}", "3"), text).roles[0].num_replicas == 3


@dataclass
class Greedy(Role):
    """A role of the user's own class."""


def test_a_users_role_class_survives_rendering() -> None:
    """A document cannot hold code, so the role is made of its own class again."""
    given = AppDef("a", [Greedy("r", image="", entrypoint="echo", args=["{{ ds }}"])])
    rendered = to_document(given)
    assert isinstance(rendered, dict)
    rendered["roles"][0]["args"] = ["2026-01-01"]

    role = make_app(rendered, given).roles[0]

    assert isinstance(role, Greedy)
    assert (role.args, given.roles[0].args) == (["2026-01-01"], ["{{ ds }}"])
