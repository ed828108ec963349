"""Hides an app's secrets in what people see."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from torchx_core.schedulers.secrets import MASK, looks_secret
from torchx_core.specs import AppDef

__all__ = ["Mask", "make_mask", "mask_values"]

MIN_SECRET_CHARS = 5
"""Shorter values would be found in innocent places."""

Mask: TypeAlias = Callable[[str], str]


def make_mask(app: AppDef) -> Mask:
    """Return a function that hides the values of the app's variables that look like secrets by their name."""
    return mask_values(value for role in app.roles for name, value in role.env.items() if looks_secret(name))


def mask_values(values: Iterable[str]) -> Mask:
    """Return a function that hides these values, line by line, wherever they stand in a text."""
    secrets = {part for value in values for part in value.splitlines() if len(part) >= MIN_SECRET_CHARS}
    if not secrets:
        return str
    longest_first = sorted(secrets, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(MASK, text)
