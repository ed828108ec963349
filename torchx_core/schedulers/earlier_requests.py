"""Reads a request that an earlier release wrote down as this release would have written the same request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import zip_longest
from typing import Final, cast

from torchx_core.specs import CfgVal, runopts

__all__ = ["REQUEST_FORMAT", "in_present_words"]

Json = Mapping[str, object]

REQUEST_FORMAT: Final[Mapping[str, object]] = {"format": 2}
"""Belongs to each request that is written down; those without it were written before there were formats."""

_FORMER_DEFAULTS: Final[Mapping[str, tuple[object, ...]]] = {"cpu": (1, 2), "gpu": (0,), "memMB": (1024,)}
"""What components asked for when nobody had asked for anything; they leave it open (-1) now."""
_FORMER_ENV: Final = "LOGLEVEL"
"""Components copied it from the submitter's environment."""


def in_present_words(
    stored: Json, asked: Json, opts: runopts, former: Mapping[str, CfgVal] | None = None
) -> Json:
    """Return the stored request, with what is only written otherwise now as it is asked for now.

    Args:
        stored: ``app`` and ``cfg`` of the submit that came first, whatever release it was made with.
        asked: The same, of this one.
        opts: The scheduler's options; one that the stored request lacks is as good as its default.
        former: What such an option meant before there was one, where that is not its default.
    """
    cfg = _with_new_options(_object(stored, "cfg"), _object(asked, "cfg"), opts, former or {})
    found = {**stored, "cfg": cfg}
    if "format" in stored:
        return found
    app, now = _object(stored, "app"), _object(asked, "app")
    pairs = zip_longest(_objects(app, "roles"), _objects(now, "roles"))
    roles = [_role(one, other) for one, other in pairs if one is not None]
    return {**found, "app": {**app, "roles": roles} if roles else app}


def _with_new_options(stored: Json, asked: Json, opts: runopts, former: Mapping[str, CfgVal]) -> Json:
    defaults = {name: option.default for name, option in opts}
    new = {
        name: value
        for name, value in asked.items()
        if name not in stored and name in defaults and value in (defaults[name], former.get(name))
    }
    return {**stored, **new}


def _role(stored: Json, asked: Json | None) -> Json:
    if asked is None:
        return stored
    found = dict(stored)
    needs, wanted = _object(stored, "resource"), _object(asked, "resource")
    found["resource"] = {
        name: wanted[name] if wanted.get(name) == -1 and value in _FORMER_DEFAULTS.get(name, ()) else value
        for name, value in needs.items()
    }
    env = _object(stored, "env")
    if _FORMER_ENV not in _object(asked, "env"):
        found["env"] = {name: value for name, value in env.items() if name != _FORMER_ENV}
    mounts = zip_longest(_objects(stored, "mounts"), _objects(asked, "mounts"))
    found["mounts"] = [_mount(one, other) for one, other in mounts if one is not None]
    return found


def _mount(stored: Json, asked: Json | None) -> Json:
    """Return the mount with ``~`` at its start, which was replaced before the request was written down."""
    source = None if asked is None else asked.get("src_path")
    if not isinstance(source, str) or not source.startswith("~"):
        return stored
    same = stored.get("src_path") == os.path.expanduser(source)  # noqa: PTH111  (pathlib costs 8 ms)
    return {**stored, "src_path": source} if same else stored


def _object(value: Json, name: str) -> Json:
    found = value.get(name)
    return cast("Json", found) if isinstance(found, Mapping) else {}


def _objects(value: Json, name: str) -> list[Json]:
    found = value.get(name)
    if not isinstance(found, list) or not all(
        isinstance(each, Mapping) for each in cast("list[object]", found)
    ):
        return []  # a damaged record is compared as it is
    return cast("list[Json]", found)
