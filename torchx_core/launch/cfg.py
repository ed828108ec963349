"""Options of a scheduler, as people write them in a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from torchx_core.specs import CfgVal, runopts

__all__ = ["Cfg", "make_cfg"]

Cfg: TypeAlias = Mapping[str, CfgVal] | str | None
"""Options of a scheduler: by name, or as text (``log_dir=/logs,grace_s=5``)."""


def make_cfg(cfg: Cfg, options: runopts) -> dict[str, CfgVal]:
    """Return the options given, with texts read as the types that the scheduler wants.

    A rendered template or a form's field is always a text: ``{"grace_s": "5"}`` becomes a number here.

    Raises:
        InvalidRunConfigException: An option is unknown, or no value of its type.
    """
    if isinstance(cfg, str):
        return options.cfg_from_str(cfg)
    return {name: _typed(name, value, options) for name, value in (cfg or {}).items()}


def _typed(name: str, value: CfgVal, options: runopts) -> CfgVal:
    option = options.get(name)
    if option is None or not isinstance(value, str) or option.kind == "str":
        return value
    return next(iter(options.cfg_from_str(f"{name}={value}").values()))
