"""Apps, run options, handles and statuses: what to run, how, and how it went.

Names, fields and defaults are those of ``torchx.specs``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from torchx_core.errors import (
    AppStatusError,
    InvalidRunConfigException,
    MalformedAppHandleException,
    UnknownAppException,
    UnknownSchedulerException,
)
from torchx_core.specs.app import AppDef, RetryPolicy, Role
from torchx_core.specs.capabilities import CapabilityKey
from torchx_core.specs.cfg_types import CfgVal, get_type_name
from torchx_core.specs.dryrun import AppDryRunInfo
from torchx_core.specs.handles import (
    AppHandle,
    ParsedAppHandle,
    make_app_handle,
    parse_app_handle,
    split_place,
)
from torchx_core.specs.macros import macros
from torchx_core.specs.metadata_keys import NA, TORCHX_CONTEXT_NAME, app_metadata
from torchx_core.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount, parse_mounts
from torchx_core.specs.named_resources import get_named_resources, named_resources, resource
from torchx_core.specs.resource import NULL_RESOURCE, GiB, Resource
from torchx_core.specs.runopts import runopt, runopts
from torchx_core.specs.sentinels import ALL, MISSING, NONE, UNKNOWN
from torchx_core.specs.snapshot import snapshot_app
from torchx_core.specs.state import AppState, ReplicaState, is_started, is_terminal
from torchx_core.specs.status import AppStatus, LastLines, ReplicaStatus, RoleStatus
from torchx_core.specs.usage import Usage
from torchx_core.specs.validate import validate_app
from torchx_core.specs.workspace import Workspace

if TYPE_CHECKING:
    from torchx_core.specs.builders import materialize_appdef
    from torchx_core.specs.home import TORCHX_HOME
    from torchx_core.specs.overlays import (
        DEL,
        JOIN,
        PUT,
        OverlaySpec,
        apply_overlay,
        get_overlay,
        set_overlay,
        validate_overlay,
    )
    from torchx_core.specs.spelling import cases

__all__ = [
    "ALL",
    "DEL",
    "JOIN",
    "MISSING",
    "NA",
    "NONE",
    "NULL_RESOURCE",
    "PUT",
    "TORCHX_CONTEXT_NAME",
    "TORCHX_HOME",
    "UNKNOWN",
    "AppDef",
    "AppDryRunInfo",
    "AppHandle",
    "AppState",
    "AppStatus",
    "AppStatusError",
    "BindMount",
    "CapabilityKey",
    "CfgVal",
    "DeviceMount",
    "GiB",
    "InvalidRunConfigException",
    "LastLines",
    "MalformedAppHandleException",
    "MountType",
    "OverlaySpec",
    "ParsedAppHandle",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "Role",
    "RoleStatus",
    "UnknownAppException",
    "UnknownSchedulerException",
    "Usage",
    "VolumeMount",
    "Workspace",
    "app_metadata",
    "apply_overlay",
    "cases",
    "get_named_resources",
    "get_overlay",
    "get_type_name",
    "is_started",
    "is_terminal",
    "macros",
    "make_app_handle",
    "materialize_appdef",
    "named_resources",
    "parse_app_handle",
    "parse_mounts",
    "resource",
    "runopt",
    "runopts",
    "set_overlay",
    "snapshot_app",
    "split_place",
    "validate_app",
    "validate_overlay",
]

_OVERLAYS = (
    "DEL",
    "JOIN",
    "PUT",
    "OverlaySpec",
    "apply_overlay",
    "get_overlay",
    "set_overlay",
    "validate_overlay",
)
_LATER = {
    **dict.fromkeys(_OVERLAYS, "overlays"),
    "TORCHX_HOME": "home",
    "cases": "spelling",
    "materialize_appdef": "builders",
}


def __getattr__(name: str) -> object:
    """Import what few apps need when it is first used (PEP 562), and what lies above this package."""
    if name not in _LATER:
        raise AttributeError(f"module 'torchx_core.specs' has no attribute {name!r}")
    return getattr(import_module(f"torchx_core.specs.{_LATER[name]}"), name)
