"""The names of ``torchx.specs.api``, for imports that had ``torchx`` in the place of ``torchx_core``."""

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
from torchx_core.specs.handles import AppHandle, ParsedAppHandle, parse_app_handle
from torchx_core.specs.home import TORCHX_HOME
from torchx_core.specs.macros import macros
from torchx_core.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount
from torchx_core.specs.resource import NULL_RESOURCE, Resource
from torchx_core.specs.runopts import runopt, runopts
from torchx_core.specs.sentinels import ALL, MISSING, NONE, UNKNOWN
from torchx_core.specs.spelling import cases
from torchx_core.specs.state import AppState, ReplicaState, is_started, is_terminal
from torchx_core.specs.status import AppStatus, ReplicaStatus, RoleStatus
from torchx_core.specs.workspace import Workspace

__all__ = [
    "ALL",
    "MISSING",
    "NONE",
    "NULL_RESOURCE",
    "TORCHX_HOME",
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
    "cases",
    "get_type_name",
    "is_started",
    "is_terminal",
    "macros",
    "parse_app_handle",
    "runopt",
    "runopts",
]
