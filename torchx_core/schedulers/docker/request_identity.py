"""What makes two submits the same request, in a form that may be stored: without secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import cast

from torchx_core.schedulers.docker.client import Json
from torchx_core.schedulers.earlier_requests import REQUEST_FORMAT
from torchx_core.schedulers.secrets import mask_env
from torchx_core.specs import AppDef, CfgVal

__all__ = ["comparable_request", "remasked"]


def comparable_request(app: AppDef, cfg: Mapping[str, CfgVal], salt: str) -> Json:
    """Return app and cfg with secrets masked, and a digest of each secret.

    Two requests are the same when these values, made with one salt, are equal.
    """
    secrets: dict[str, str] = {}
    document = app.to_dict()
    for role in cast("list[dict[str, object]]", document["roles"]):
        role["env"] = _hidden(cast("dict[str, str]", role["env"]), f"{role['name']}.env", salt, secrets)
    options: dict[str, object] = dict(cfg)
    if cfg.get("env"):
        options["env"] = _hidden(cast("dict[str, str]", cfg["env"]), "cfg.env", salt, secrets)
    return {"app": document, "cfg": options, "secrets": secrets, **REQUEST_FORMAT}


def remasked(app: AppDef, asked: Json, salt: str) -> Json:
    """Return a stored request as `comparable_request` gives it, though it was stored masking less."""
    secrets = dict(cast("dict[str, str]", asked["secrets"]))
    document = app.to_dict()
    for role in cast("list[dict[str, object]]", document["roles"]):
        role["env"] = _hidden(cast("dict[str, str]", role["env"]), f"{role['name']}.env", salt, secrets)
    options = cast("Json", asked["cfg"])
    if options.get("env"):
        env = _hidden(cast("dict[str, str]", options["env"]), "cfg.env", salt, secrets)
        options = {**options, "env": env}
    return {**asked, "app": document, "cfg": options, "secrets": secrets}


def _hidden(env: Mapping[str, str], path: str, salt: str, secrets: dict[str, str]) -> dict[str, str]:
    shown = mask_env(env)
    for name, value in env.items():
        if shown[name] != value:
            digest = hashlib.sha256(f"{salt}{value}".encode("utf-8", "surrogatepass"))
            secrets[f"{path}.{name}"] = digest.hexdigest()
    return shown
