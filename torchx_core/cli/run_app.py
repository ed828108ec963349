"""Makes the app that a ``run`` asks for, and the request that would be submitted."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchx_core import AppDef, Runner
from torchx_core.cli.run_request import RunRequest
from torchx_core.errors import InvalidInputError, TorchXError
from torchx_core.specs import AppDryRunInfo

if TYPE_CHECKING:
    from torchx_core.config import Config

__all__ = ["LOCAL", "on_several_processes", "render"]

LOCAL = "local"
"""What the names of the schedulers begin with whose apps run on this host."""


def render(runner: Runner, request: RunRequest, app_id: str | None) -> AppDryRunInfo[object]:
    """Return the dry run of what was asked for; command line over environment over configuration files.

    Raises:
        TorchXError: As `Runner.dryrun`, and what is wrong with the component or its arguments.
    """
    from torchx_core.config import read_config  # imported here: only `run` reads it

    config = read_config()
    defaults = config.run_defaults()
    scheduler = request.scheduler or defaults.scheduler or runner.default_scheduler()
    opts = runner.scheduler_run_opts(scheduler)
    cfg = config.cfg(scheduler, opts, request.given_cfg(opts))
    app = _app(request, config, runner, scheduler)
    workspace = request.workspace if request.workspace is not None else defaults.workspace
    if workspace is None and request.app_file is None:
        workspace = _working_directory(runner, scheduler)
    return runner.dryrun(app, scheduler, cfg, workspace or None, request.parent_run_id, app_id=app_id)


def _working_directory(runner: Runner, scheduler: str) -> str | None:
    """Return what a component's image is patched with when nothing is said, as TorchX does."""
    return str(Path.cwd()) if runner.scheduler(scheduler).capabilities.workspaces else None


def _app(request: RunRequest, config: Config, runner: Runner, scheduler: str) -> AppDef:
    if request.app_file is not None:
        if request.component or request.component_args:
            raise click.UsageError("a component and --app exclude each other")
        return _app_in(request.app_file)
    name = request.component or config.run_defaults().component
    if name is None:
        raise click.UsageError(
            "nothing to run: name a component (torchx-core components lists them) or --app FILE"
        )
    from torchx_core.components.script import is_script  # imported here: an app file needs no components

    if is_script(name):
        return _script_app(name, request, runner, scheduler)
    return _built(name, request, config)


def _app_in(path: str) -> AppDef:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as err:
        raise InvalidInputError(f"cannot read the app file {path!r}: {err}") from err
    return AppDef.from_json(text) if text.lstrip().startswith("{") else AppDef.from_yaml(text)


def _script_app(file: str, request: RunRequest, runner: Runner, scheduler: str) -> AppDef:
    """Return the app that runs the script: by this program's own Python, or in an image by the image's."""
    from torchx_core.components.script import check_imports, script_app  # imported here: the same

    if runner.scheduler(scheduler).capabilities.workspaces:
        return script_app(file, _script_words(file, request), "python")
    app = script_app(file, _script_words(file, request), sys.executable)
    if scheduler.startswith(LOCAL):
        check_imports(file)
    return app


def _script_words(file: str, request: RunRequest) -> list[str]:
    """Return the script's arguments; a ``--`` before them is not one, as with a component."""
    if isinstance(request.component_args, Mapping):
        raise InvalidInputError(f"{file!r} is a script, whose arguments are words: give a list of them")
    words = list(request.component_args)
    return words[1:] if words[:1] == ["--"] else words


def on_several_processes(request: RunRequest) -> str | None:
    """Return the command that runs the same script on several processes; None of what is no script."""
    from torchx_core.components.script import is_script  # imported here: an app file needs no components

    if request.component is None or not is_script(request.component):
        return None
    words = _script_words(request.component, request)
    where = ["-s", request.scheduler] if request.scheduler else []
    command = ["torchx-core", "run", *where, "dist.torchrun", "-j", "1x2", "--script", request.component]
    return shlex.join([*command, *(["--", *words] if words else [])])


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
