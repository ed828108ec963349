"""Apps as plain values, YAML and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Final, TypeAlias, TypeVar, assert_never

from torchx_core.errors import InvalidAppError, did_you_mean
from torchx_core.specs.app import AppDef, RetryPolicy, Role
from torchx_core.specs.checks import (
    show,
    want_app_metadata,
    want_bool,
    want_fields,
    want_int,
    want_int_map,
    want_list,
    want_map,
    want_plain,
    want_plain_map,
    want_str,
    want_str_list,
    want_str_map,
)
from torchx_core.specs.mounts import BindMount, DeviceMount, Mount, MountType, VolumeMount, mount_type
from torchx_core.specs.resource import Resource
from torchx_core.specs.workspace import Workspace

__all__ = ["from_dict", "from_json", "from_yaml", "to_dict", "to_json", "to_yaml"]

T = TypeVar("T")
_Reader: TypeAlias = Callable[[object, str], object]


def to_dict(app: AppDef) -> dict[str, object]:
    """Return the whole app as plain JSON values, defaults included.

    A subclass of Role is written as a Role: its own fields and its ``pre_proc`` are code, not data. What
    `Role.overrides` has for a field is written as that field.

    Raises:
        InvalidAppError: Something in it is no plain data.
    """
    return {
        "name": app.name,
        "roles": [_write_role(role, f"roles[{i}]") for i, role in enumerate(app.roles)],
        "metadata": want_plain(app.metadata, "metadata"),
    }


def _write_role(role: Role, path: str) -> dict[str, object]:
    written = {f.name: getattr(role, f.name) for f in fields(Role) if f.compare}
    mounts = [_write_mount(mount) for mount in role.mounts]
    written["overrides"] = {}
    written |= {"resource": asdict(role.resource), "mounts": mounts, "retry_policy": role.retry_policy.value}
    if role.workspace is not None:
        written["workspace"] = asdict(role.workspace)
    return {name: want_plain(value, f"{path}.{name}") for name, value in written.items()}


def _write_mount(mount: Mount) -> dict[str, object]:
    return {"type": mount_type(mount).value, **asdict(mount)}


def from_dict(data: Mapping[str, object]) -> AppDef:
    """Build an app; fields with a default may be left out.

    Raises:
        InvalidAppError: With the path of what is wrong.
    """
    app = AppDef(name="")
    for name, value in want_fields(data, "app", _APP, ["name"]).items():
        setattr(app, name, _APP[name](value, name))
    return app


def to_yaml(app: AppDef) -> str:
    """Return YAML for people: fields that have their default value are left out."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes a text of several lines in lines."""

        def represent_str(self, data: str) -> yaml.ScalarNode:
            node = super().represent_str(data)
            node.style = "|" if "\n" in data else node.style
            return node

    Dumper.add_representer(str, Dumper.represent_str)
    data = to_dict(app)
    data["roles"] = [_compact(role) for role in app.roles]
    if not app.metadata:
        del data["metadata"]
    return yaml.dump(data, Dumper=Dumper, sort_keys=False)


def _compact(role: Role) -> dict[str, object]:
    defaults = _write_role(Role(name="", image=""), "role")
    always = ("name", "image")
    return {k: v for k, v in _write_role(role, "role").items() if k in always or v != defaults[k]}


def from_yaml(text: str) -> AppDef:
    """Read YAML; raises as `from_dict` does."""
    import yaml

    try:
        data: object = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as err:  # nested too deeply to be an app
        raise InvalidAppError("app", f"not YAML: {err}") from err
    return from_dict(want_map(data, "app"))


def to_json(app: AppDef) -> str:
    """Return one line of JSON, defaults included."""
    return json.dumps(to_dict(app))


def from_json(text: str) -> AppDef:
    """Read JSON; raises as `from_dict` does."""
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise InvalidAppError("app", f"not JSON: {err}") from err
    return from_dict(want_map(data, "app"))


def _read_roles(value: object, path: str) -> list[Role]:
    return [_read_role(item, f"{path}[{i}]") for i, item in enumerate(want_list(value, path))]


def _read_role(value: object, path: str) -> Role:
    return _fill(Role(name="", image=""), value, path, _ROLE, ["name", "image"])


def _read_resource(value: object, path: str) -> Resource:
    return _fill(Resource(cpu=0, gpu=0, memMB=0), value, path, _RESOURCE, ["cpu", "gpu", "memMB"])


def _read_mounts(value: object, path: str) -> list[Mount]:
    return [_read_mount(item, f"{path}[{i}]") for i, item in enumerate(want_list(value, path))]


def _read_mount(value: object, path: str) -> Mount:
    given = want_map(value, path)
    kind = MountType(_choice(given.pop("type", None), f"{path}.type", [kind.value for kind in MountType]))
    match kind:
        case MountType.BIND:
            return _fill(BindMount("", ""), given, path, _BIND, ["src_path", "dst_path"])
        case MountType.VOLUME:
            return _fill(VolumeMount("", ""), given, path, _VOLUME, ["src", "dst_path"])
        case MountType.DEVICE:
            return _fill(DeviceMount("", ""), given, path, _DEVICE, ["src_path", "dst_path"])
        case _:
            assert_never(kind)


def _read_workspace(value: object, path: str) -> Workspace | None:
    if value is None:
        return None
    return _fill(Workspace({}), value, path, {"projects": want_str_map}, ["projects"])


def _read_retry_policy(value: object, path: str) -> RetryPolicy:
    return RetryPolicy(_choice(value, path, [policy.value for policy in RetryPolicy]))


def _read_optional_int(value: object, path: str) -> int | None:
    return None if value is None else want_int(value, path)


def _choice(value: object, path: str, known: list[str]) -> str:
    if value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise InvalidAppError(path, f"must be one of {', '.join(known)}: {show(value)}{hint}")
    return str(value)


def _fill(target: T, value: object, path: str, readers: Mapping[str, _Reader], required: list[str]) -> T:
    for name, item in want_fields(value, path, readers, required).items():
        setattr(target, name, readers[name](item, f"{path}.{name}"))
    return target


_BIND: Final[Mapping[str, _Reader]] = {"src_path": want_str, "dst_path": want_str, "read_only": want_bool}
_VOLUME: Final[Mapping[str, _Reader]] = {"src": want_str, "dst_path": want_str, "read_only": want_bool}
_DEVICE: Final[Mapping[str, _Reader]] = {"src_path": want_str, "dst_path": want_str, "permissions": want_str}
_RESOURCE: Final[Mapping[str, _Reader]] = {
    "cpu": want_int,
    "gpu": want_int,
    "memMB": want_int,
    "capabilities": want_plain_map,
    "devices": want_int_map,
    "tags": want_plain_map,
}
_ROLE: Final[Mapping[str, _Reader]] = {
    "name": want_str,
    "image": want_str,
    "min_replicas": _read_optional_int,
    "entrypoint": want_str,
    "args": want_str_list,
    "env": want_str_map,
    "num_replicas": want_int,
    "max_retries": want_int,
    "retry_policy": _read_retry_policy,
    "resource": _read_resource,
    "port_map": want_int_map,
    "metadata": want_plain_map,
    "mounts": _read_mounts,
    "workspace": _read_workspace,
    "overrides": want_plain_map,
}
_APP: Final[Mapping[str, _Reader]] = {"name": want_str, "roles": _read_roles, "metadata": want_app_metadata}
