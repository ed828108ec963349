"""What to run: an app and its roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeVar

from torchx_core.errors import UnknownReplicaError
from torchx_core.specs.dryrun import AppDryRunInfo
from torchx_core.specs.mounts import Mount
from torchx_core.specs.resource import Resource, null_resource
from torchx_core.specs.sentinels import MISSING
from torchx_core.specs.workspace import Workspace

__all__ = ["AppDef", "RetryPolicy", "Role"]

T = TypeVar("T")


class RetryPolicy(str, Enum):
    """What is started again when a replica fails and retries are left.

    Every scheduler supports APPLICATION; which of the others it supports is its own to say.
    """

    REPLICA = "REPLICA"
    """Only the failed replica; the app itself must cope with members that come and go."""
    APPLICATION = "APPLICATION"
    """All replicas of all roles."""
    ROLE = "ROLE"
    """All replicas of the failed one's role."""


@dataclass
class Role:
    """A number of equal replicas: same program, same image, same needs.

    Args:
        name: Unique in the app, for example ``trainer``.
        image: The software to run in; what it is depends on the scheduler (directory, container image).
        min_replicas: How few replicas will do, where the scheduler can resize a role; None for
            ``num_replicas``.
        entrypoint: The program, inside the image.
        args: Its arguments, passed as they are (no shell); macros are filled in.
        env: Environment variables; macros are filled in.
        num_replicas: How many replicas.
        max_retries: How many times to start again after a failure.
        retry_policy: What to start again.
        resource: What each replica needs.
        port_map: Name -> port that the replicas listen on.
        metadata: Plain data for schedulers that look for it; macros are filled in.
        mounts: What to mount into each replica.
        workspace: Local files to put on top of the image; None for none.
        overrides: Deprecated in TorchX. Field name -> what takes the field's place: a value, a function that
            returns it or an awaitable, which are called or awaited once, when the field is first read.
        base_image: Of TorchX until 2025, and without effect there too: accepted, by its name, and never read.
    """

    name: str
    image: str
    min_replicas: int | None = None
    entrypoint: str = MISSING
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    num_replicas: int = 1
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    resource: Resource = field(default_factory=null_resource)
    port_map: dict[str, int] = field(default_factory=dict[str, int])
    metadata: dict[str, object] = field(default_factory=dict[str, object])
    mounts: list[Mount] = field(default_factory=list[Mount])
    workspace: Workspace | None = None
    overrides: dict[str, object] = field(default_factory=dict[str, object])
    base_image: str | None = field(default=None, kw_only=True, repr=False, compare=False)

    if not TYPE_CHECKING:  # it would allow any attribute

        def __getattribute__(self, name: str) -> object:
            """Return the field, or what `overrides` has for it."""
            overrides = object.__getattribute__(self, "__dict__").get("overrides")
            if overrides and name in overrides and name != "overrides":
                from torchx_core.specs.overrides import read_override  # here: few roles have any

                return read_override(overrides, name)
            return object.__getattribute__(self, name)

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        """Return the request, changed as this role wants it; subclasses override it.

        Called once per role and dry run, in the order of ``AppDef.roles``, in the submitting process. Must be
        deterministic: two dry runs of one app with one app id must give equal requests.

        Args:
            scheduler: Name of the scheduler the request is for.
            dryrun_info: The request so far; may be changed in place.
        """
        del scheduler
        return dryrun_info


@dataclass
class AppDef:
    """An app: a name, one or more roles, and metadata.

    ``app["trainer"]`` and ``"trainer" in app`` look roles up by name; iterate over ``app.roles``.

    Args:
        name: The first part of generated app ids; need not be unique.
        roles: In the order in which they are started.
        metadata: Strings for people and for schedulers that look for them; also overlays, which are maps
            (`torchx_core.specs.overlays`).
    """

    name: str
    roles: list[Role] = field(default_factory=list[Role])
    metadata: dict[str, str] = field(default_factory=dict[str, str])

    __iter__: ClassVar[None] = None
    """``__getitem__`` alone would make Python try ``app[0]``, ``app[1]``, …; this makes it a TypeError."""

    def get_role(self, name: str) -> Role:
        """Return the role of that name.

        Raises:
            UnknownReplicaError: There is none.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise UnknownReplicaError(f"app {self.name!r}", name, None, [role.name for role in self.roles])

    def __getitem__(self, name: str) -> Role:
        """Return the role of that name; see `get_role`."""
        return self.get_role(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a role of that name."""
        return any(role.name == name for role in self.roles)

    def to_dict(self) -> dict[str, object]:
        """Return the whole app as plain JSON values, defaults included."""
        from torchx_core.specs import document  # imported here: it imports this module

        return document.to_dict(self)

    @staticmethod
    def from_dict(data: Mapping[str, object]) -> AppDef:
        """Build an app from what `to_dict` gives; fields with a default may be left out.

        Raises:
            InvalidAppError: With the path of the wrong value, for example ``roles[0].mounts[1].dst_path``.
        """
        from torchx_core.specs import document

        return document.from_dict(data)

    def to_yaml(self) -> str:
        """Return the app as YAML for people: fields that have their default value are left out."""
        from torchx_core.specs import document

        return document.to_yaml(self)

    @staticmethod
    def from_yaml(text: str) -> AppDef:
        """Read an app from YAML; raises as `from_dict` does."""
        from torchx_core.specs import document

        return document.from_yaml(text)

    def to_json(self) -> str:
        """Return the whole app as one line of JSON, defaults included."""
        from torchx_core.specs import document

        return document.to_json(self)

    @staticmethod
    def from_json(text: str) -> AppDef:
        """Read an app from JSON; raises as `from_dict` does."""
        from torchx_core.specs import document

        return document.from_json(text)
