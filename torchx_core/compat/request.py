"""What the bridge submits: TorchX's own request, and what makes two of them equal."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from string import Template
from typing import cast

from torchx_core.compat import _torchx
from torchx_core.schedulers.secrets import MASK, secret_parts
from torchx_core.specs import AppDef, BindMount, CfgVal
from torchx_core.specs.mounts import Mount

__all__ = ["BridgeRequest", "masked", "with_app_id"]

_SHORTEST_SECRET = 4  # replacing shorter values would garble the text and hide nothing


@dataclass(slots=True)
class BridgeRequest:
    """One app for a TorchX scheduler.

    Attributes:
        app_id: The id here; TorchX has one of its own.
        app: As it was asked for.
        cfg: The resolved options.
        native: TorchX's dry run; its ``request`` may be changed before it is submitted.
    """

    app_id: str
    app: AppDef
    cfg: Mapping[str, CfgVal]
    native: _torchx.NativeDryRun

    def __str__(self) -> str:
        """Return TorchX's own rendering; values of variables that look secret are masked."""
        return masked(repr(self.native), self.app)


def masked(text: str, app: AppDef) -> str:
    """Return the text without the values of the app's variables that look secret."""
    for role in app.roles:
        for name, value in role.env.items():
            for part in secret_parts(name, value):
                text = text.replace(part, MASK) if len(part) >= _SHORTEST_SECRET else text
    return text


def with_app_id(app: AppDef, app_id: str) -> AppDef:
    """Return a copy with this app id for the macro ``${app_id}``, and the home for ``~`` in mounts.

    TorchX would put its own id there, by which nobody here can find the app, and takes a mount's source as it
    is. Other macros are left for it to fill in.
    """
    filled = copy.deepcopy(app)
    for role in filled.roles:
        role.args = [_fill(arg, app_id) for arg in role.args]
        role.env = {name: _fill(value, app_id) for name, value in role.env.items()}
        role.mounts = [_expanded(mount) for mount in role.mounts]
        role.metadata = cast("dict[str, object]", _fill_nested(role.metadata, app_id))
    return filled


def _expanded(mount: Mount) -> Mount:
    if not isinstance(mount, BindMount):
        return mount
    return replace(mount, src_path=os.path.expanduser(mount.src_path))  # noqa: PTH111  (as in ``hardware``)


def _fill(text: str, app_id: str) -> str:
    escaped = app_id.replace("$", "$$")
    return Template.pattern.sub(
        lambda found: escaped if "app_id" in (found["braced"], found["named"]) else found[0], text
    )


def _fill_nested(value: object, app_id: str) -> object:
    if isinstance(value, str):
        return _fill(value, app_id)
    if isinstance(value, dict):
        return {k: _fill_nested(v, app_id) for k, v in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_fill_nested(item, app_id) for item in cast("list[object]", value)]
    return value
