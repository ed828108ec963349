"""The request: a pure function of the app, its options and this host; no engine is asked."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.errors import InvalidAppError, InvalidRunConfigException
from torchx_core.schedulers.docker import DockerScheduler, create_scheduler
from torchx_core.schedulers.docker.labels import alias, app_key, app_name, record_name, replica_name
from torchx_core.schedulers.docker.request import DockerRequest
from torchx_core.schedulers.docker.shim import ShimSettings, command, parse_marker
from torchx_core.specs import (
    AppDef,
    BindMount,
    CfgVal,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    macros,
)

_DOCKER_NAME = "[a-zA-Z0-9][a-zA-Z0-9_.-]*"


@pytest.fixture
def scheduler() -> DockerScheduler:
    """A scheduler whose engine is nowhere."""
    return create_scheduler("s", docker_host="unix:///no/such.sock")


def render(scheduler: DockerScheduler, *roles: Role, **cfg: CfgVal) -> DockerRequest:
    """The request for an app of the id ``one``."""
    return scheduler.submit_dryrun(AppDef("app", list(roles)), cfg, app_id="one").request


def host(request: DockerRequest, index: int = 0) -> dict[str, object]:
    """The container's ``HostConfig``."""
    return cast("dict[str, object]", request.containers[index].config["HostConfig"])


def environment(request: DockerRequest, index: int = 0) -> dict[str, str]:
    """The container's variables."""
    pairs = cast("list[str]", request.containers[index].config["Env"])
    return dict(pair.split("=", 1) for pair in pairs)


def role(name: str = "w", **fields: object) -> Role:
    """A role that does nothing."""
    return Role(name, "image", **{"entrypoint": "true", **fields})  # type: ignore[arg-type]  # a test's own


def test_one_app_has_one_request(scheduler: DockerScheduler) -> None:
    """Two dry runs of one id are equal, also in another process; another id is another request."""
    roles = role(num_replicas=2), role("b")
    assert render(scheduler, *roles) == render(scheduler, *roles)
    other = scheduler.submit_dryrun(AppDef("app", list(roles)), {}).request
    assert other.app_id != "one"


def test_it_is_shown_as_json_with_secrets_masked(scheduler: DockerScheduler) -> None:
    """Everything that will be created, by name."""
    request = render(
        scheduler, role(env={"A_TOKEN": "hush", "B": "plain"}, num_replicas=2), env={"PASSWORD": "hush"}
    )
    shown = json.loads(str(request))
    assert "hush" not in str(request)
    assert [*shown["containers"]] == [c.planned.container for c in request.containers]
    (first, _) = shown["containers"].values()
    assert {"A_TOKEN=***", "B=plain", "PASSWORD=***"} <= set(first["Env"])
    assert shown["network"] == shown["volume"] == app_name("s", "one")


def test_the_script_runs_the_program_with_its_arguments(scheduler: DockerScheduler) -> None:
    """As they are, macros filled in; without the script the container runs it itself."""
    given = role(args=["a b", "$HOME", f"{macros.app_id}/{macros.replica_id}", "'; echo"], num_replicas=2)
    argv = ["true", "a b", "$HOME", "one/1", "'; echo"]
    assert cast("list[str]", render(scheduler, given).containers[1].config["Cmd"])[4:] == argv
    assert render(scheduler, given, shim="none").containers[1].config["Cmd"] == argv


def test_what_a_role_needs_of_the_host(scheduler: DockerScheduler) -> None:
    """Cores, memory, shared memory, devices, mounts."""
    resource = Resource(cpu=2, gpu=1, memMB=64, devices={"vpc.amazonaws.com/efa": 1})
    given = [
        BindMount("/host", "/in", read_only=True),
        VolumeMount("data", "/data"),
        DeviceMount("/dev/fuse", "/dev/fuse2", "rw"),
    ]
    config = host(render(scheduler, role(resource=resource, mounts=given)))
    assert (config["NanoCpus"], config["Memory"], config["ShmSize"]) == (2_000_000_000, 64 << 20, 64 << 20)
    assert config["DeviceRequests"] == [{"Driver": "", "Count": 1, "Capabilities": [["compute", "utility"]]}]
    assert config["Mounts"][1:] == [  # type: ignore[index]  # a list
        {"Type": "bind", "Source": "/host", "Target": "/in", "ReadOnly": True},
        {"Type": "volume", "Source": "data", "Target": "/data", "ReadOnly": False},
    ]
    assert [tuple(d.values()) for d in cast("list[dict[str, str]]", config["Devices"])] == [
        ("/dev/fuse", "/dev/fuse2", "rw"),
        ("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0", "rwm"),
    ]
    assert host(render(scheduler, role(resource=resource), shm_mb=7))["ShmSize"] == 7 << 20


def test_it_can_be_read_in_the_words_of_docker_py(scheduler: DockerScheduler) -> None:
    """As TorchX's requests: what the app asked for, without what this scheduler adds; to read only."""
    given = [VolumeMount("data", "/data"), DeviceMount("/dev/fuse", "/dev/fuse2", "rw")]
    kwargs = render(scheduler, role(mounts=given, env={"A": "b=c"})).containers[0].kwargs
    assert kwargs["mounts"] == [{"Type": "volume", "Source": "data", "Target": "/data", "ReadOnly": False}]
    assert kwargs["devices"] == ["/dev/fuse:/dev/fuse2:rw"]
    assert cast("dict[str, str]", kwargs["environment"])["A"] == "b=c"
    with pytest.raises(TypeError):
        kwargs["privileged"] = True  # type: ignore[index]  # that is the point


def test_a_mount_below_the_home_is_found(scheduler: DockerScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine takes absolute paths alone, and is not told ``~``."""
    monkeypatch.setenv("HOME", "/home/me")
    config = host(render(scheduler, role(mounts=[BindMount("~/data", "/in"), VolumeMount("~v", "/v")])))
    assert [m["Source"] for m in cast("list[dict[str, str]]", config["Mounts"])[1:]] == [
        "/home/me/data",
        "~v",
    ]


def test_no_wish_is_no_limit(scheduler: DockerScheduler) -> None:
    """What a role does not ask for is the engine's to choose."""
    config = host(render(scheduler, role()))
    assert not {"NanoCpus", "Memory"} & config.keys()
    assert config["ShmSize"] == 1 << 30  # at most: it takes what is written to it
    assert (config["DeviceRequests"], config["Privileged"], config["Init"]) == ([], False, True)


def test_gpus_are_dealt_out_in_order(scheduler: DockerScheduler) -> None:
    """No device goes to two replicas; too few are refused."""
    two = role(num_replicas=2, resource=Resource(cpu=-1, gpu=2, memMB=-1))
    request = render(scheduler, two, gpu_ids=["0", "1", "2", "GPU-3"])
    ids = [
        cast("list[dict[str, object]]", host(request, i)["DeviceRequests"])[0]["DeviceIDs"] for i in (0, 1)
    ]
    assert ids == [["0", "1"], ["2", "GPU-3"]]
    with pytest.raises(InvalidRunConfigException, match="too few"):
        render(scheduler, two, gpu_ids=["0", "1", "2"])


def test_too_little_memory_is_refused(scheduler: DockerScheduler) -> None:
    """By the place in the app, before the engine says it in its own words."""
    with pytest.raises(InvalidAppError, match=r"roles\[0\].resource.memMB: .* at least 6 MB: 4"):
        render(scheduler, role(resource=Resource(cpu=1, gpu=0, memMB=4)))


def test_an_unknown_device_is_left_out(scheduler: DockerScheduler, caplog: pytest.LogCaptureFixture) -> None:
    """As in TorchX, and said."""
    odd = role(resource=Resource(cpu=-1, gpu=-1, memMB=-1, devices={"no/such": 1}))
    assert host(render(scheduler, odd))["Devices"] == []
    assert "no/such" in caplog.text


def test_ports_are_published(scheduler: DockerScheduler) -> None:
    """As themselves where the role has one replica; free ones of the engine's choice where it has several."""
    ports = {"http": 8080}
    request = render(scheduler, role(port_map=ports), role("b", port_map=ports, num_replicas=2))
    assert host(request)["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]}
    assert host(request, 1)["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert request.containers[1].config["ExposedPorts"] == {"8080/tcp": {}}
    assert host(render(scheduler, role(port_map=ports), network="host"))["PortBindings"] == {}


def test_an_engine_without_an_init_program(scheduler: DockerScheduler) -> None:
    """The container asks for none, and the script passes signals on itself."""
    without = render(scheduler, role(), init=False)
    assert host(without)["Init"] is False
    assert "tx_init=\n" in cast("list[str]", without.containers[0].config["Cmd"])[2]
    assert "tx_init=1\n" in cast("list[str]", render(scheduler, role()).containers[0].config["Cmd"])[2]


@pytest.mark.parametrize(
    ("driver", "most_mb", "config"),
    [
        ("local", None, {"max-size": "1000000m", "max-file": "1", "compress": "false"}),
        ("local", 5, {"max-size": "3m", "max-file": "2", "compress": "false"}),
        ("json-file", None, {}),
        ("json-file", 5, {"max-size": "3m", "max-file": "2"}),
        ("k8s-file", None, {}),
        ("k8s-file", 5, {"max-size": "5m"}),
    ],
)
def test_log_drivers(
    scheduler: DockerScheduler, driver: str, most_mb: int | None, config: dict[str, str]
) -> None:
    """Each is told in its own words that all is to be kept, or how much."""
    request = render(scheduler, role(), log_driver=driver, log_max_mb=most_mb)
    assert host(request)["LogConfig"] == {"Type": driver, "Config": config}


def test_a_log_driver_that_nothing_can_be_read_of(scheduler: DockerScheduler) -> None:
    """The dry run refuses it, and says which there are."""
    with pytest.raises(
        InvalidRunConfigException, match="log_driver must be one of local, json-file, k8s-file"
    ):
        render(scheduler, role(), log_driver="none")


@pytest.mark.parametrize("address", ["192.0.2.7", "10.1.2.3", "::1"])
def test_ports_are_published_on_a_chosen_address(scheduler: DockerScheduler, address: str) -> None:
    """Loopback is the default, because whoever reaches a port of a notebook owns the account behind it."""
    request = render(scheduler, role(port_map={"http": 8080}), host_ip=address)
    assert host(request)["PortBindings"] == {"8080/tcp": [{"HostIp": address, "HostPort": "8080"}]}


@pytest.mark.parametrize("address", ["", "localhost", "10.0.0.0/8", "1.2.3"])
def test_an_address_to_publish_on_is_a_number(scheduler: DockerScheduler, address: str) -> None:
    """The engine knows no names; the error says so before anything is submitted."""
    with pytest.raises(InvalidRunConfigException, match="host_ip must be an IP address of the engine's host"):
        render(scheduler, role(), host_ip=address)


def test_variables_by_rank(scheduler: DockerScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app's own win over ``env``, which wins over what is copied by patterns."""
    for name in ("COPY_A", "COPY_B", "COPY_C", "OTHER"):
        monkeypatch.setenv(name, "copied")
    given = role(env={"COPY_C": "app"})
    env = environment(render(scheduler, given, copy_env=["COPY_*"], env={"COPY_B": "cfg", "COPY_C": "cfg"}))
    assert (env["COPY_A"], env["COPY_B"], env["COPY_C"]) == ("copied", "cfg", "app")
    assert "OTHER" not in env
    assert env["TORCHX_IMAGE"] == "image"


@pytest.mark.parametrize(
    ("network", "replicas", "mode", "created", "rank0"),
    [
        ("app", 1, "bridge", False, "name"),
        ("app", 2, "own", True, "name"),
        ("bridge", 2, "bridge", False, "name"),
        ("host", 2, "host", False, "localhost"),
        ("none", 1, "none", False, "localhost"),
        ("mine", 2, "mine", False, "name"),
    ],
)
def test_networks(
    scheduler: DockerScheduler, network: str, replicas: int, mode: str, *, created: bool, rank0: str
) -> None:
    """An app of several replicas has one of its own unless told otherwise; the first replica has a name."""
    request = render(scheduler, role(num_replicas=replicas), network=network)
    name = request.containers[0].planned.container
    assert host(request)["NetworkMode"] == (app_name("s", "one") if mode == "own" else mode)
    assert request.network == (app_name("s", "one") if created else None)
    assert environment(request)["TORCHX_RANK0_HOST"] == (name if rank0 == "name" else rank0)
    assert request.containers[0].config.get("Hostname") == (name if rank0 == "name" else None)


@pytest.mark.parametrize(
    ("policy", "replicas", "others", "by_engine"),
    [
        (RetryPolicy.REPLICA, 2, 1, True),
        (RetryPolicy.ROLE, 1, 1, True),
        (RetryPolicy.ROLE, 2, 0, False),
        (RetryPolicy.APPLICATION, 1, 0, True),
        (RetryPolicy.APPLICATION, 1, 1, False),
        (RetryPolicy.APPLICATION, 2, 0, False),
    ],
)
def test_the_engine_restarts_what_restarts_alone(
    scheduler: DockerScheduler, policy: RetryPolicy, replicas: int, others: int, *, by_engine: bool
) -> None:
    """What restarts together is restarted by whoever follows."""
    roles = [role(max_retries=3, retry_policy=policy, num_replicas=replicas)]
    request = render(scheduler, *roles, *[role("other")] * others)
    expected = {"Name": "on-failure", "MaximumRetryCount": 3} if by_engine else {"Name": "no"}
    assert host(request)["RestartPolicy"] == expected
    assert request.containers[0].planned.by_engine == by_engine
    assert host(render(scheduler, role()))["RestartPolicy"] == {"Name": "no"}


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"pull": "sometimes"}, "pull must be one of missing, always, never"),
        ({"shim": "bash"}, "shim must be one of sh, none"),
        ({"network": ""}, "network must be one of"),
        ({"grace_s": -1.0}, "grace_s must be"),
        ({"lease_s": 0.0}, "lease_s must be"),
        ({"timeout_s": float("inf")}, "timeout_s must be"),
        ({"shm_mb": 0}, "shm_mb must be"),
        ({"log_max_mb": -1}, "log_max_mb must be"),
    ],
)
def test_options_are_checked_before_anything_is_submitted(
    scheduler: DockerScheduler, cfg: dict[str, CfgVal], message: str
) -> None:
    """By name, with what is allowed."""
    with pytest.raises(InvalidRunConfigException, match=message):
        render(scheduler, role(), **cfg)


def test_the_watcher_is_as_quick_as_it_has_to_be() -> None:
    """It looks every few seconds, and not at all when there is nothing to watch."""

    def tick(**settings: object) -> int | None:
        alone = {
            "key": "k",
            "index": 0,
            "engine_retries": 0,
            "max_retries": 0,
            "grace_s": 1,
            "watches_others": False,
        }
        return ShimSettings(**{**alone, **settings}).tick_s  # type: ignore[arg-type]  # a test's own

    assert tick() is None
    assert (tick(watches_others=True), tick(deadline=9), tick(lease_s=2)) == (2, 5, 1)
    assert (tick(lease_s=3600), tick(lease_s=16, watches_others=True)) == (5, 2)


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.integers(0, 99_999))
def test_names_fit_everywhere(session: str, app_id: str, name: str, replica: int) -> None:
    """Whatever people call things: containers, host names and volumes have names that Docker takes."""
    import re

    container = replica_name(session, app_id, name, replica)
    volume = record_name(app_name(session, app_id), "0123456789ab", "restart.1000")
    for text, longest in ((container, 63), (alias(name, replica), 63), (volume, 200)):
        assert re.fullmatch(_DOCKER_NAME, text)
        assert len(text) <= longest


def test_names_are_apart() -> None:
    """Sessions, ids and roles that look alike to Docker are not mixed up."""
    keys = {app_key(s, a) for s, a in (("a", "b/c"), ("a/b", "c"), ("A", "b"), ("a", "b"), ("a", "B"))}
    assert len(keys) == 5
    names = {replica_name("s", "a", r, 0) for r in ("x y", "x-y", "X-y", "x_y", "x" * 30, "x" * 31)}
    assert len(names) == 6


@given(st.binary(max_size=40))
def test_only_the_script_marks_attempts(line: bytes) -> None:
    """No line of a program is taken for a mark, except that very one."""
    assert parse_marker(line, "54b078eb6902") is None
    assert parse_marker(b"\x1etorchx:54b078eb6902:12\n", "54b078eb6902") == 12
    assert parse_marker(b"\x1etorchx:54b078eb6902:12\n", "000000000000") is None


def test_the_script_is_a_constant() -> None:
    """What differs between replicas is in its first line, as numbers and a key: nothing can be injected."""
    settings = ShimSettings(
        key="k", index=3, engine_retries=1, max_retries=2, grace_s=4, watches_others=True, lease_s=80
    )
    shell, option, script, name, *argv = command(settings, ["prog", "$x"])
    assert (shell, option, name, argv) == ("/bin/sh", "-c", "torchx", ["prog", "$x"])
    header, _, _ = script.partition("\n")
    assert header == (
        "tx_key=k tx_i=3 tx_engine=1 tx_last=2 tx_grace=4 tx_tick=2 tx_timeout= tx_until="
        " tx_lease=80 tx_init=1"
    )
