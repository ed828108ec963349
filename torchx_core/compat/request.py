"""What the bridge submits: TorchX's own request, and what makes two of them equal."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import cast

from torchx_core.compat import _torchx
from torchx_core.schedulers.secrets import MASK, looks_secret
from torchx_core.specs import AppDef, CfgVal

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

    def asked(self) -> dict[str, object]:
        """Return what makes two requests equal."""
        return {"app": self.app.to_dict(), "cfg": dict(self.cfg)}

    def __str__(self) -> str:
        """Return TorchX's own rendering; values of variables that look secret are masked."""
        return masked(repr(self.native), self.app)


def masked(text: str, app: AppDef) -> str:
    """Return the text without the values of the app's variables that look secret."""
    for role in app.roles:
        for name, value in role.env.items():
            if looks_secret(name) and len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, MASK)
    return text


def with_app_id(app: AppDef, app_id: str) -> AppDef:
    """Return a copy in which the macro ``${app_id}`` is this app id; all else is left for TorchX to fill in.

    TorchX would put its own id there, by which nobody here can find the app.
    """
    filled = copy.deepcopy(app)
    for role in filled.roles:
        role.args = [_fill(arg, app_id) for arg in role.args]
        role.env = {name: _fill(value, app_id) for name, value in role.env.items()}
        role.metadata = cast("dict[str, object]", _fill_nested(role.metadata, app_id))
    return filled


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
