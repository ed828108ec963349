"""The hook that knows where apps run, from a connection of type ``torchx``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._engine import BaseHook
from airflow_torchx.get_provider_info import FORM_FIELDS, HIDDEN_FIELDS, PLACEHOLDERS
from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.launch import DEFAULT_SCHEDULER, Cfg, Target

if TYPE_CHECKING:
    from torchx_core.launch import Target
    from torchx_core.runner import Runner

__all__ = ["CONNECTION_FIELDS", "TorchXHook", "read_connection"]

SCHEDULER_PARAMS = ("docker_host", "places", "slurm_ssh", "slurm_ssh_python", "state_dir")
CONNECTION_FIELDS = ("scheduler", "session", "cfg", *SCHEDULER_PARAMS)
"""What a connection of type ``torchx`` may hold, in its extra."""


class TorchXHook(BaseHook):
    """Makes runners for a connection.

    The connection's extra may hold ``scheduler``, ``session`` and ``cfg``, which an operator uses where it
    does not say otherwise, and what reaches the backend: ``docker_host`` (where the Docker engine is),
    ``places`` (other hosts, as words ``gpu-box=ssh://me@10.0.0.5`` for ``local_cwd@gpu-box``),
    ``slurm_ssh`` and ``slurm_ssh_python`` (a login node of the cluster, and a Python there) and ``state_dir``
    (where apps are recorded).

    Args:
        torchx_conn_id: The connection.

    Raises:
        InvalidInputError: The connection has a field that means nothing here; when it is first used.
    """

    conn_name_attr = "torchx_conn_id"
    default_conn_name = "torchx_default"
    conn_type = "torchx"
    hook_name = "TorchX"

    def __init__(self, torchx_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.torchx_conn_id = torchx_conn_id

    @cached_property
    def target(self) -> Target:
        """What the connection says about where apps run."""
        return read_connection(self.torchx_conn_id, _engine.connection_extra(self.torchx_conn_id))

    @override
    def get_conn(self) -> Runner:
        """Return a new runner for the connection's session; close it."""
        return self.target.runner()

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the form's own fields; Airflow 3.1 asks for them, later ones read the provider's info."""
        return _engine.form_fields(FORM_FIELDS)

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return what becomes of the fields that every connection has; likewise."""
        return {"hidden_fields": HIDDEN_FIELDS, "relabeling": {}, "placeholders": PLACEHOLDERS}

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the scheduler answers, and what it says; the web UI's test button calls this."""
        try:
            with self.get_conn() as runner:
                apps = len(runner.list(self.target.scheduler))
        except Exception as err:  # noqa: BLE001  (whatever is wrong is what the user wants to read)
            return False, f"{type(err).__name__}: {err}"
        return True, f"{self.target.scheduler} answers; it has {apps} apps of session {runner.name!r}"


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
