"""Renders an app into what the engine is asked to create: a pure function of the app and this host."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from math import ceil
from types import MappingProxyType
from typing import cast

from torchx_core.errors import InvalidRunConfigException
from torchx_core.schedulers.docker.answers import Json
from torchx_core.schedulers.docker.hardware import GpuDealer, devices, limits, mounts, ports
from torchx_core.schedulers.docker.labels import alias, app_key, app_name, of_replica, replica_name
from torchx_core.schedulers.docker.records import Planned
from torchx_core.schedulers.docker.shim import DATA, REPORTS, STATE, ShimSettings, command
from torchx_core.schedulers.earlier_requests import REQUEST_FORMAT
from torchx_core.schedulers.option_values import count, of_the_app, one_of, seconds
from torchx_core.schedulers.options.docker import LOG_DRIVERS, NETWORKS, PULLS, SHIMS
from torchx_core.schedulers.secrets import MASK, mask_env, mask_value
from torchx_core.settings import ENV_TORCHX_IMAGE
from torchx_core.specs import AppDef, CfgVal, RetryPolicy, Role, macros

__all__ = [
    "DockerContainer",
    "DockerJob",
    "DockerRequest",
    "comparable_request",
    "masked",
    "remasked",
    "render",
]

RANK0_ENV = "TORCHX_RANK0_HOST"
_SEVERAL = 2
_UNBOUNDED_MB = 1_000_000


@dataclass
class DockerContainer:
    """One replica's container; may be changed before it is scheduled."""

    planned: Planned
    config: dict[str, object]
    """The body of ``POST /containers/create``."""

    @property
    def image(self) -> str:
        """The image."""
        return str(self.config["Image"])

    @property
    def kwargs(self) -> Mapping[str, object]:
        """What the app asked for, out of `config`, as docker-py's ``run`` names it; to read only."""
        host = cast("Json", self.config["HostConfig"])
        mounts = cast("list[Json]", host["Mounts"])
        devices = cast("list[dict[str, str]]", host["Devices"])
        variables = cast("list[str]", self.config["Env"])
        return MappingProxyType(
            {
                "environment": dict(each.split("=", 1) for each in variables),
                "mounts": [each for each in mounts if each["Target"] != DATA],
                "devices": [":".join(each.values()) for each in devices],
            }
        )


@dataclass
class DockerJob:
    """The containers of an app; may be changed before it is scheduled."""

    app_id: str
    containers: list[DockerContainer]


@dataclass(kw_only=True)
class DockerRequest(DockerJob):
    """What the Docker scheduler submits."""

    session: str
    app: AppDef
    cfg: Mapping[str, CfgVal]
    network: str | None
    """The network to create; None when the containers use another."""

    def __str__(self) -> str:
        """Show it for people; values that look secret are masked."""
        shown = {
            "app_id": self.app_id,
            "volume": app_name(self.session, self.app_id),
            "network": self.network,
            "containers": {c.planned.container: masked(c.config) for c in self.containers},
        }
        return json.dumps(shown, indent=2)


def render(app: AppDef, cfg: Mapping[str, CfgVal], *, app_id: str, session: str) -> DockerRequest:
    """Return the request; asks no engine.

    Args:
        app: The app.
        cfg: Resolved options.
        app_id: Its id.
        session: The session.

    Raises:
        InvalidRunConfigException: An option's value is not allowed.
    """
    one_of(cfg, "pull", PULLS)
    one_of(cfg, "shim", SHIMS)
    one_of(cfg, "log_driver", LOG_DRIVERS)
    planned = list(_plan(app, cfg, app_id, session))
    network = app_name(session, app_id) if _has_network(cfg, len(planned)) else None
    place = _Place(session, app_id, app, cfg, planned, network)
    dealer = GpuDealer(cfg)
    containers = [DockerContainer(p, _config(place, p, dealer)) for p in planned]
    return DockerRequest(app_id, containers, session=session, app=app, cfg=cfg, network=network)


@dataclass(frozen=True)
class _Place:
    """What all containers of the app share."""

    session: str
    app_id: str
    app: AppDef
    cfg: Mapping[str, CfgVal]
    planned: list[Planned]
    network: str | None

    @property
    def network_mode(self) -> str:
        """What ``HostConfig.NetworkMode`` is."""
        chosen = str(self.cfg["network"])
        return self.network or ("bridge" if chosen == "app" else chosen)

    @property
    def own_names(self) -> bool:
        """Whether the containers have host names of their own."""
        return self.network_mode not in {"host", "none"}

    @property
    def rank0(self) -> str:
        """Where the first replica of the first role is reached."""
        return self.planned[0].container if self.own_names else "localhost"


def _plan(app: AppDef, cfg: Mapping[str, CfgVal], app_id: str, session: str) -> Iterator[Planned]:
    several = sum(role.num_replicas for role in app.roles) >= _SEVERAL
    index = 0
    for i, role in enumerate(app.roles):
        alone = (
            role.retry_policy is RetryPolicy.REPLICA
            or (role.retry_policy is RetryPolicy.ROLE and role.num_replicas < _SEVERAL)
            or not several
        )
        if role.max_retries and not alone and cfg["shim"] == "none":
            raise InvalidRunConfigException(
                f"shim=none keeps no count of attempts, which roles[{i}].retry_policy"
                f" {role.retry_policy.value} needs; use shim=sh or RetryPolicy.REPLICA",
                "shim",
                cfg,
            )
        for k in range(role.num_replicas):
            yield Planned(
                index=index,
                role=role.name,
                replica=k,
                container=replica_name(session, app_id, role.name, k),
                policy=role.retry_policy.value,
                max_retries=role.max_retries,
                by_engine=alone and role.max_retries > 0,
            )
            index += 1


def _has_network(cfg: Mapping[str, CfgVal], replicas: int) -> bool:
    chosen = str(cfg.get("network") or "")
    if not chosen:
        raise InvalidRunConfigException(
            f"network must be one of {', '.join(NETWORKS)} or a network's name: {chosen!r}", "network", cfg
        )
    return chosen == "app" and replicas >= _SEVERAL


def _config(place: _Place, planned: Planned, dealer: GpuDealer) -> dict[str, object]:
    role = place.app.get_role(planned.role)
    values = macros.Values(
        img_root="", app_id=place.app_id, replica_id=str(planned.replica), rank0_env=RANK0_ENV
    )
    rendered = values.apply(role)
    argv = [rendered.entrypoint, *rendered.args]
    exposed, bindings = ports(role, _host_ip(place.cfg), publishes=place.own_names)
    config: dict[str, object] = {
        "Image": role.image,
        "Cmd": argv if place.cfg["shim"] == "none" else command(_settings(place, planned), argv),
        "Env": [f"{name}={value}" for name, value in _environment(place, planned, rendered).items()],
        "Labels": of_replica(place.session, place.app_id, planned.role, planned.replica, planned.index),
        "ExposedPorts": exposed,
        "HostConfig": {
            "Init": bool(place.cfg["init"]),
            "NetworkMode": place.network_mode,
            "Privileged": bool(place.cfg["privileged"]),
            "RestartPolicy": _restart_policy(planned),
            "PortBindings": bindings,
            "LogConfig": _log_config(place.cfg),
            "Mounts": [_data_mount(place), *mounts(role)],
            "Devices": devices(role),
            **limits(role, place.cfg, dealer),
        },
    }
    if place.own_names:
        config["Hostname"] = planned.container
    if place.network:
        names = {"Aliases": [alias(planned.role, planned.replica)]}
        config["NetworkingConfig"] = {"EndpointsConfig": {place.network: names}}
    return config


def _settings(place: _Place, planned: Planned) -> ShimSettings:
    return ShimSettings(
        key=app_key(place.session, place.app_id),
        index=planned.index,
        engine_retries=planned.max_retries if planned.by_engine else 0,
        max_retries=planned.max_retries,
        grace_s=ceil(seconds(place.cfg, "grace_s") or 0),
        watches_others=len(place.planned) >= _SEVERAL,
        timeout_s=_whole(place.cfg, "timeout_s"),
        deadline=_whole(place.cfg, "deadline"),
        lease_s=_whole(place.cfg, "lease_s"),
        has_init=bool(place.cfg["init"]),
    )


def _whole(cfg: Mapping[str, CfgVal], key: str) -> int | None:
    value = seconds(cfg, key)
    return None if value is None else ceil(value)


def _environment(place: _Place, planned: Planned, role: Role) -> dict[str, str]:
    """Return the variables; what the app sets itself counts most."""
    cfg = place.cfg
    patterns = cast("list[str] | None", cfg.get("copy_env")) or []
    copied = {
        name: value
        for name, value in sorted(os.environ.items())
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    return {
        "PYTHONUNBUFFERED": "x",
        **(_files(planned.index) if cfg["shim"] == "none" else {}),
        **copied,
        **(cast("dict[str, str] | None", cfg.get("env")) or {}),
        **role.env,
        RANK0_ENV: place.rank0,
        ENV_TORCHX_IMAGE: role.image,
        "TINI_KILL_PROCESS_GROUP": "1",
    }


def _files(index: int) -> dict[str, str]:
    """Return what the script would set."""
    return {
        "TORCHX_ATTEMPT": "0",
        "TORCHX_REPORT_FILE": f"{REPORTS}/{index}.0",
        "TORCHELASTIC_ERROR_FILE": f"{STATE}/error.{index}.0",
    }


def _host_ip(cfg: Mapping[str, CfgVal]) -> str:
    address = str(cfg["host_ip"])
    try:
        return str(ip_address(address))
    except ValueError as err:
        raise InvalidRunConfigException(
            f"host_ip must be an IP address of the engine's host, 0.0.0.0 for all of them: {address!r}",
            "host_ip",
            cfg,
        ) from err


def _restart_policy(planned: Planned) -> dict[str, object]:
    if not planned.by_engine:
        return {"Name": "no"}
    return {"Name": "on-failure", "MaximumRetryCount": planned.max_retries}


def _log_config(cfg: Mapping[str, CfgVal]) -> dict[str, object]:
    """Return the log driver, by default the one that keeps bytes as they are, whatever the engine's is.

    Source: ``json-file`` replaces what is not UTF-8, and any character that lies on the border of 16 KiB;
    ``local`` does not (seen on engine 20.10.24, which takes no size for "unbounded").
    """
    driver, most_mb = str(cfg["log_driver"]), count(cfg, "log_max_mb")
    if driver == "k8s-file":  # Podman's: one file, begun anew when it is full
        return {"Type": driver, "Config": {"max-size": f"{most_mb}m"} if most_mb else {}}
    size = {"max-size": f"{ceil(most_mb / 2)}m", "max-file": "2"} if most_mb else {}
    if driver == "local":
        size = {"max-size": f"{_UNBOUNDED_MB}m", "max-file": "1", "compress": "false", **size}
    return {"Type": driver, "Config": size}


def _data_mount(place: _Place) -> dict[str, object]:
    return {
        "Type": "volume",
        "Source": app_name(place.session, place.app_id),
        "Target": DATA,
        "VolumeOptions": {"NoCopy": True},
    }


def masked(document: Json) -> dict[str, object]:
    """Return the document with the values of variables that look secret replaced, at any depth."""
    shown: dict[str, object] = {}
    for key, value in document.items():
        if key == "Env":
            shown[key] = [_masked_pair(pair) for pair in cast("list[str] | None", value) or ()]
        else:
            shown[key] = masked(cast("Json", value)) if isinstance(value, Mapping) else value
    return shown


def _masked_pair(pair: str) -> str:
    name, _, value = pair.partition("=")
    return f"{name}={mask_value(name, value)}"


def comparable_request(app: AppDef, cfg: Mapping[str, CfgVal], salt: str, also: Container[str] = ()) -> Json:
    """Return app and cfg with secrets masked, and a digest of each secret.

    Two requests are the same when these values, made with one salt, are equal.

    Args:
        app: What is asked for.
        cfg: The options.
        salt: Of the digests.
        also: What else to mask: an earlier release took more for secrets.
    """
    secrets: dict[str, str] = {}
    document = app.to_dict()
    for role in cast("list[dict[str, object]]", document["roles"]):
        role["env"] = _hidden(cast("dict[str, str]", role["env"]), f"{role['name']}.env", salt, secrets, also)
    options: dict[str, object] = {**of_the_app(cfg)}
    if cfg.get("env"):
        options["env"] = _hidden(cast("dict[str, str]", cfg["env"]), "cfg.env", salt, secrets, also)
    return {"app": document, "cfg": options, "secrets": secrets, **REQUEST_FORMAT}


def remasked(app: AppDef, asked: Json, salt: str) -> Json:
    """Return a stored request as `comparable_request` gives it, though it was stored masking less."""
    secrets = dict(cast("dict[str, str]", asked["secrets"]))
    document = app.to_dict()
    for role in cast("list[dict[str, object]]", document["roles"]):
        role["env"] = _hidden(cast("dict[str, str]", role["env"]), f"{role['name']}.env", salt, secrets)
    options = cast("Json", asked["cfg"])
    if options.get("env"):
        env = _hidden(cast("dict[str, str]", options["env"]), "cfg.env", salt, secrets)
        options = {**options, "env": env}
    return {**asked, "app": document, "cfg": options, "secrets": secrets}


def _hidden(
    env: Mapping[str, str], path: str, salt: str, secrets: dict[str, str], also: Container[str] = ()
) -> dict[str, str]:
    shown = mask_env(env)
    for name, value in env.items():
        if f"{path}.{name}" in also and shown[name] == value:
            shown[name] = MASK
        if shown[name] != value:
            digest = hashlib.sha256(f"{salt}{value}".encode("utf-8", "surrogatepass"))
            secrets[f"{path}.{name}"] = digest.hexdigest()
    return shown
