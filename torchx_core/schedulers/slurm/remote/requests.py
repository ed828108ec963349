"""A request on its way to the login node, which alone knows where the user's directories are there.

A dry run connects to nothing, so in a request these directories have names, which the login node replaces in
every text of it. Where a path stands, in a shell's word or in an option, need not be known: a directory whose
path would have to be written otherwise there is refused.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, cast

from torchx_core.errors import InvalidInputError
from torchx_core.schedulers.paths import file_name
from torchx_core.schedulers.slurm.request import SlurmRequest, render
from torchx_core.specs import AppDef, CfgVal
from torchx_core.supervisor.records import Json

__all__ = ["HOME", "STATE", "name_directories", "render_there"]

HOME: Final = "@login-home@"
"""The user's home directory on the login node."""
STATE: Final = "@login-state@"
"""The state directory there."""


def render_there(
    app: AppDef, cfg: Mapping[str, CfgVal], *, app_id: str, session: str, state_dir: str | None
) -> SlurmRequest:
    """Return the request; relative paths begin at the home directory there, as they do for ssh.

    Args:
        app: The app.
        cfg: Resolved options.
        app_id: Its id.
        session: Its session.
        state_dir: Where records lie there, if that was said.
    """
    root = _absolute(state_dir) if state_dir else STATE
    app_dir = os.path.join(root, "slurm", file_name(session), file_name(app_id))
    return render(app, cfg, app_id=app_id, app_dir=app_dir, session=session, cwd=HOME, absolute=_absolute)


def _absolute(path: str) -> str:
    first, _, rest = path.partition("/")
    if first.startswith("~") and first != "~":
        raise InvalidInputError(
            f"cannot tell whose home directory that is on the login node: {path!r}; name it in full"
        )
    inside = rest if first == "~" else path
    return os.path.normpath(os.path.join(HOME, inside))


def name_directories(request: SlurmRequest, *, home: str, state: str) -> SlurmRequest:
    """Return the request with the directories in it.

    Args:
        request: As `render_there` has made it.
        home: The user's home directory here, on the login node.
        state: The state directory here.

    Raises:
        InvalidInputError: A directory has a path that a shell or Slurm would take for something else.
    """
    asked = {"app", "cfg"}  # what makes two submits equal stays as it is
    rendered = {f.name: getattr(request, f.name) for f in fields(request) if f.name not in asked}
    places = {HOME: home, STATE: state}
    for name, path in places.items():
        if name in json.dumps(rendered) and (shlex.quote(path) != path or "%" in path):
            raise InvalidInputError(
                f"cannot use the directory {path!r} on the login node: only letters, digits and @+=:,./_- can"
                " be in its path; name a state_dir and a job_dir without others in full"
            )
    return replace(request, **cast("dict[str, Any]", _fill(rendered, places)))


def _fill(value: object, places: Mapping[str, str]) -> object:
    match value:
        case str():
            for name, path in places.items():
                value = value.replace(name, path)
            return value
        case list():
            return [_fill(item, places) for item in cast("list[object]", value)]
        case dict():
            return {key: _fill(item, places) for key, item in cast("Json", value).items()}
        case _:
            return value
