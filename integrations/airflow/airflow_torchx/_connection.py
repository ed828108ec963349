"""Reads a connection of type ``torchx``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.launch import DEFAULT_SCHEDULER, Cfg, Target

__all__ = ["CONNECTION_FIELDS", "read_connection"]

SCHEDULER_PARAMS = ("docker_host", "slurm_ssh", "slurm_ssh_python", "state_dir")
CONNECTION_FIELDS = ("scheduler", "session", "cfg", *SCHEDULER_PARAMS)
"""What a connection of type ``torchx`` may hold, in its extra."""


def read_connection(conn_id: str, extra: Mapping[str, object]) -> Target:
    """Return where apps run, from a connection's extra.

    Raises:
        InvalidInputError: It has a field that means nothing here, or a value of a wrong type.
    """
    for name in extra:
        if name not in CONNECTION_FIELDS:
            known = f"known: {', '.join(CONNECTION_FIELDS)}{did_you_mean(name, CONNECTION_FIELDS)}"
            raise InvalidInputError(f"connection {conn_id!r} has an unknown field {name!r}; {known}")
    given = {name: value for name, value in extra.items() if value not in (None, "")}
    cfg = given.pop("cfg", None)
    if not (cfg is None or isinstance(cfg, str | Mapping)):
        raise InvalidInputError(f"connection {conn_id!r}: cfg must be a text or a JSON object: {cfg!r}")
    for name, value in given.items():
        if not isinstance(value, str):
            raise InvalidInputError(f"connection {conn_id!r}: {name} must be a text: {value!r}")
    texts = cast("dict[str, str]", given)
    params = {name: texts.pop(name) for name in SCHEDULER_PARAMS if name in texts}
    return Target(
        scheduler=texts.get("scheduler", DEFAULT_SCHEDULER),
        session=texts.get("session"),
        cfgs=(cast("Cfg", cfg),),
        params=params,
    )
