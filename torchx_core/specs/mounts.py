"""Mounts of a role, as objects and as ``type=bind,src=…,dst=…`` options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from torchx_core.errors import InvalidMountError, did_you_mean

__all__ = ["BindMount", "DeviceMount", "Mount", "MountType", "VolumeMount", "mount_type", "parse_mounts"]


class MountType(str, Enum):
    """The value of ``type=``."""

    BIND = "bind"
    VOLUME = "volume"
    DEVICE = "device"


@dataclass
class BindMount:
    """A path of the host, seen by the replica.

    Args:
        src_path: On the host; ``~`` at its start is the home directory of whoever submits.
        dst_path: In the replica.
        read_only: Whether the replica may only read it.
    """

    src_path: str
    dst_path: str
    read_only: bool = False


@dataclass
class VolumeMount:
    """A volume that the backend keeps by name.

    Args:
        src: Name or id of the volume.
        dst_path: In the replica.
        read_only: Whether the replica may only read it.
    """

    src: str
    dst_path: str
    read_only: bool = False


@dataclass
class DeviceMount:
    """A device of the host, given to the replica.

    Args:
        src_path: On the host, for example ``/dev/fuse``.
        dst_path: In the replica.
        permissions: Some of ``r`` (read), ``w`` (write), ``m`` (mknod).
    """

    src_path: str
    dst_path: str
    permissions: str = "rwm"


Mount: TypeAlias = BindMount | VolumeMount | DeviceMount


def mount_type(mount: Mount) -> MountType:
    """Return what ``type=`` would be."""
    match mount:
        case BindMount():
            return MountType.BIND
        case VolumeMount():
            return MountType.VOLUME
        case DeviceMount():
            return MountType.DEVICE
        case _:
            assert_never(mount)


_CANONICAL = {
    "type": "type",
    "src": "src",
    "source": "src",
    "dst": "dst",
    "destination": "dst",
    "target": "dst",
    "readonly": "readonly",
    "read_only": "readonly",
    "perm": "perm",
    "permissions": "perm",
}
_OPTIONS = {
    MountType.BIND: ("src", "dst", "readonly"),
    MountType.VOLUME: ("src", "dst", "readonly"),
    MountType.DEVICE: ("src", "dst", "perm"),
}
_FLAG = {"": True, "true": True, "1": True, "false": False, "0": False}


def parse_mounts(opts: Sequence[str]) -> list[Mount]:
    """Read mounts from options in Docker's style, already split at the commas.

    Each ``type=`` starts a mount. Aliases: ``source``; ``destination``, ``target``; ``read_only``;
    ``permissions``. ``dst`` of a device defaults to its ``src``.

    Raises:
        InvalidMountError: The path is ``mounts[<position of the option>]``.

    Example:
        >>> parse_mounts(["type=bind", "src=/data", "dst=/in", "readonly"])
        [BindMount(src_path='/data', dst_path='/in', read_only=True)]
    """
    return [_build(start, kind, given) for start, kind, given in _group(opts)]


_Group: TypeAlias = tuple[int, MountType, dict[str, tuple[int, str]]]


def _group(opts: Sequence[str]) -> list[_Group]:
    groups: list[_Group] = []
    for position, opt in enumerate(opts):
        name, _, value = opt.partition("=")
        key = _key(position, opt, name)
        if key == "type":
            groups.append((position, _type(position, opt, value), {}))
        elif not groups:
            raise _invalid(position, opt, "type must be specified first: bind, volume or device")
        else:
            _put(groups[-1], position, opt, key, value)
    return groups


def _key(position: int, opt: str, name: str) -> str:
    if name not in _CANONICAL:
        hint = did_you_mean(name, _CANONICAL.values(), _CANONICAL)
        raise _invalid(
            position, opt, f"unknown mount option {name}, must be one of {', '.join(_CANONICAL)}{hint}"
        )
    return _CANONICAL[name]


def _type(position: int, opt: str, value: str) -> MountType:
    known = [t.value for t in MountType]
    if value not in known:
        hint = did_you_mean(value, known)
        raise _invalid(
            position, opt, f"invalid mount type {value!r}, must be one of {', '.join(known)}{hint}"
        )
    return MountType(value)


def _put(group: _Group, position: int, opt: str, key: str, value: str) -> None:
    _, kind, given = group
    if key not in _OPTIONS[kind]:
        raise _invalid(
            position, opt, f"not an option of a {kind.value} mount; allowed: {', '.join(_OPTIONS[kind])}"
        )
    if key in given:
        raise _invalid(position, opt, f"{key} is given twice, first at mounts[{given[key][0]}]")
    given[key] = (position, value)


def _build(start: int, kind: MountType, given: dict[str, tuple[int, str]]) -> Mount:
    src = _need(start, kind, given, "src")
    if kind is MountType.DEVICE:
        return DeviceMount(src, given["dst"][1] if "dst" in given else src, _permissions(given))
    dst = _need(start, kind, given, "dst")
    if kind is MountType.VOLUME:
        return VolumeMount(src, dst, _flag(given))
    return BindMount(src, dst, _flag(given))


def _need(start: int, kind: MountType, given: dict[str, tuple[int, str]], key: str) -> str:
    position, value = given.get(key, (start, ""))
    if not value:
        raise _invalid(position, f"type={kind.value}", f"needs {key}=<value>")
    return value


def _flag(given: dict[str, tuple[int, str]]) -> bool:
    if "readonly" not in given:
        return False
    position, value = given["readonly"]
    if value.lower() not in _FLAG:
        raise _invalid(position, f"readonly={value}", "expected readonly, readonly=true or readonly=false")
    return _FLAG[value.lower()]


def _permissions(given: dict[str, tuple[int, str]]) -> str:
    if "perm" not in given:
        return "rwm"
    position, value = given["perm"]
    if not value or set(value) - set("rwm"):
        raise _invalid(position, f"perm={value}", "expected some of the letters r, w, m")
    return value


def _invalid(position: int, given: str, problem: str) -> InvalidMountError:
    return InvalidMountError(f"mounts[{position}]", f"{given!r}: {problem}")
