"""Warnings about old names, for packages that give their users such; asked of TorchX as well."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(params=["torchx_core", "torchx"])
def deprecations(request: pytest.FixtureRequest) -> Any:
    """Return the module of either package."""
    return import_module(f"{request.param}.deprecations")


def test_a_module_that_moved(deprecations: Any) -> None:
    """The warning has both names, and is shown to everybody: a UserWarning."""
    with pytest.warns(UserWarning, match=r"Deprecated.*old\.path.*new\.path") as warned:
        deprecations.deprecated_module("old.path", "new.path", stacklevel=1)
    assert len(warned) == 1


@pytest.mark.parametrize("replacement", [None, "new"])
def test_a_function(deprecations: Any, replacement: str | None) -> None:
    """It does what it did, under its name, and each call warns."""

    def old(x: int, *, y: int) -> int:
        """Add."""
        return x + y

    old = deprecations.deprecated(replacement=replacement)(old)
    with pytest.warns(UserWarning, match=f"old.*{replacement or ''}"):
        assert old(1, y=2) == 3
    assert (old.__name__, old.__doc__) == ("old", "Add.")
