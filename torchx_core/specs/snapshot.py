"""A private copy of somebody else's app, TorchX's own app objects included."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import fields
from enum import Enum
from typing import Final, TypeVar

from torchx_core.errors import InvalidAppError, did_you_mean
from torchx_core.specs.app import AppDef, RetryPolicy, Role
from torchx_core.specs.checks import is_list, is_map, show
from torchx_core.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from torchx_core.specs.resource import Resource
from torchx_core.specs.workspace import Workspace

__all__ = ["snapshot_app"]

T = TypeVar("T")
_APP_FIELDS: Final = ("name", "metadata")
_ROLE_FIELDS: Final = tuple(f.name for f in fields(Role) if f.compare and f.name != "overrides")
_RESOURCE_FIELDS: Final = tuple(f.name for f in fields(Resource))


def snapshot_app(obj: object, workspace: Workspace | str | None = None) -> AppDef:
    """Return a deep copy that nobody else holds, made of this package's types.

    Takes an AppDef of this package (subclasses of AppDef and Role stay what they are), one of
    ``torchx.specs``, or anything with the same attributes. TorchX is never imported. ``Role.overrides`` are
    made, applied and emptied. Nothing else is judged here: call `validate_app` next.

    Args:
        obj: The app.
        workspace: The workspace of the copy's first role, in place of its own, if one is given; TorchX's old
            way, before roles had their own.

    Raises:
        InvalidAppError: It is no app, or a part of it is nothing that this package knows.
    """
    given = getattr(obj, "roles", None)
    if not is_list(given):
        hint = "; use AppDef.from_dict for a map" if is_map(obj) else ""
        raise InvalidAppError("app", f"must be an AppDef with a list of roles: {show(obj)}{hint}")
    app = (
        _own_app(obj)
        if isinstance(obj, AppDef)
        else _taken_over(obj, AppDef(""), _APP_FIELDS, ["name"], "app")
    )
    app.roles = [_role(role, f"roles[{i}]") for i, role in enumerate(given)]
    chosen = Workspace.from_str(workspace) if isinstance(workspace, str) else workspace
    if chosen and app.roles:
        app.roles[0].workspace = Workspace(dict(chosen.projects))  # ours, also where TorchX's was given
    return app


def _own_app(app: AppDef) -> AppDef:
    # the memo keeps the roles out of the copy: they come one by one, and may be TorchX's, which hold locks
    return _copied(app, "app", keep=app.roles)


def _role(given: object, path: str) -> Role:
    _resolve_overrides(given, path)
    role = _own_role(given, path) if isinstance(given, Role) else _foreign_role(given, path)
    role.retry_policy = _retry_policy(role.retry_policy, f"{path}.retry_policy")
    role.resource = _resource(role.resource, f"{path}.resource")
    role.mounts = _mounts(role.mounts, f"{path}.mounts")
    role.workspace = _workspace(role.workspace, f"{path}.workspace")
    return role


def _foreign_role(given: object, path: str) -> Role:
    hook = getattr(type(given), "pre_proc", None)
    if hook is not None and not str(getattr(hook, "__module__", "")).startswith("torchx."):
        raise InvalidAppError(
            f"{path}.pre_proc", "is overridden; derive the role from torchx_core.specs.Role"
        )
    return _taken_over(given, Role("", ""), _ROLE_FIELDS, ["name", "image"], path)


def _own_role(given: Role, path: str) -> Role:
    role = _copied(given, path, keep=given.overrides)
    overridden = {name: _copied(getattr(given, name), path) for name in given.overrides}
    role.overrides = {}
    for name, value in overridden.items():
        setattr(role, name, value)
    return role


def _resolve_overrides(given: object, path: str) -> None:
    """Read what a role makes when it is read, by itself: its failure is not an absent field."""
    overrides: object = getattr(given, "overrides", None)
    for name in map(str, tuple(overrides)) if is_map(overrides) else ():
        where = f"{path}.overrides[{name!r}]"
        if name not in _ROLE_FIELDS:
            if not isinstance(given, Role):
                continue  # TorchX keeps things of its own there
            hint = did_you_mean(name, _ROLE_FIELDS)
            raise InvalidAppError(where, f"is not a field of a role; known: {', '.join(_ROLE_FIELDS)}{hint}")
        try:
            getattr(given, name)
        except Exception as err:  # the user's own function, or coroutine
            raise InvalidAppError(where, f"cannot be resolved: {type(err).__name__}: {err}") from err


def _retry_policy(given: object, path: str) -> RetryPolicy:
    value = given.value if isinstance(given, Enum) else given
    known = [policy.value for policy in RetryPolicy]
    if value not in known:
        raise InvalidAppError(path, f"must be one of {', '.join(known)}: {show(value)}")
    return RetryPolicy(value)


def _resource(given: object, path: str) -> Resource:
    if isinstance(given, Resource):
        return given
    return _taken_over(given, Resource(-1, -1, -1), _RESOURCE_FIELDS, ["cpu", "gpu", "memMB"], path)


def _mounts(given: object, path: str) -> list[Mount]:
    if not is_list(given):
        raise InvalidAppError(path, f"must be a list: {show(given)}")
    return [_mount(mount, f"{path}[{i}]") for i, mount in enumerate(given)]


def _mount(given: object, path: str) -> Mount:
    if isinstance(given, BindMount | VolumeMount | DeviceMount):
        return given
    empty: tuple[Mount, ...] = (VolumeMount("", ""), BindMount("", ""), DeviceMount("", ""))
    for mount in empty:
        names = [f.name for f in fields(mount)]
        if all(hasattr(given, name) for name in names):
            return _taken_over(given, mount, names, names, path)
    raise InvalidAppError(path, f"must be a BindMount, VolumeMount or DeviceMount: {show(given)}")


def _workspace(given: object, path: str) -> Workspace | None:
    if given is None or isinstance(given, Workspace):
        return given
    return _taken_over(given, Workspace({}), ["projects"], ["projects"], path)


def _taken_over(given: object, target: T, names: Collection[str], required: Collection[str], path: str) -> T:
    """Fill the target from the given object's attributes of the same names."""
    for name in names:
        if hasattr(given, name):
            setattr(target, name, _copied(getattr(given, name), f"{path}.{name}"))
        elif name in required:
            raise InvalidAppError(path, f"has no attribute {name!r}: {show(given)}")
    return target


def _copied(value: T, path: str, *, keep: object = None) -> T:
    try:
        return copy.deepcopy(value, {id(keep): keep})
    except TypeError as err:
        raise InvalidAppError(path, f"cannot be copied: {err}") from err
