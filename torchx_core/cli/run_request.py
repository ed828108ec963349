"""What a ``run`` asks for, as one value: from its command line, or from TorchX's JSON on stdin."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, cast

from torchx_core.errors import InvalidAppError, InvalidInputError, did_you_mean
from torchx_core.specs import CfgVal, runopts
from torchx_core.specs.checks import want_bool, want_map, want_plain_map, want_str, want_str_list

__all__ = ["RunOptions", "RunRequest", "request_of", "request_of_json", "split_component"]


class RunOptions(TypedDict):
    """The options of ``run`` as click hands them over."""

    component_and_args: tuple[str, ...]
    scheduler: str | None
    cfg: str
    dryrun: bool
    wait: bool
    detach: bool
    log: bool | None
    workspace: str | None
    parent_run_id: str | None
    tee_logs: bool
    stdin: bool
    app_file: str | None
    app_id: str | None
    session: str | None
    timeout_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to run, where and how; None where nothing was said."""

    component: str | None = None
    component_args: Sequence[str] | Mapping[str, object] = ()
    app_file: str | None = None
    scheduler: str | None = None
    cfg: str | Mapping[str, object] = ""
    """As on a command line, or as JSON."""
    workspace: str | None = None
    parent_run_id: str | None = None
    dryrun: bool = False
    wait: bool = False
    log: bool | None = None

    def given_cfg(self, opts: runopts) -> dict[str, CfgVal]:
        """Return the options of the scheduler that were asked for.

        Raises:
            InvalidRunConfigException: They do not fit.
        """
        if isinstance(self.cfg, str):
            return opts.cfg_from_str(self.cfg)
        return opts.cfg_from_json_repr(json.dumps(self.cfg))


def request_of(options: RunOptions) -> RunRequest:
    """Return what the command line asks for."""
    component, args = split_component(options["component_and_args"])
    return RunRequest(
        component=component,
        component_args=args,
        app_file=options["app_file"],
        scheduler=options["scheduler"],
        cfg=options["cfg"],
        workspace=options["workspace"],
        parent_run_id=options["parent_run_id"],
        dryrun=options["dryrun"],
        wait=options["wait"],
        log=options["log"],
    )


def split_component(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Split a component from its arguments; words that begin with an option name no component.

    Example:
        >>> split_component(["utils.echo", "--msg", "hi"]), split_component(["--msg", "hi"])
        (('utils.echo', ['--msg', 'hi']), (None, ['--msg', 'hi']))
    """
    if not words or words[0].startswith("-"):
        return None, list(words)
    return words[0], list(words[1:])


def request_of_json(text: str) -> RunRequest:
    """Return what a JSON object asks for, whose fields are those of TorchX's ``run --stdin``.

    Raises:
        InvalidInputError: It is none, or a field is unknown or of the wrong type.
    """
    try:
        given = want_map(json.loads(text), "stdin")
        values = {name: _reader(name)(value, f"stdin.{name}") for name, value in given.items()}
    except (ValueError, InvalidAppError) as err:
        raise InvalidInputError(f"cannot read what to run from stdin: {err}") from err
    return RunRequest(
        component=cast("str | None", values.get("component_name")),
        component_args=cast(
            "Sequence[str] | Mapping[str, object]",
            values.get("component_args") or values.get("component_args_str") or (),
        ),
        scheduler=cast("str | None", values.get("scheduler")),
        cfg=cast("Mapping[str, object]", values.get("scheduler_cfg") or values.get("scheduler_args") or {}),
        workspace=cast("str | None", values.get("workspace")),
        parent_run_id=cast("str | None", values.get("parent_run_id")),
        dryrun=bool(values.get("dryrun")),
        wait=bool(values.get("wait")),
        log=cast("bool | None", values.get("log")),
    )


def _reader(name: str) -> Callable[[object, str], object]:
    if name not in _FIELDS:
        hint = did_you_mean(name, _FIELDS)
        raise InvalidInputError(f"unknown field {name!r}; known: {', '.join(_FIELDS)}{hint}")
    return _FIELDS[name]


_FIELDS: Final[Mapping[str, Callable[[object, str], object]]] = {
    "component_name": want_str,
    "component_args": want_plain_map,
    "component_args_str": want_str_list,
    "scheduler": want_str,
    "scheduler_args": want_plain_map,
    "scheduler_cfg": want_plain_map,
    "dryrun": want_bool,
    "wait": want_bool,
    "log": want_bool,
    "workspace": want_str,
    "parent_run_id": want_str,
    "tee_logs": want_bool,
}
