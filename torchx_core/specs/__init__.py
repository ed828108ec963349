"""Apps, run options, handles and statuses: what to run, how, and how it went.

Names, fields and defaults are those of ``torchx.specs``.
"""

from __future__ import annotations

from torchx_core.errors import (
    AppStatusError,
    InvalidRunConfigException,
    MalformedAppHandleException,
    UnknownAppException,
    UnknownSchedulerException,
)
from torchx_core.specs.app import AppDef, RetryPolicy, Role
from torchx_core.specs.cfg_types import CfgVal, get_type_name
from torchx_core.specs.dryrun import AppDryRunInfo
from torchx_core.specs.handles import AppHandle, ParsedAppHandle, make_app_handle, parse_app_handle
from torchx_core.specs.macros import macros
from torchx_core.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount, parse_mounts
from torchx_core.specs.resource import NULL_RESOURCE, Resource
from torchx_core.specs.runopts import runopt, runopts
from torchx_core.specs.sentinels import ALL, MISSING, NONE, UNKNOWN
from torchx_core.specs.snapshot import snapshot_app
from torchx_core.specs.state import AppState, ReplicaState, is_started, is_terminal
from torchx_core.specs.status import AppStatus, ReplicaStatus, RoleStatus
from torchx_core.specs.validate import validate_app
from torchx_core.specs.workspace import Workspace

__all__ = [
    "ALL",
    "MISSING",
    "NONE",
    "NULL_RESOURCE",
    "UNKNOWN",
    "AppDef",
    "AppDryRunInfo",
    "AppHandle",
    "AppState",
    "AppStatus",
    "AppStatusError",
    "BindMount",
    "CfgVal",
    "DeviceMount",
    "InvalidRunConfigException",
    "MalformedAppHandleException",
    "MountType",
    "ParsedAppHandle",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "Role",
    "RoleStatus",
    "UnknownAppException",
    "UnknownSchedulerException",
    "VolumeMount",
    "Workspace",
    "get_type_name",
    "is_started",
    "is_terminal",
    "macros",
    "make_app_handle",
    "parse_app_handle",
    "parse_mounts",
    "runopt",
    "runopts",
    "snapshot_app",
    "validate_app",
]
