"""Hides an app's secrets in what people see."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from torchx_core.schedulers.secrets import MASK, secret_parts
from torchx_core.specs import AppDef, AppStatus, ReplicaStatus, RoleStatus

__all__ = ["Mask", "make_mask", "mask_status", "mask_values"]

MIN_SECRET_CHARS = 5
"""Shorter values would be found in innocent places."""

Mask: TypeAlias = Callable[[str], str]


def make_mask(app: AppDef, hidden: Iterable[str] = ()) -> Mask:
    """Return a function that hides what is secret in the app's variables: by name, or in a URL.

    Args:
        app: Whose variables.
        hidden: What else to hide.
    """
    named = (part for role in app.roles for variable in role.env.items() for part in secret_parts(*variable))
    return mask_values([*named, *hidden])


def mask_values(values: Iterable[str]) -> Mask:
    """Return a function that hides these values, line by line, wherever they stand in a text or in JSON."""
    parts = {part for value in values for part in value.splitlines() if len(part) >= MIN_SECRET_CHARS}
    if not parts:
        return str
    longest_first = sorted({way for part in parts for way in _ways_to_write(part)}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(MASK, text)


def mask_status(status: AppStatus, mask: Mask) -> AppStatus:
    """Return the status with all that a program has said in it masked; for errors, which Prefect may keep."""
    return replace(
        status,
        msg=mask(status.msg),
        structured_error_msg=mask(status.structured_error_msg),
        result=_masked(status.result, mask),
        roles=[
            RoleStatus(role.role, [_masked_replica(r, mask) for r in role.replicas]) for role in status.roles
        ],
    )


def _masked_replica(replica: ReplicaStatus, mask: Mask) -> ReplicaStatus:
    said = mask(replica.structured_error_msg)
    return replace(replica, msg=mask(replica.msg), structured_error_msg=said)


def _masked(value: object, mask: Mask) -> object:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {mask(name): _masked(item, mask) for name, item in items}
    if isinstance(value, list):
        return [_masked(item, mask) for item in cast("list[object]", value)]
    return value


def _ways_to_write(text: str) -> Iterator[str]:
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
