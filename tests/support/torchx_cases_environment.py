"""What is known of apps, what they find around them, and what is refused."""

# ruff: noqa: D103  # the name of each case says what it is

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torchx_case import LOCAL, PLACE, RESOURCE, app, case, ended, program, script, specs

UNKNOWN = f"{LOCAL}://torchx/nothing"


@case
def the_status_of_an_unknown_app(runner: Any) -> Any:
    return runner.status(UNKNOWN)


@case
def the_description_of_an_unknown_app(runner: Any) -> Any:
    return runner.describe(UNKNOWN)


@case
def waiting_for_an_unknown_app(runner: Any) -> Any:
    return runner.wait(UNKNOWN)


@case
def cancelling_an_unknown_app(runner: Any) -> Any:
    runner.cancel(UNKNOWN)
    return "no error"


@case
def the_log_of_an_unknown_app(runner: Any) -> Any:
    return list(runner.log_lines(UNKNOWN, "r"))


@case
def a_malformed_handle(runner: Any) -> Any:
    return runner.status("nothing")


@case
def a_described_app(runner: Any) -> Any:
    given = app(
        "echo", specs.macros.app_id, num_replicas=2, max_retries=1, port_map={"a": 1}, metadata={"k": "v"}
    )
    given.metadata = {"team": "x"}
    told = runner.describe(runner.run(given, LOCAL))
    (role,) = told.roles
    shown = [
        role.name,
        role.image,
        role.entrypoint,
        role.args,
        role.num_replicas,
        role.max_retries,
        role.port_map,
    ]
    return told.name, told.metadata, shown, role.metadata, role.resource == RESOURCE


@case
def a_dry_run_changes_nothing(runner: Any) -> Any:
    given = app("echo", specs.macros.app_id)
    info = runner.dryrun(given, LOCAL)
    return given == app("echo", specs.macros.app_id), bool(str(info)), runner.status(f"{LOCAL}://torchx/x")


@case
def a_dry_run_can_be_scheduled(runner: Any) -> Any:
    handle = runner.schedule(runner.dryrun(app("echo", "hello"), LOCAL))
    runner.wait(handle, 0.1)
    return handle.rpartition("/")[0], list(runner.log_lines(handle, "r"))


@case
def a_request_can_be_changed_before_it_is_scheduled(runner: Any) -> Any:
    info = runner.dryrun(script("echo $WORD"), LOCAL)
    info.request.role_params["r"][0].env["WORD"] = "changed"
    handle = runner.schedule(info)
    runner.wait(handle, 0.1)
    return list(runner.log_lines(handle, "r"))


@case
def a_request_has_parameters_per_replica(runner: Any) -> Any:
    request = runner.dryrun(app("echo", specs.macros.replica_id, num_replicas=2), LOCAL).request
    return {
        role: [[p.args, p.cwd == str(Path.cwd())] for p in params]
        for role, params in request.role_params.items()
    }


@case
def the_environment_is_inherited(runner: Any) -> Any:
    os.environ["INHERITED"], os.environ["OVERRIDDEN"] = "yes", "parent"
    return ended(runner, script("echo $INHERITED $OVERRIDDEN", env={"OVERRIDDEN": "role"}))


@case
def macros_are_filled_in(runner: Any) -> Any:
    given = app("sh", "-c", f"echo {specs.macros.replica_id} $$ROOT", env={"ROOT": specs.macros.img_root})
    lines = ended(runner, given)
    return [line.replace(str(Path.cwd()), "CWD") for line in lines]


@case
def the_app_knows_its_job(runner: Any) -> Any:
    handle = runner.run(script("echo $TORCHX_JOB_ID $TORCHX_RANK0_HOST"), LOCAL)
    runner.wait(handle, 0.1)
    return [line.replace(handle, "HANDLE") for line in runner.log_lines(handle, "r")]


@case
def a_parent_run_is_told(runner: Any) -> Any:
    handle = runner.run(script("echo $TORCHX_PARENT_RUN_ID"), LOCAL, {}, None, "parent-7")
    runner.wait(handle, 0.1)
    return list(runner.log_lines(handle, "r"))


@case
def a_parent_run_is_inherited(runner: Any) -> Any:
    """A run that submits another belongs to the same parent, unless another is named."""
    os.environ["TORCHX_PARENT_RUN_ID"] = "outer"
    try:
        return ended(runner, script("echo $TORCHX_PARENT_RUN_ID"))
    finally:
        del os.environ["TORCHX_PARENT_RUN_ID"]


@case
def an_error_file_is_named(runner: Any) -> Any:
    return ended(runner, script('test -n "$TORCHELASTIC_ERROR_FILE" && echo named'))


@case
def the_working_directory_is_the_submitters(runner: Any) -> Any:
    return ended(runner, app("pwd")) == [f"{Path.cwd()!s}\n"]


@case
def the_image_is_ignored(runner: Any) -> Any:
    return ended(runner, app("echo", "hello", image="/no/such/image:latest"))


@case
def a_program_of_the_working_directory(runner: Any) -> Any:
    program("mine.sh", "echo from here")
    return ended(runner, app("mine.sh"))


@case
def programs_of_path_come_first(runner: Any) -> Any:
    (PLACE / "bin").mkdir(exist_ok=True)
    program("bin/who", "echo path")
    return ended(runner, app("who", env={"PATH": str(PLACE / "bin")}))


@case
def those_of_the_working_directory_may_come_first(runner: Any) -> Any:
    program("who", "echo cwd")
    (PLACE / "bin").mkdir(exist_ok=True)
    program("bin/who", "echo path")
    return ended(runner, app("who", env={"PATH": str(PLACE / "bin")}), {"prepend_cwd": True})


@case
def log_files_lie_in_log_dir(runner: Any) -> Any:
    logs = PLACE / "logs"
    ended(runner, script("echo out; echo err >&2"), {"log_dir": str(logs)})
    texts = {path.name: path.read_text() for path in logs.rglob("*.log") if path.name != "combined.log"}
    return texts.get("stdout.log"), texts.get("stderr.log")


@case
def gpus_that_are_not_there_are_not_set(runner: Any) -> Any:
    given = script("echo [$CUDA_VISIBLE_DEVICES]", resource=specs.Resource(cpu=1, gpu=64, memMB=64))
    return ended(runner, given, {"auto_set_cuda_visible_devices": True})


@case
def what_a_host_cannot_give_is_no_obstacle(runner: Any) -> Any:
    return ended(runner, app("echo", "hello", resource=specs.Resource(cpu=4096, gpu=64, memMB=1 << 30)))


@case
def mounts_are_ignored(runner: Any) -> Any:
    mount = specs.BindMount("/etc", "/nowhere")
    return ended(runner, script("test -e /nowhere || echo none", mounts=[mount]))


@case
def a_workspace_is_ignored(runner: Any) -> Any:
    handle = runner.run(app("echo", "hello"), LOCAL, {}, str(PLACE))
    runner.wait(handle, 0.1)
    return list(runner.log_lines(handle, "r"))


@case
def several_roles(runner: Any) -> Any:
    given = app("echo", "a")
    given.roles.append(specs.Role("s", "", entrypoint="echo", args=["b"], resource=RESOURCE))
    handle = runner.run(given, LOCAL)
    runner.wait(handle, 0.1)
    return [list(runner.log_lines(handle, role)) for role in ("r", "s")]


@case
def one_replica_that_fails_fails_the_app(runner: Any) -> Any:
    given = app("sh", "-c", f"exit {specs.macros.replica_id}", num_replicas=2)
    return str(runner.wait(runner.run(given, LOCAL), 0.1).state)


@case
def an_app_without_roles(runner: Any) -> Any:
    return runner.run(specs.AppDef("app", []), LOCAL)


@case
def a_role_without_aprogram(runner: Any) -> Any:
    return runner.run(app(""), LOCAL)


@case
def a_role_without_replicas(runner: Any) -> Any:
    return runner.run(app("true", num_replicas=0), LOCAL)


@case
def an_option_of_a_wrong_type(runner: Any) -> Any:
    return runner.run(app("true"), LOCAL, {"log_dir": 3})


@case
def an_unknown_option(runner: Any) -> Any:
    return runner.run(app("true"), LOCAL, {"no_such_option": "x"})


@case
def the_options_of_a_scheduler(runner: Any) -> Any:
    opts = dict(runner.scheduler_run_opts(LOCAL))
    names = ("log_dir", "prepend_cwd", "auto_set_cuda_visible_devices")
    return {
        name: [opts[name].default, opts[name].is_required, specs.get_type_name(opts[name].opt_type)]
        for name in names
    }


@case
def options_from_text(runner: Any) -> Any:
    return runner.cfg_from_str(LOCAL, "log_dir=/x,prepend_cwd=true")


@case
def the_schedulers_by_name(runner: Any) -> Any:
    return sorted({"local_cwd", "local_docker"} & set(runner.scheduler_backends()))
