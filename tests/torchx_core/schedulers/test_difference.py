"""What an app id conflict shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers.difference import differences, request_differences
from torchx_core.specs import AppDef, Role, runopts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_each_difference_has_a_path() -> None:
    """Values that were changed, added and taken away, at any depth."""
    stored = {"app": {"name": "a", "roles": [{"args": ["x"]}]}, "cfg": {"grace_s": 10.0}}
    given = {"app": {"name": "b", "roles": [{"args": ["x", "y"]}]}, "cfg": {}}
    assert differences(stored, given) == [
        "app.name: 'a' -> 'b'",
        "app.roles[0].args[1]: absent -> 'y'",
        "cfg.grace_s: 10.0 -> absent",
    ]


def test_secrets_are_masked() -> None:
    """The message says that they differ, and where, and not what they are."""
    assert differences({"env": {"API_TOKEN": "old"}}, {"env": {"API_TOKEN": "new"}}) == [
        "env.API_TOKEN: *** -> ***"
    ]


def test_many_differences_are_counted() -> None:
    """A completely different request does not flood the message."""
    shown = differences({str(i): i for i in range(15)}, {})
    assert len(shown) == 11
    assert shown[-1] == "and 5 more"


def test_a_parent_makes_no_other_request() -> None:
    """It belongs to the submitter's surroundings; every other variable of a role counts."""

    def asked(**env: str) -> dict[str, object]:
        return {"app": AppDef("a", [Role("r", "", env=env)]).to_dict(), "cfg": {}}

    assert request_differences(asked(A="1", TORCHX_PARENT_RUN_ID="p"), asked(A="1"), runopts()) == []
    assert request_differences(asked(A="1", TRACEPARENT="00-1"), asked(A="1"), runopts()) == []
    assert request_differences(asked(A="1", TORCHX_PARENT_RUN_ID="p"), asked(A="2"), runopts()) == [
        "app.roles[0].env.A: '1' -> '2'"
    ]


@pytest.mark.parametrize("roles", [7, [7], [["r"]], [{"name": "r", "env": "A=1"}], {"r": {}}])
def test_a_damaged_record_differs(roles: object) -> None:
    """A stored request whose roles are no roles is told as another request, and raises nothing."""
    asked = {"app": AppDef("a", [Role("r", "")]).to_dict(), "cfg": {}}
    stored = {"app": {**AppDef("a", []).to_dict(), "roles": roles}, "cfg": {}}
    assert request_differences(stored, asked, runopts())


@given(JSON)
def test_nothing_differs_from_itself(value: object) -> None:
    """Whatever is in it."""
    assert differences(value, value) == []


@given(JSON, JSON)
def test_what_is_not_equal_differs(a: object, b: object) -> None:
    """In either direction, and only then."""
    assert bool(differences(a, b)) == bool(differences(b, a)) == (a != b)
