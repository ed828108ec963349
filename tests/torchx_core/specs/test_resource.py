from __future__ import annotations

from torchx_core.specs import NULL_RESOURCE, Resource, Role


def test_copy_merges_capabilities() -> None:
    """A copy keeps everything, and given capabilities win."""
    original = Resource(1, 2, 3, {"a": 1, "b": 1}, {"efa": 4}, {"name": "x"})
    assert Resource.copy(original, b=2) == Resource(1, 2, 3, {"a": 1, "b": 2}, {"efa": 4}, {"name": "x"})


def test_copy_shares_nothing() -> None:
    """Changing the copy leaves the original alone."""
    original = Resource(1, 0, 1, devices={"efa": 1})
    Resource.copy(original).devices["efa"] = 2
    assert original.devices == {"efa": 1}


def test_default_of_a_role_is_private_to_it() -> None:
    """Assigning to one role's default resource reaches no other role."""
    one, other = Role("a", "img"), Role("b", "img")
    one.resource.cpu = 8
    assert other.resource == NULL_RESOURCE == Resource(-1, -1, -1)
