"""Components by name, and schedulers that are made by hand."""

# ruff: noqa: D103  # the name of each case says what it is

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from torchx_case import LOCAL, PACKAGE, PLACE, app, case, ended, program, runner_module

COMPONENTS = f"""
from {PACKAGE}.specs import AppDef, Role

def shout(word: str, times: int = 2) -> AppDef:
    \"\"\"Say it.

    Args:
        word: what to say
        times: how often
    \"\"\"
    return AppDef("shout", [Role("r", "", entrypoint="echo", args=[word.upper()] * times)])

def wrong(word) -> int:
    return 1
"""


@case
def a_built_in_component(runner: Any) -> Any:
    handle = runner.run_component("utils.echo", ["--msg", "hello"], LOCAL)
    runner.wait(handle, 0.1)
    return list(runner.log_lines(handle, "echo"))


def _components() -> str:
    path = PLACE / "components.py"
    path.write_text(COMPONENTS)
    return str(path)


@case
def a_component_of_a_file(runner: Any) -> Any:
    info = runner.dryrun_component(f"{_components()}:shout", ["--word", "hey", "--times", "3"], LOCAL)
    return info.app.name, info.app.roles[0].args


@case
def a_component_of_a_relative_file(runner: Any) -> Any:
    _components()
    return runner.dryrun_component("components.py:shout", ["--word", "hey"], LOCAL).app.roles[0].args


@case
def a_component_of_a_file_at_home(runner: Any) -> Any:
    os.environ["HOME"] = str(PLACE)
    _components()
    return runner.dryrun_component("~/components.py:shout", {"word": "hey"}, LOCAL).app.roles[0].args


@case
def a_component_that_is_wrong(runner: Any) -> Any:
    return runner.dryrun_component(f"{_components()}:wrong", ["--word", "x"], LOCAL)


@case
def a_component_that_is_not_there(runner: Any) -> Any:
    return runner.dryrun_component(f"{_components()}:nothing", [], LOCAL)


@case
def a_component_that_is_not_built_in(runner: Any) -> Any:
    return runner.dryrun_component("utils.nothing", [], LOCAL)


@case
def defaults_of_a_component(_runner: Any) -> Any:
    with runner_module.get_runner(component_defaults={"utils.echo": {"msg": "by default"}}) as other:
        return other.dryrun_component("utils.echo", [], LOCAL).app.roles[0].args


@case
def a_runner_can_be_closed_twice(_runner: Any) -> Any:
    other = runner_module.get_runner()
    other.scheduler_run_opts(LOCAL)
    other.close()
    return other.close()


@case
def a_scheduler_without_a_runner(_runner: Any) -> Any:
    module = import_module(f"{PACKAGE}.schedulers.local_scheduler")
    scheduler = module.create_scheduler("mine")
    app_id = scheduler.submit(app("echo", "hello"), {})
    runner_of_it = runner_module.Runner("mine", {LOCAL: lambda _name, **_: scheduler})
    runner_of_it.wait(f"{LOCAL}://mine/{app_id}", 0.1)
    told = [scheduler.exists(app_id), scheduler.exists("nothing"), scheduler.describe("nothing")]
    return [*told, list(scheduler.log_iter(app_id, "r")), scheduler.cancel("nothing") or "no error"][:4]


@case
def directories_as_images(_runner: Any) -> Any:
    module = import_module(f"{PACKAGE}.schedulers.local_scheduler")
    program("in_image.sh", "pwd")
    scheduler = module.create_scheduler("dirs", image_provider_class=module.LocalDirectoryImageProvider)
    runner_of_it = runner_module.Runner("dirs", {"local_dir": lambda _name, **_: scheduler})
    handle = runner_of_it.run(app("in_image.sh", image=str(PLACE)), "local_dir")
    runner_of_it.wait(handle, 0.1)
    return list(runner_of_it.log_lines(handle, "r")) == [f"{PLACE}\n"]


@case
def more_directories_of_programs(_runner: Any) -> Any:
    (PLACE / "extra").mkdir(exist_ok=True)
    program("extra/extra.sh", "echo extra")
    with runner_module.get_runner(extra_paths=[str(PLACE / "extra")]) as other:
        return ended(other, app("extra.sh"))
