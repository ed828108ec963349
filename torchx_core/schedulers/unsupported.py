"""What becomes of what an app asks for and its scheduler cannot give: ignored aloud, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from torchx_core.errors import InvalidAppError
from torchx_core.schedulers.option_values import one_of
from torchx_core.specs import AppDef, CfgVal, runopts

if TYPE_CHECKING:
    from torchx_core.schedulers.responses import Capabilities

__all__ = ["FORMER_MEANING", "UNSUPPORTED", "add_unsupported_option", "leave_out", "leave_out_of_app"]

UNSUPPORTED: Final = "unsupported"
"""The option. A scheduler that has it lets `Scheduler` deal with what its capabilities lack."""


FORMER_MEANING: Final[Mapping[str, CfgVal]] = {UNSUPPORTED: "refuse"}
"""What schedulers did before they had the option."""


def add_unsupported_option(opts: runopts) -> None:
    """Add the option to a scheduler's."""
    opts.add(
        UNSUPPORTED,
        type_=str,
        default="notice",
        help="what becomes of what an app asks for and cannot have here, such as mounts:"
        " notice (ignored, with a warning in the log) or refuse (an error before anything is submitted)",
    )


def leave_out_of_app(app: AppDef, cfg: Mapping[str, CfgVal], can: Capabilities, backend: str) -> None:
    """Say, as the option has it, which mounts and workspaces of the app are ignored.

    Raises:
        InvalidAppError: The option says ``refuse``.
        InvalidRunConfigException: It says neither that nor ``notice``.
    """
    one_of(cfg, UNSUPPORTED, ("notice", "refuse"))
    for i, role in enumerate(app.roles):
        if role.mounts and not can.mounts:
            problem = f"{backend} cannot mount anything; use paths that are there where it runs"
            leave_out(cfg, f"roles[{i}].mounts", problem)
        if role.workspace and not can.workspaces:
            problem = (
                f"{backend} cannot lay files over an image; leave it out, or choose a scheduler that can"
            )
            leave_out(cfg, f"roles[{role.name!r}].workspace", problem)


def leave_out(cfg: Mapping[str, CfgVal], path: str, problem: str) -> None:
    """Say that something is ignored.

    Args:
        cfg: Resolved options.
        path: What of the app it is.
        problem: Why it cannot be had, and what to do instead.

    Raises:
        InvalidAppError: The option says ``refuse``.
    """
    if cfg[UNSUPPORTED] == "refuse":
        raise InvalidAppError(path, problem)
    import logging  # here: what asks for a status alone does not pay for it

    logging.getLogger(__name__).warning("ignored: %s: %s", path, problem)
