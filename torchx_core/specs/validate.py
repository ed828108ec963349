"""The checks that every app must pass before any scheduler sees it."""

from __future__ import annotations

from typing import TypeVar

from torchx_core.errors import InvalidAppError
from torchx_core.specs.app import AppDef, RetryPolicy, Role
from torchx_core.specs.checks import (
    show,
    want_app_metadata,
    want_bool,
    want_int,
    want_int_map,
    want_list,
    want_plain_map,
    want_str,
    want_str_list,
    want_str_map,
)
from torchx_core.specs.mounts import BindMount, DeviceMount, VolumeMount
from torchx_core.specs.resource import Resource
from torchx_core.specs.sentinels import MISSING
from torchx_core.specs.workspace import Workspace

__all__ = ["validate_app"]

T = TypeVar("T")
_MAX_PORT = 65535


def validate_app(app: AppDef) -> None:
    """Check what is true for every scheduler: types, counts, names, ports.

    Raises:
        InvalidAppError: The first thing found, with its path, for example ``roles[0].num_replicas``.
    """
    _instance(app, AppDef, "app")
    _name(app.name, "name")
    want_app_metadata(app.metadata, "metadata")
    roles = [_role(role, f"roles[{i}]") for i, role in enumerate(want_list(app.roles, "roles"))]
    if not roles:
        raise InvalidAppError("roles", "an app needs at least one role")
    _unique([role.name for role in roles])


def _unique(names: list[str]) -> None:
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name, i) != i:
            raise InvalidAppError(f"roles[{i}].name", f"{name!r} is the name of roles[{first[name]}] already")


def _role(value: object, path: str) -> Role:
    role = _instance(value, Role, path)
    _role_name(role.name, f"{path}.name")
    _text(role.image, f"{path}.image")
    _program(role, path)
    _env(role.env, f"{path}.env")
    _counts(role, path)
    _instance(role.retry_policy, RetryPolicy, f"{path}.retry_policy")
    _resource(role.resource, f"{path}.resource")
    _ports(role.port_map, f"{path}.port_map")
    want_plain_map(role.metadata, f"{path}.metadata")
    for i, mount in enumerate(want_list(role.mounts, f"{path}.mounts")):
        _mount(mount, f"{path}.mounts[{i}]")
    if role.workspace is not None:
        want_str_map(
            _instance(role.workspace, Workspace, f"{path}.workspace").projects, f"{path}.workspace.projects"
        )
    return role


def _role_name(name: object, path: str) -> None:
    text = _name(name, path)
    if "/" in text or not text.isprintable():  # replicas are addressed as role/0
        raise InvalidAppError(path, f"must not have '/' or control characters: {text!r}")


def _program(role: Role, path: str) -> None:
    entrypoint = _text(role.entrypoint, f"{path}.entrypoint")
    if entrypoint in ("", MISSING):
        raise InvalidAppError(f"{path}.entrypoint", "is not set; name the program to run")
    for i, arg in enumerate(want_str_list(role.args, f"{path}.args")):
        _text(arg, f"{path}.args[{i}]")


def _env(env: object, path: str) -> None:
    for key, value in want_str_map(env, path).items():
        if not key or "=" in key or "\0" in key:
            raise InvalidAppError(path, f"not a name of an environment variable: {key!r}")
        _text(key, path)
        _text(value, f"{path}[{key!r}]")


def _counts(role: Role, path: str) -> None:
    num_replicas = _at_least(1, role.num_replicas, f"{path}.num_replicas")
    _at_least(0, role.max_retries, f"{path}.max_retries")
    if role.min_replicas is not None:
        fewest = _at_least(1, role.min_replicas, f"{path}.min_replicas")
        if fewest > num_replicas:
            raise InvalidAppError(
                f"{path}.min_replicas", f"must not exceed num_replicas ({num_replicas}): {fewest}"
            )


def _resource(value: object, path: str) -> None:
    resource = _instance(value, Resource, path)
    want_int(resource.cpu, f"{path}.cpu")
    want_int(resource.gpu, f"{path}.gpu")
    want_int(resource.memMB, f"{path}.memMB")
    want_int_map(resource.devices, f"{path}.devices")
    want_plain_map(resource.capabilities, f"{path}.capabilities")
    want_plain_map(resource.tags, f"{path}.tags")


def _ports(value: object, path: str) -> None:
    for name, port in want_int_map(value, path).items():
        if not 1 <= port <= _MAX_PORT:
            raise InvalidAppError(f"{path}[{name!r}]", f"must be a port from 1 to {_MAX_PORT}: {port}")


def _mount(value: object, path: str) -> None:
    match value:
        case BindMount():
            _source_and_flag(value.src_path, "src_path", value.read_only, path)
        case VolumeMount():
            _source_and_flag(value.src, "src", value.read_only, path)
        case DeviceMount():
            _name(value.src_path, f"{path}.src_path")
            _permissions(value.permissions, f"{path}.permissions")
        case _:
            raise InvalidAppError(path, f"must be a BindMount, VolumeMount or DeviceMount: {show(value)}")
    _name(value.dst_path, f"{path}.dst_path")


def _source_and_flag(source: object, source_name: str, read_only: object, path: str) -> None:
    _name(source, f"{path}.{source_name}")
    want_bool(read_only, f"{path}.read_only")


def _permissions(value: object, path: str) -> None:
    text = want_str(value, path)
    if not text or set(text) - set("rwm"):
        raise InvalidAppError(path, f"must be some of the letters r, w, m: {text!r}")


def _name(value: object, path: str) -> str:
    text = _text(value, path)
    if not text:
        raise InvalidAppError(path, "must not be empty")
    return text


def _text(value: object, path: str) -> str:
    text = want_str(value, path)
    if "\0" in text:  # cannot be passed to any program, and ends the text early where it is not refused
        raise InvalidAppError(path, f"must not have a NUL byte: {show(text)}")
    try:
        text.encode("utf-8", "surrogateescape")  # undecodable bytes of a path are kept (PEP 383)
    except UnicodeEncodeError as err:
        raise InvalidAppError(path, f"must not have half a character: {show(text)}") from err
    return text


def _at_least(lowest: int, value: object, path: str) -> int:
    number = want_int(value, path)
    if number < lowest:
        raise InvalidAppError(path, f"must be at least {lowest}: {number}")
    return number


def _instance(value: object, cls: type[T], path: str) -> T:
    if not isinstance(value, cls):
        raise InvalidAppError(path, f"must be a {cls.__name__} of torchx_core.specs: {show(value)}")
    return value
