"""The tree drawn at the top of errors.py is the tree of its classes."""

from __future__ import annotations

import re

from torchx_core import errors

BRANCH = re.compile(r"^ {4}(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<builtin>\w+)\))?")


def test_the_drawn_tree_is_the_real_one() -> None:
    """Who reads the drawing knows which `except` catches what."""
    assert _drawn() == _real()


def _drawn() -> dict[str, set[str]]:
    """Return class -> its bases, by the depth at which each line of the drawing starts."""
    tree: dict[str, set[str]] = {}
    parents: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = BRANCH.match(line)
        if match is None or match["name"] not in errors.__all__:
            continue
        depth = len(match["indent"]) // 3
        base = parents[depth - 1] if depth else "Exception"
        parents[depth:] = [match["name"]]
        tree[match["name"]] = {base} | ({match["builtin"]} if match["builtin"] else set())
    return tree


def _real() -> dict[str, set[str]]:
    classes = [getattr(errors, name) for name in errors.__all__]
    return {c.__name__: {base.__name__ for base in c.__bases__} for c in classes}
