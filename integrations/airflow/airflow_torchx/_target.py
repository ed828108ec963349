"""Where an app runs: scheduler, session and options, from the operator's arguments and its connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from airflow_torchx._cfg import Cfg, make_cfg
from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import CfgVal, runopts

__all__ = ["CONNECTION_FIELDS", "DEFAULT_SCHEDULER", "Target"]

DEFAULT_SCHEDULER = "local_cwd"
SCHEDULER_PARAMS = ("docker_host", "state_dir")
CONNECTION_FIELDS = ("scheduler", "session", "cfg", *SCHEDULER_PARAMS)
"""What a connection of type ``torchx`` may hold, in its extra."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an app runs."""

    scheduler: str = DEFAULT_SCHEDULER
    session: str | None = None
    cfgs: tuple[Cfg, ...] = ()
    """Options, each set overriding those before it."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What schedulers are made with."""

    @staticmethod
    def of_connection(conn_id: str, extra: Mapping[str, object]) -> Target:
        """Read a connection's extra.

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

    def overridden(self, scheduler: str | None, session: str | None, cfg: Cfg) -> Target:
        """Return this target with what is given here instead; options are merged one by one."""
        return Target(
            scheduler=scheduler or self.scheduler,
            session=session or self.session,
            cfgs=(*self.cfgs, cfg),
            params=self.params,
        )

    def runner(self) -> Runner:
        """Return a runner that reaches the target."""
        return get_runner(self.session, **self.params)

    def cfg(self, options: runopts) -> dict[str, CfgVal]:
        """Return the options, read as the scheduler wants them.

        Raises:
            InvalidRunConfigException: An option is unknown, or no value of its type.
        """
        merged: dict[str, CfgVal] = {}
        for cfg in self.cfgs:
            for name, value in make_cfg(cfg, options).items():
                merged[options.canonical_key(name) or name] = value
        return merged
