"""TorchX's page of ``specs.api``: each thing that it says, a test or a case of one.

Where the installed TorchX has the thing too, both are asked.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import yaml
from torchx_sides import MISSING, accepts, ours, theirs

from torchx_core import specs
from torchx_core.specs import AppDef, AppDryRunInfo, AppState, AppStatus, Resource, Role, macros

REQUIRED = dataclasses.MISSING
NONE = "<NONE>"


def fields_of(cls: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass and their defaults, made ones by what they make."""
    return [
        (f.name, f.default_factory() if f.default_factory is not REQUIRED else f.default)
        for f in dataclasses.fields(cls)
    ]


# What the page says of data: name, and its fields in their order, with their defaults.
FIELDS: dict[str, list[tuple[str, Any]]] = {
    "Resource": [
        ("cpu", REQUIRED),
        ("gpu", REQUIRED),
        ("memMB", REQUIRED),
        ("capabilities", {}),
        ("devices", {}),
    ],
    "BindMount": [("src_path", REQUIRED), ("dst_path", REQUIRED), ("read_only", False)],
    "VolumeMount": [("src", REQUIRED), ("dst_path", REQUIRED), ("read_only", False)],
    "DeviceMount": [("src_path", REQUIRED), ("dst_path", REQUIRED), ("permissions", "rwm")],
    "AppDef": [("name", REQUIRED), ("roles", []), ("metadata", {})],
    "ReplicaStatus": [
        ("id", REQUIRED),
        ("state", REQUIRED),
        ("role", REQUIRED),
        ("hostname", REQUIRED),
        ("structured_error_msg", NONE),
    ],
    "RoleStatus": [("role", REQUIRED), ("replicas", REQUIRED)],
    "AppStatus": [
        ("state", REQUIRED),
        ("num_restarts", 0),
        ("msg", ""),
        ("structured_error_msg", NONE),
        ("ui_url", None),
        ("roles", []),
    ],
    "runopt": [("default", REQUIRED), ("opt_type", REQUIRED), ("is_required", REQUIRED), ("help", REQUIRED)],
}


@pytest.mark.parametrize("name", FIELDS)
def test_data_has_its_fields_in_order(name: str) -> None:
    """So that positional arguments mean the same; what is ours besides comes after them."""
    assert fields_of(ours(f"specs.api.{name}"))[: len(FIELDS[name])] == FIELDS[name]


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "runopt"])
def test_data_has_the_fields_of_the_installed_torchx(name: str) -> None:
    """Its names, order and defaults, as far as it has them."""
    expected = fields_of(theirs(f"specs.api.{name}"))
    for (our_name, our_default), (name_, default) in zip(
        fields_of(ours(f"specs.api.{name}")), expected, strict=False
    ):
        assert our_name == name_
        assert our_default == default or name_ == "hostaddr"  # theirs None, ours empty, until it is defaulted


ROLE: list[tuple[str, Any]] = [
    ("name", REQUIRED),
    ("image", REQUIRED),
    ("min_replicas", None),
    ("entrypoint", "<MISSING>"),
    ("args", []),
    ("env", {}),
    ("num_replicas", 1),
    ("max_retries", 0),
    ("retry_policy", specs.RetryPolicy.APPLICATION),
    ("resource", specs.NULL_RESOURCE),
    ("port_map", {}),
    ("metadata", {}),
    ("mounts", []),
]


@pytest.mark.parametrize(("position", "field"), list(enumerate(ROLE)))
def test_a_role_has_its_fields_in_order(position: int, field: tuple[str, Any]) -> None:
    """Each, with its default; the order is that of the installed TorchX, which has dropped ``base_image``."""
    assert fields_of(Role)[position] == field
    assert dataclasses.fields(theirs("specs.api.Role"))[position].name == field[0]


def test_base_image_is_accepted() -> None:
    """The page calls it deprecated, and not to be set; by its name it may be."""
    assert Role("r", "img", base_image=None) == Role("r", "img", base_image="base") == Role("r", "img")


@pytest.mark.parametrize(
    ("name", "value"), [("ALL", "all"), ("MISSING", "<MISSING>"), ("NONE", "<NONE>"), ("NULL_RESOURCE", None)]
)
def test_sentinels(name: str, value: object) -> None:
    """Any scheduler, a text that is missing, one that is not set, a resource that does not matter."""
    mine = ours(f"specs.api.{name}")
    assert mine == (Resource(cpu=-1, gpu=-1, memMB=-1) if value is None else value)
    if value is not None:
        assert mine == theirs(f"specs.api.{name}")


@pytest.mark.parametrize(
    ("capabilities", "added", "merged"),
    [({}, {"a": 1}, {"a": 1}), ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}), ({"a": 1}, {}, {"a": 1})],
)
def test_a_copied_resource_has_new_capabilities(
    capabilities: dict[str, object], added: dict[str, object], merged: dict[str, object]
) -> None:
    """Those given count more than the original's, which stays as it was; all else is copied."""
    for side in (ours, theirs):
        cls = side("specs.api.Resource")
        original = cls(cpu=1, gpu=2, memMB=3, capabilities=dict(capabilities), devices={"d": 1})
        copy = cls.copy(original, **added)
        assert (copy.cpu, copy.gpu, copy.memMB, copy.devices) == (1, 2, 3, {"d": 1})
        assert (copy.capabilities, original.capabilities) == (merged, capabilities)


MACROS = ["img_root", "base_img_root", "app_id", "replica_id", "rank0_env"]


@pytest.mark.parametrize("name", MACROS)
def test_a_macro_is_written_so(name: str) -> None:
    """As a shell's variable of its name."""
    assert getattr(macros, name) == f"${{{name}}}"


@pytest.mark.parametrize("name", ["img_root", "app_id", "replica_id", "rank0_env"])
def test_a_macro_is_filled_in(name: str) -> None:
    """By the value of its name."""
    values = macros.Values("img_root", "app_id", "replica_id", "rank0_env")
    assert values.substitute(f"x-{getattr(macros, name)}-y") == f"x-{name}-y"


@pytest.mark.parametrize("text", ["plain", "${HOME}", "$unknown", "$", "${", "$$", "${app_id}${app_id}"])
def test_other_text_is_filled_in_as_by_torchx(text: str) -> None:
    """What is no macro stays as it is, and two dollars are one."""
    values = {"img_root": "/i", "app_id": "a1", "replica_id": "0", "rank0_env": "R"}
    mine, other = (side("specs.api.macros").Values(**values, base_img_root="b") for side in (ours, ours))
    expected = theirs("specs.api.macros").Values(**values).substitute(text)
    assert mine.substitute(text) == other.substitute(text) == expected


def test_the_values_of_macros() -> None:
    """Four are needed, and the deprecated one says that it is."""
    values = macros.Values(img_root="/i", app_id="a", replica_id="0", rank0_env="R")
    assert values.base_img_root == "DEPRECATED"


def test_macros_are_applied_to_a_copy() -> None:
    """In arguments and values of variables; nowhere else but in metadata, as the installed TorchX does."""
    role = Role(
        "${app_id}", "${app_id}", entrypoint="${app_id}", args=["${app_id}"], env={"${app_id}": "${app_id}"}
    )
    role.metadata = {"k": "${app_id}"}
    applied = macros.Values("/i", "a1", "0", "R").apply(role)
    assert (applied.args, applied.env, applied.metadata) == (["a1"], {"${app_id}": "a1"}, {"k": "a1"})
    assert (applied.name, applied.image, applied.entrypoint) == ("${app_id}",) * 3
    assert role.args == ["${app_id}"]


ENUMS: dict[str, dict[str, object]] = {
    "RetryPolicy": {"REPLICA": "REPLICA", "APPLICATION": "APPLICATION"},
    "MountType": {"BIND": "bind", "VOLUME": "volume", "DEVICE": "device"},
    "AppState": {
        "UNSUBMITTED": 0,
        "SUBMITTED": 1,
        "PENDING": 2,
        "RUNNING": 3,
        "SUCCEEDED": 4,
        "FAILED": 5,
        "CANCELLED": 6,
        "UNKNOWN": 7,
    },
}


@pytest.mark.parametrize(
    ("enum", "name"), [(enum, name) for enum, members in ENUMS.items() for name in members]
)
def test_members_have_their_values(enum: str, name: str) -> None:
    """Which are stored and compared, and are TorchX's; a text is equal to its member."""
    member = getattr(ours(f"specs.api.{enum}"), name)
    assert member == ENUMS[enum][name] == getattr(theirs(f"specs.api.{enum}"), name)


@pytest.mark.parametrize("state", list(AppState))
def test_a_state_is_shown_and_classified(state: AppState) -> None:
    """By name, and with its number; terminal are the three ends, started those and RUNNING."""
    assert (str(state), repr(state)) == (state.name, f"{state.name} ({state.value})")
    assert specs.is_terminal(state) == (state.name in ("SUCCEEDED", "FAILED", "CANCELLED"))
    assert specs.is_started(state) == (state.name in ("SUCCEEDED", "FAILED", "CANCELLED", "RUNNING"))
    other = theirs("specs.api.AppState")[state.name]
    assert specs.is_started(state) == theirs("specs.api.is_started")(other)
    assert AppStatus(state).is_terminal() == specs.is_terminal(state)


def test_replicas_have_the_states_of_apps() -> None:
    """One enumeration for both."""
    assert specs.ReplicaState is AppState


def test_a_roles_hook_returns_the_dry_run() -> None:
    """As it is, by default."""
    info = AppDryRunInfo("request", str)
    assert Role("r", "img").pre_proc("local_cwd", info) is info
    assert accepts(Role.pre_proc, [("scheduler", MISSING), ("dryrun_info", MISSING)])


def test_a_dry_run_holds_the_request_and_how_it_is_shown() -> None:
    """And, for those who implement schedulers, what it was made of."""
    info = AppDryRunInfo({"a": 1}, lambda request: f"<{request['a']}>")
    assert (repr(info), info.request) == ("<1>", {"a": 1})
    assert [getattr(info, name) for name in ("_app", "_cfg", "_scheduler")] == [None, {}, None]
    assert accepts(ours("specs.AppDryRunInfo.__init__"), [("request", MISSING), ("fmt", MISSING)])


@pytest.mark.parametrize("state", list(AppState))
def test_only_success_is_no_error(state: AppState) -> None:
    """An error carries the status."""
    status = AppStatus(state, msg="why")
    if state is AppState.SUCCEEDED:
        status.raise_for_status()
        return
    with pytest.raises(specs.AppStatusError) as raised:
        status.raise_for_status()
    assert raised.value.status is status


def test_the_error_is_made_of_a_status_and_a_message() -> None:
    """As other schedulers make it."""
    status = AppStatus(AppState.FAILED)
    assert (specs.AppStatusError(status, "why").status, str(specs.AppStatusError(status, "why"))) == (
        status,
        "why",
    )


@pytest.mark.parametrize("error", ["<NONE>", '{"a": [1]}', "{torn"])
def test_a_status_is_shown_as_yaml(error: str) -> None:
    """With the app's error as what it is, and the state with its number."""
    mine, other = (
        repr(side("specs.api.AppStatus")(side("specs.api.AppState").FAILED, 3, "m", error, "u"))
        for side in (ours, theirs)
    )
    shown = yaml.safe_load(mine)["AppStatus"]
    assert mine == other
    assert shown["state"] == "FAILED (5)"
    assert shown["structured_error_msg"] == (json.loads(error) if error.startswith('{"') else error)


@pytest.mark.parametrize(
    "line",
    ["State: FAILED", "Num Restarts: 3", "Roles:", "Msg: m", "Structured Error Msg: <NONE>", "UI URL: u"],
)
def test_a_status_has_a_text(line: str) -> None:
    """State, restarts, roles, message, error, address."""
    assert f"    {line}\n" in AppStatus(AppState.FAILED, 3, "m", ui_url="u").format()


REPLICAS = {
    "running": (0, "RUNNING", NONE, [" *trainer[0]:RUNNING"]),
    "another": (1, "RUNNING", NONE, ["  trainer[1]:RUNNING"]),
    "failed without a file": (0, "FAILED", NONE, [" *trainer[0]:FAILED (no reply file)"]),
    "cancelled without a file": (0, "CANCELLED", NONE, [" *trainer[0]:CANCELLED (no reply file)"]),
    "failed": (
        0,
        "FAILED",
        '{"message": {"message": "boom", "errorCode": 9, "extraInfo": {"timestamp": 0}}}',
        [" *trainer[0]:FAILED (exitcode: 9)", "        hostname: h", "        error_msg: boom"],
    ),
    "failed without a code": (
        0,
        "FAILED",
        '{"message": {"message": "boom", "errorCode": 0, "extraInfo": {"timestamp": 0}}}',
        [" *trainer[0]:FAILED (exitcode: <N/A>)"],
    ),
}


@pytest.mark.parametrize("case", REPLICAS)
def test_a_replica_has_a_line(case: str) -> None:
    """The first of a role is marked; an error file adds its time, host and message. As TorchX shows it."""
    number, state, error, lines = REPLICAS[case]
    texts: list[list[str]] = []
    for side in (ours, theirs):
        api = side("specs.api")
        replica = api.ReplicaStatus(number, api.AppState[state], "trainer", "h", error)
        status = api.AppStatus(api.AppState.FAILED, roles=[api.RoleStatus("trainer", [replica])])
        texts.append([line.rstrip() for line in status.format().splitlines() if line.strip()])
    assert set(lines) <= set(texts[0])
    assert texts[0] == texts[1]


def test_a_text_may_be_of_some_roles() -> None:
    """No role to filter by is every role; replicas come in their order."""
    roles = [
        specs.RoleStatus(name, [specs.ReplicaStatus(k, AppState.RUNNING, name, "h") for k in (1, 0)])
        for name in "ab"
    ]
    status = AppStatus(AppState.RUNNING, roles=roles)
    assert "a[0]" in status.format()
    assert "a[0]" in status.format([])
    assert "a[0]" not in status.format(["b"])
    assert status.format().index("a[0]") < status.format().index("a[1]")


@pytest.mark.parametrize(
    "handle",
    [
        "local://s/a",
        "local_cwd://torchx/app-1",
        "k8s://default/x.y",
        "local:///a",
        "local",
        "://s/a",
        "a://b",
        "",
    ],
)
def test_a_handle_is_parsed_as_by_torchx(handle: str) -> None:
    """Scheduler, session, app id, as a tuple with names; what is none is a MalformedAppHandleException."""

    def parsed(side: Any) -> Any:
        api = side("specs.api")
        try:
            return tuple(api.parse_app_handle(handle))
        except api.MalformedAppHandleException:
            return None

    assert parsed(ours) == parsed(theirs)
    assert specs.ParsedAppHandle._fields == ("scheduler_backend", "session_name", "app_id")


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("InvalidRunConfigException", ("bad", "key", {"key": 1}), ["bad", "key"]),
        ("MalformedAppHandleException", ("x:y",), ["x:y", "<scheduler_backend>://<session_name>/<app_id>"]),
        ("UnknownSchedulerException", ("slrum",), ["slrum"]),
        ("UnknownAppException", ("local://s/a",), ["local://s/a"]),
    ],
)
def test_errors_are_made_as_by_torchx(name: str, args: tuple[Any, ...], words: list[str]) -> None:
    """From the same arguments; the message has what was given."""
    for side in (ours, theirs):
        error = side(f"specs.api.{name}")(*args)
        assert all(word in str(error) for word in words)
        assert getattr(error, "cfg_key", "key") == "key"


@pytest.mark.parametrize(
    "name",
    [
        "AppHandle",
        "CfgVal",
        "get_type_name",
        "parse_app_handle",
        "is_terminal",
        "is_started",
        "AppStatusError",
        "runopts",
    ],
)
def test_other_names_are_there(name: str) -> None:
    """Where TorchX has them, and in ``specs`` itself."""
    assert ours(f"specs.api.{name}") is getattr(specs, name)
    assert theirs(f"specs.api.{name}") is not None


def test_an_app_is_roles_with_a_name() -> None:
    """As in the page's example."""
    trainer = Role(
        "trainer", "img", entrypoint="t", args=["--app_id", macros.app_id], env={"R": macros.img_root}
    )
    app = AppDef("train_app", roles=[trainer])
    assert (app.name, app.roles, app.metadata) == ("train_app", [trainer], {})
