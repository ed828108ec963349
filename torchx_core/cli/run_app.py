"""Makes the app that a ``run`` asks for, and the request that would be submitted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchx_core import AppDef, Runner
from torchx_core.cli.run_request import RunRequest
from torchx_core.errors import InvalidInputError, TorchXError
from torchx_core.specs import AppDryRunInfo

if TYPE_CHECKING:
    from torchx_core.config import Config

__all__ = ["render"]


def render(runner: Runner, request: RunRequest, app_id: str | None) -> AppDryRunInfo[object]:
    """Return the dry run of what was asked for; command line over environment over configuration files.

    Raises:
        TorchXError: As `Runner.dryrun`, and what is wrong with the component or its arguments.
    """
    from torchx_core.config import read_config  # imported here: only `run` reads it

    config = read_config()
    defaults = config.run_defaults()
    scheduler = request.scheduler or defaults.scheduler or runner.scheduler_backends()[0]
    opts = runner.scheduler_run_opts(scheduler)
    cfg = config.cfg(scheduler, opts, request.given_cfg(opts))
    app = _app(request, config)
    workspace = request.workspace if request.workspace is not None else defaults.workspace
    if workspace is None and request.app_file is None:
        workspace = _working_directory(runner, scheduler)
    return runner.dryrun(app, scheduler, cfg, workspace or None, request.parent_run_id, app_id=app_id)


def _working_directory(runner: Runner, scheduler: str) -> str | None:
    """Return what a component's image is patched with when nothing is said, as TorchX does."""
    return str(Path.cwd()) if runner.scheduler(scheduler).capabilities.workspaces else None


def _app(request: RunRequest, config: Config) -> AppDef:
    if request.app_file is not None:
        if request.component or request.component_args:
            raise click.UsageError("a component and --app exclude each other")
        return _app_in(request.app_file)
    name = request.component or config.run_defaults().component
    if name is None:
        raise click.UsageError(
            "nothing to run: name a component (torchx-core components lists them) or --app FILE"
        )
    return _built(name, request, config)


def _app_in(path: str) -> AppDef:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as err:
        raise InvalidInputError(f"cannot read the app file {path!r}: {err}") from err
    return AppDef.from_json(text) if text.lstrip().startswith("{") else AppDef.from_yaml(text)


def _built(name: str, request: RunRequest, config: Config) -> AppDef:
    from torchx_core.components import find_component  # imported here: an app file needs no components

    component = find_component(name)
    defaults = config.component_defaults(name, parameters=[p.name for p in component.parameters])
    try:
        return component.build(request.component_args, defaults)
    except TorchXError:
        raise
    except Exception as err:  # a component is somebody's program, and may raise anything
        raise InvalidInputError(
            f"component {name!r} raised {type(err).__name__}: {err}; --debug shows where"
        ) from err
