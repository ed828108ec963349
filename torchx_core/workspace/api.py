"""What a scheduler that was written for TorchX mixes in to put a role's workspace into its image.

The runner asks none of this: it builds nothing in a dry run, and TorchX's schedulers want images before one.
`torchx_core.schedulers.api.Scheduler.submit` builds, and so does whoever calls `build_workspaces`.
A scheduler of our own has `torchx_core.schedulers.Scheduler.build_workspace`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Generic, TypeVar

from torchx_core.schedulers.workspaces import IGNORE_FILE
from torchx_core.specs import AppDef, CfgVal, Role, runopts

__all__ = ["TORCHX_IGNORE", "WorkspaceMixin"]

T = TypeVar("T")

TORCHX_IGNORE = IGNORE_FILE


class WorkspaceMixin(Generic[T]):
    """Builds workspaces; the type argument is that of what `dryrun_push_images` returns.

    To implement: `caching_build_workspace_and_update_role`, or the simpler `build_workspace_and_update_role`;
    and where images are pushed to a registry, `dryrun_push_images` and `push_images`.
    """

    def workspace_opts(self) -> runopts:
        """Return the options that building takes, for the scheduler's own."""
        return runopts()

    def build_workspaces(self, roles: list[Role], cfg: Mapping[str, CfgVal]) -> None:
        """Build each role's workspace, if it has one, and change the role's image to what came of it."""
        built: dict[object, object] = {}
        for role in roles:
            if role.workspace:
                self.caching_build_workspace_and_update_role(role, cfg, built)

    def caching_build_workspace_and_update_role(
        self,
        role: Role,
        cfg: Mapping[str, CfgVal],
        build_cache: dict[object, object],  # noqa: ARG002  # for subclasses
    ) -> None:
        """Build the role's workspace, as one directory, by `build_workspace_and_update_role`.

        Args:
            role: It has a workspace; its image is changed.
            cfg: The options.
            build_cache: Empty at first, and the same for all roles of one app: an implementation may keep
                there what it has built, so that it builds once for roles that are alike.
        """
        workspace = role.workspace
        if not workspace:
            return
        if workspace.is_unmapped_single_project():
            self.build_workspace_and_update_role(role, str(workspace), cfg)
            return
        with tempfile.TemporaryDirectory(prefix="torchx-workspace-") as directory:
            workspace.merge_into(directory)
            self.build_workspace_and_update_role(role, directory, cfg)

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Build one directory into an image, and change the role's image to it.

        Raises:
            NotImplementedError: The scheduler has neither this nor the method that calls it.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not build workspaces")

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> T:
        """Give the app's roles the names that their images will have in the registry; push nothing.

        Returns:
            What `push_images` needs to know.

        Raises:
            NotImplementedError: The scheduler pushes no images.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not push images")

    def push_images(self, images_to_push: T) -> None:
        """Push what `dryrun_push_images` has named.

        Raises:
            NotImplementedError: The scheduler pushes no images.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not push images")
